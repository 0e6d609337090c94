"""HTTP as calls need it: pooled, with no retry that nobody asked for, at a third of the CPU of a general client."""
