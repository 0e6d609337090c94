"""Rating what was said: what a rater sees, how it answers, and the procedure that asks it."""
