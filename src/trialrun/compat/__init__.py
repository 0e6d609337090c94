"""File formats and importable names of other tools, over app. `compat.registry` lists the plan formats."""
