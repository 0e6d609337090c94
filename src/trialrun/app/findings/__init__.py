"""What came out of a study, read from its folder: tables, frames, files, ratings."""
