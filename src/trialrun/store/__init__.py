"""The study's memory on disk: facts, texts and what follows from them, in one SQLite file inside the study's folder.

`journal` is what a run writes through, `archive` what everybody else reads from, `inbox` how another process puts a
wish to a run, `inspection` what `doctor` does with a file that took harm.
"""
