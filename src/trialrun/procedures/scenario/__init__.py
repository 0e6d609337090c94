"""Scenario simulations: actors with goals and secrets, a narrated world, talks, events, metrics and quality checks.

`procedure` says what a trial is; `reading` brings the files of a scenario into the nouns of `world`.
"""

from trialrun.procedures.scenario.procedure import FACTS, VERSION, Scenario

__all__ = ["FACTS", "VERSION", "Scenario"]
