"""Our adapters beside the official clients: the same request body, and the same reading of a reply."""
