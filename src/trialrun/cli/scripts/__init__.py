"""Scripts of other tools with their options, over `compat`. `examples/` has them under the names that people call."""
