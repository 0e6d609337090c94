"""What a rule or a limit comes down to: the trouble that is told, or another ending of the same answer."""

import math

import msgspec

from trialrun.providers.reading import BYTES_PER_TOKEN, tokens_of
from trialrun.testing.emulator.asked import Answer, Trouble
from trialrun.testing.emulator.limits import Admission
from trialrun.testing.emulator.script import SAID, Rule

_REFUSAL = "I am sorry, but I cannot help with that."


def said(rule: Rule, model: str) -> Trouble:
    kind = rule.fault
    assert kind in SAID
    return Trouble(
        kind=kind,  # pyright: ignore[reportArgumentType]  # the assertion above is not seen as a narrowing
        message=rule.message,
        model=model,
        status=rule.status,
        wait_s=rule.wait_s,
        wait_as=rule.wait_as,
    )


def too_many(admission: Admission, model: str) -> Trouble:
    standing = admission.refused_by
    assert standing is not None
    if math.isinf(standing.wait_s):
        # No wait is told: it would be refused then, too.
        limit = f"Limit {int(standing.limit)}"
        return Trouble(
            kind="throttled",
            model=model,
            message=f"Request too large for {model} on {standing.unit} per {standing.per}: {limit}.",
            limit=standing.unit,
        )
    return Trouble(
        kind="throttled", model=model, wait_s=standing.wait_s, limit=standing.unit, per=standing.per
    )


def ended(answer: Answer, rule: Rule) -> Answer:
    """The same answer with the ending that the rule wants."""
    usage = answer.usage
    match rule.fault:
        case "refusal":
            text = rule.message or _REFUSAL
            usage = msgspec.structs.replace(usage, tokens_out=usage.tokens_reasoning + tokens_of(text))
            return msgspec.structs.replace(answer, text=text, finish="refusal", usage=usage)
        case "length":
            text = answer.text[: int(len(answer.text) * rule.keep)]
            left = usage.tokens_reasoning + -(-len(text) // BYTES_PER_TOKEN)
            usage = msgspec.structs.replace(usage, tokens_out=min(usage.tokens_out, left))
            return msgspec.structs.replace(answer, text=text, finish="length", usage=usage)
        case _:
            return answer
