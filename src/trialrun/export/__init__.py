"""Tables of rows to files: one file per format, all with the promises of `rows`."""
