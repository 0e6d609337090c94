"""bad: a poor therapist, as a control. A measure of quality that does not tell it from the others measures nothing."""

from trialrun.core.reading.catalogue import MethodFacts
from trialrun.procedures.therapy.therapists.basic import Basic

FACTS = MethodFacts(help="A poor therapist, as a control.")


class Bad(Basic):
    """Hurries, advises, compares and does not listen; never cruel, and never dangerous."""

    prompt = "therapists.bad"
