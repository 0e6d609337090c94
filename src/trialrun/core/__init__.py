"""Pure nouns, rules and protocols: no clock, randomness, disk or network. Everything else stands on this row."""
