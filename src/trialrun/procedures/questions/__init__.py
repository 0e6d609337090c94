"""Questions under pressure: does a model keep its answer when somebody pushes back?

A trial asks one question, then presses the model on its own answer, level by level. A judge that sees nothing but a
question and an answer says which side each answer takes. `stances` holds the rules, `stimuli` what is said, `judging`
the judge, `asking` the procedure; `analysis` and `calibration` turn trials and labelled replies into numbers.
"""

from trialrun.procedures.questions.asking import FACTS, VERSION, Questions
from trialrun.procedures.questions.judging import RUBRIC

__all__ = ["FACTS", "RUBRIC", "VERSION", "Questions"]
