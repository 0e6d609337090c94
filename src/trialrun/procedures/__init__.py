"""Kinds of experiment, one file each: what happens inside a trial. They know the lab and nothing else."""
