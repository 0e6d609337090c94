"""Runs experiments on language models as experiments: budgeted, resumable, ending in numbers to publish."""
