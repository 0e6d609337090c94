"""The only door to money: hold, pace, send, journal and settle, and only then hand over."""
