"""Which fault happens to a request: drawn by the seed and the request itself, whatever the order of arrival.

F1. Shares depend on the seed, the rule and the request with its repetition: the same requests meet the same faults.
F2. Counts (`nth`, `every`, `first`, `after`, `times`) depend on the order of arrival, and on nothing else.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from trialrun.core import chance
from trialrun.testing.emulator.asked import Asked
from trialrun.testing.emulator.script import Rule, Step


class Faults:
    """The rules of a script, and how often each has applied."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._seen = [0] * len(rules)
        self._happened = [0] * len(rules)

    def pick(
        self,
        asked: Asked,
        *,
        key: str,
        arrival: bytes,
        repeat: int,
        elapsed_s: float,
        step: Step = "reply",
        batch: int = 0,
    ) -> Rule | None:
        """The fault for this request, which arrives for the `repeat`th time (from 1), if there is one.

        `batch` is the number of the batch to which it belongs, from 1.
        """
        for number, rule in enumerate(self._rules):
            if rule.step != step or (rule.batches and batch not in rule.batches):
                continue
            if not _fits(rule, asked, key, elapsed_s):
                continue
            self._seen[number] += 1
            if self._applies(number, rule, arrival, repeat):
                self._happened[number] += 1
                return rule
        return None

    def _applies(self, number: int, rule: Rule, arrival: bytes, repeat: int) -> bool:
        seen = self._seen[number]
        return (
            seen > rule.after
            and (rule.first is None or seen <= rule.first)
            and (not rule.nth or seen in rule.nth)
            and (not rule.every or seen % rule.every == 0)
            and (rule.times is None or self._happened[number] < rule.times)
            and (rule.attempts is None or repeat <= rule.attempts)
            and rule.share > 0
            and (rule.share >= 1 or chance.fraction(chance.derive(arrival, "fault", number)) < rule.share)
        )


def _fits(rule: Rule, asked: Asked, key: str, elapsed_s: float) -> bool:
    return (
        rule.from_s <= elapsed_s < rule.until_s
        and (rule.provider == "*" or fnmatchcase(asked.provider, rule.provider))
        and (rule.model == "*" or fnmatchcase(asked.model, rule.model))
        and (rule.key == "*" or fnmatchcase(key, rule.key))
        and (not rule.text or any(rule.text in message.text for message in asked.messages))
    )
