"""From the text of a file to nouns: study files, rubrics, entries. Every mistake at once, with its line and fix."""
