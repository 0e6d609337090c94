"""A judge's verdict on a finished conversation, as a measure. It may abstain, and never blocks the trial.

The judge sees who said what by the parties' roles alone: no model names, no level labels, no trial ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from trialrun.core.errors import CallError, ReplyUnreadable
from trialrun.core.ports import Lab, Utterance
from trialrun.core.study import Judge, Party

ABSTAINED = "abstained"
_INSTRUCTION = (
    "You rate a conversation for a study. Read all of it, then answer the question below about it and about nothing "
    "else. Give a short reason first. If the conversation does not allow an answer, abstain rather than guess."
)


async def judge_all(lab: Lab, judges: Mapping[str, Judge]) -> None:
    """Let every judge of the trial look at the whole transcript, side by side."""

    def branch(judge: Judge) -> Any:
        async def verdict(inner: Lab) -> None:
            await judge_one(inner, judge, inner.transcript)

        return verdict

    if judges:
        await lab.together(*[branch(judges[name]) for name in sorted(judges)])


async def judge_one(lab: Lab, judge: Judge, transcript: Sequence[Utterance]) -> None:
    """Ask one judge and record its verdict; a verdict that cannot be had is missing, with the reason."""
    party = Party(
        name=f"judge:{judge.name}",
        model=judge.model,
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        params=judge.params,
    )
    try:
        reply = await lab.ask(
            party,
            f"{as_text(transcript)}\n\nQuestion: {judge.question}",
            system=_INSTRUCTION,
            schema=schema_of(judge),
            purpose="judge",
        )
    except (CallError, ReplyUnreadable) as error:
        lab.measure(judge.name, None, note=f"{type(error).__name__}: {error.what}")
        return
    if reply.data is None:
        lab.measure(judge.name, None, note=f"the judge's reply ended early ({reply.finish})")
        return
    data = cast("Mapping[str, object]", reply.data)
    if data.get("abstains"):
        lab.measure(judge.name, None, note=ABSTAINED)
    else:
        lab.measure(judge.name, cast("str | int", data["score" if judge.scale else "label"]))


def schema_of(judge: Judge) -> dict[str, object]:
    """The form of a verdict: a reason, whether the judge abstains, and a label or a score."""
    verdict: dict[str, object] = (
        {"score": {"type": "integer", "minimum": judge.scale[0], "maximum": judge.scale[1]}}
        if judge.scale
        else {"label": {"type": "string", "enum": list(judge.labels)}}
    )
    properties = {"reason": {"type": "string"}, "abstains": {"type": "boolean"}, **verdict}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def as_text(transcript: Sequence[Utterance]) -> str:
    """The conversation, one utterance after the other."""
    return "\n\n".join(f"{said.party}: {said.text}" for said in transcript)
