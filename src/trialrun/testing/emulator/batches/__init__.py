"""Files, batches and object storage of the providers: state follows from the clock when somebody looks."""
