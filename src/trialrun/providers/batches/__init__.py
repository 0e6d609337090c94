"""The batch APIs of the providers, one file each, behind `core.batches.BatchRoute`."""
