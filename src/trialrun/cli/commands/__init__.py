"""One module per command: its arguments, the call of `app`, and what is shown of the answer."""
