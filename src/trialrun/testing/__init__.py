"""Fakes, faults and the contract suite of each port: what tests of Trialrun, and of plugins to it, are made from."""
