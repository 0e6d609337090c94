"""The batch lane."""
