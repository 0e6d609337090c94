"""How good the judge of stances is: it labels replies that careful readers have labelled before.

`Replies` is the procedure (`procedure: replies`): a trial is one labelled reply, so that the calls are journaled, paid
for and repeated like any others. `calibrate` is the pure function from its trials to agreement and error rates.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from trialrun.core.ports import Lab, Outcome
from trialrun.core.reading.catalogue import PartyFacts, ProcedureFacts, SettingFacts
from trialrun.core.study import Trial
from trialrun.procedures.questions.analysis import Judged
from trialrun.procedures.questions.judging import ABSTAINED, JUDGE, stance_of
from trialrun.procedures.questions.stances import STANCES
from trialrun.stats.agreement import (
    Confusion,
    agreement,
    cohen_kappa,
    confusion,
    gwet_ac1,
    krippendorff_alpha,
)
from trialrun.stats.intervals import Estimate

ABSTAIN = "abstain"
LABELS = (*STANCES, ABSTAIN)
FACTS = ProcedureFacts(
    help="The judge of `questions` labels a reply whose label is known.",
    settings={
        "reply": SettingFacts(
            kind="map",
            is_required=True,
            help="A labelled reply, usually a level of a factor.",
            keys={
                "id": SettingFacts(kind="text", is_required=True, help="Short name; the level's label."),
                "question": SettingFacts(kind="text", is_required=True, help="What was asked."),
                "text": SettingFacts(kind="text", is_required=True, help="The reply."),
                "gold": SettingFacts(
                    kind="text", choices=LABELS, help="Its label; without one the judge's alone is kept."
                ),
                "style": SettingFacts(kind="text", help="What makes it easy or hard."),
                "why": SettingFacts(kind="text", help="The reason for the label."),
            },
        )
    },
    parties=PartyFacts(minimum=1, maximum=1, required=(JUDGE,)),
    measures=("label", "agrees"),
)
VERSION = "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Replies:
    """One labelled reply, judged."""

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        reply = cast("Mapping[str, str]", trial.settings["reply"])
        verdict = await stance_of(lab, reply["question"], reply["text"])
        label = ABSTAIN if verdict.note == ABSTAINED else verdict.stance
        lab.measure("label", label, note="" if label else verdict.note)
        gold = reply.get("gold")
        agrees = None if label is None or gold is None else label == gold
        lab.measure("agrees", agrees, note=verdict.note if gold else "its label is not known")
        return Outcome(
            values={
                "reply": reply["id"],
                "gold": gold,
                "style": reply.get("style") or "",
                "label": label,
                "judge": trial.parties[JUDGE].model,
            }
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """One judgement of one labelled reply. `label` is None where no verdict could be had."""

    reply: str
    gold: str
    label: str | None
    style: str = ""
    judge: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a judge's labels are worth."""

    judge: str
    ratings: int
    confusion: Confusion
    """Rows are the known labels, columns the judge's."""
    agreement: Estimate
    kappa: Estimate
    ac1: Estimate
    with_itself: Estimate | None
    """Krippendorff's alpha over repeated judgements of the same reply; None when none was repeated."""
    judged: Judged
    """For correcting rates: sides that were recognised, and sides that were rightly not seen."""
    missed: tuple[tuple[str, int, int], ...]
    """Styles with disagreement: style, how often, of how many; the worst first."""


def calibrate(ratings: Sequence[Rating], *, key: bytes) -> list[Calibration]:
    """One calibration for each judge, in the order in which they come."""
    judges = dict.fromkeys(rating.judge for rating in ratings)
    return [_of_judge(judge, [r for r in ratings if r.judge == judge], key) for judge in judges]


def _of_judge(judge: str, ratings: Sequence[Rating], key: bytes) -> Calibration:
    found = confusion([(rating.gold, rating.label) for rating in ratings], labels=LABELS)
    repeated: dict[str, list[str | None]] = {}
    for rating in ratings:
        repeated.setdefault(rating.reply, []).append(rating.label)
    is_repeated = any(len(labels) > 1 for labels in repeated.values())
    return Calibration(
        judge=judge,
        ratings=len(ratings),
        confusion=found,
        agreement=agreement(found),
        kappa=cohen_kappa(found),
        ac1=gwet_ac1(found),
        with_itself=krippendorff_alpha(list(repeated.values()), key=key) if is_repeated else None,
        judged=judged_of(found),
        missed=_missed(ratings),
    )


def judged_of(found: Confusion) -> Judged:
    """Sensitivity and specificity for "the answer is on this side", both sides together; abstentions take no part."""
    hits = rejections = sides = others = 0
    for side in ("yes", "no"):
        for gold in STANCES:
            for label in STANCES:
                count = found.of(gold, label)
                sides += count * (gold == side)
                hits += count * (gold == side == label)
                others += count * (gold != side)
                rejections += count * (gold != side != label)
    return Judged(hits=(hits, sides), rejections=(rejections, others))


def _missed(ratings: Sequence[Rating]) -> tuple[tuple[str, int, int], ...]:
    judged = [rating for rating in ratings if rating.label is not None]
    wrong = Counter(rating.style for rating in judged if rating.label != rating.gold)
    of = Counter(rating.style for rating in judged)
    in_order = sorted(wrong, key=lambda style: (-wrong[style], style))
    return tuple((style, wrong[style], of[style]) for style in in_order)
