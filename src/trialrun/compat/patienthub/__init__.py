"""PatientHub: its batches as studies, its files as a view of the journal, and its importable names."""
