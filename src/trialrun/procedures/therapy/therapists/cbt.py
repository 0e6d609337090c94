"""CBT: a cognitive behavioural therapist with one careful prompt."""

from trialrun.core.reading.catalogue import MethodFacts
from trialrun.procedures.therapy.therapists.basic import Basic

FACTS = MethodFacts(help="A cognitive behavioural therapist.")


class CBT(Basic):
    """Validates, separates situation, thought, feeling and deed, asks, weighs, and ends with a small step."""

    prompt = "therapists.cbt"
