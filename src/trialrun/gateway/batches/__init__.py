"""The batch lane: calls travel together, for half the price, and their trials wait without holding anything."""
