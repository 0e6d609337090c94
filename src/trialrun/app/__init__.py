"""Composition root: the only part that knows all the others. Front doors call it and render what it returns."""
