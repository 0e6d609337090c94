"""Measures what the documentation claims, as ratios within one run: `./dev python -m bench`."""
