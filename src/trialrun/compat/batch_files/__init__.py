"""Provider batches as files, for people who want to see and keep every line: create, submit, check, download, process.

A study in the batch lane does all of this by itself, under a budget and a journal. Here a person holds the files, and
what is out is kept in `batch_tracking.json`.
"""
