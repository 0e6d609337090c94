"""The procedure of a trial that rates another one: shuffles what it asks, asks side by side, and records ratings.

A provider that is busy or out of reach fails the trial, and it is taken up again later; what was answered stays. An
answer that cannot be used, or that a model refuses to give, is a rating without a value: asking again would bring the
same.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from trialrun.core.errors import ProcedureError, ReplyUnreadable, RequestRefused
from trialrun.core.ports import Lab, Outcome, Stream
from trialrun.core.rubric import Missing, Rating, Rubric
from trialrun.core.study import Trial
from trialrun.procedures.rating import recovery, sheets
from trialrun.procedures.rating.evidence import Evidence, Unit, units_of
from trialrun.procedures.rating.sheets import Sheet

VERSION = "1"
RATER = "rater"
"""The party that rates; its model is the rater's."""
SOURCE = "source"
"""The setting that names the trial which is rated."""
_TOKENS, _TOKENS_EACH = 800, 200
"""Room for a reply, and for each explanation in it: what is cut is paid and lost, so it is ample."""
T = TypeVar("T")


class Rater:
    """Rates the evidence of a trial by a rubric."""

    def __init__(self, rubric: Rubric, evidence_of: Callable[[str], Awaitable[Evidence]]) -> None:
        self._rubric = rubric
        self._evidence_of = evidence_of

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        """Rate every unit. The evidence is what the journal has of another trial, so it is the same in every replay."""
        rubric = self._rubric
        evidence = await self._evidence_of(str(trial.settings[SOURCE]))
        if rubric.sees_profile and evidence.profile is None:
            raise ProcedureError(
                f"the trial has no `{rubric.profile}` of `{rubric.subject}`",
                fix="say in the rubric where it stands (`profile: ...`), or remove `needs` and `truth`",
            )
        units = units_of(evidence, rubric)
        asked = sheets_of(rubric, units, lab.random("order"))
        found = await lab.together(*[self._branch(sheet, evidence, units) for sheet in asked])
        ratings = [rating for several in found for rating in several]
        return Outcome(
            values={
                "units": len(units),
                "ratings": len(ratings),
                "abstained": sum(rating.missing == "abstained" for rating in ratings),
                "missing": sum(bool(rating.missing) for rating in ratings),
            },
            end_reason="rated" if units else "nothing_to_rate",
        )

    def _branch(self, sheet: Sheet, evidence: Evidence, units: Sequence[Unit]) -> Any:
        async def rated(lab: Lab) -> list[Rating]:
            ratings = await self._rated(lab, sheet, evidence, units)
            for rating in ratings:
                lab.rate(rating)
            return ratings

        return rated

    async def _rated(self, lab: Lab, sheet: Sheet, evidence: Evidence, units: Sequence[Unit]) -> list[Rating]:
        try:
            reply = await lab.ask(
                RATER,
                sheets.prompt_of(sheet, evidence, self._rubric, units),
                system=sheets.system_of(self._rubric),
                schema=sheets.schema_of(sheet),
                purpose="judge",
                max_tokens=self._room(len(sheet.units) * len(sheet.items)),
            )
        except (ReplyUnreadable, RequestRefused) as error:
            return sheets.missing(sheet, _why(error), note=error.what)
        ratings = sheets.ratings_of(sheet, reply)
        compared = {item.id: item for item in sheet.items if item.truth}
        for rating in list(ratings):
            if rating.item in compared:
                ratings += await self._recovered(lab, sheet, rating, evidence)
        return ratings

    async def _recovered(self, lab: Lab, sheet: Sheet, rating: Rating, evidence: Evidence) -> list[Rating]:
        """How much of the profile this extraction holds; unknown where there is no extraction."""
        item = next(item for item in sheet.items if item.id == rating.item)
        if rating.missing:
            unknown = dict.fromkeys(item.fields, (None, rating.missing, ""))
            return recovery.recovered(rating, unknown, "")
        found = cast("dict[str, list[str]]", rating.value)
        pairs, settled = recovery.pairs_of(item, found, evidence.profile, lab.random(f"pairs:{item.id}"))
        fields: dict[str, tuple[float | None, Missing, str]] = {
            field: (None if why else 0.0, why, "") for field, why in settled
        }
        call = ""
        if pairs:
            try:
                reply = await lab.ask(
                    RATER,
                    recovery.prompt_of(pairs),
                    system=recovery.SYSTEM,
                    schema=recovery.schema_of(pairs),
                    purpose="judge",
                    max_tokens=self._room(len(pairs)),
                )
                fields |= recovery.compared(pairs, reply)
                call = reply.address
            except (ReplyUnreadable, RequestRefused) as error:
                fields |= {pair.field: (None, _why(error), error.what) for pair in pairs}
        return recovery.recovered(rating, {field: fields[field] for field in item.fields}, call)

    def _room(self, answers: int) -> int:
        """How long the reply to so many questions may be."""
        return self._rubric.max_tokens or _TOKENS + _TOKENS_EACH * answers


def sheets_of(rubric: Rubric, units: Sequence[Unit], draw: Stream) -> list[Sheet]:
    """What is asked in which order: each sheet is one call."""
    if not units:
        return []
    by_unit = [[unit] for unit in units] if rubric.granularity != "turn" else [list(units)]
    by_item = [[item] for item in rubric.items] if rubric.is_asked_apart else [list(rubric.items)]
    plan = [(unit, items) for unit in by_unit for items in by_item]
    plan = plan if rubric.is_order_fixed else shuffled(plan, draw)
    return [
        Sheet(
            units=tuple(several),
            items=tuple(items if rubric.is_order_fixed else shuffled(items, draw)),
            labels={
                item.id: item.labels if rubric.is_order_fixed else tuple(shuffled(item.labels, draw))
                for item in items
                if item.labels
            },
            order=order,
        )
        for order, (several, items) in enumerate(plan, start=1)
    ]


def shuffled(things: Sequence[T], draw: Stream) -> list[T]:
    """The same things in a drawn order."""
    drawn = list(things)
    draw.shuffle(drawn)
    return drawn


def _why(error: ReplyUnreadable | RequestRefused) -> Missing:
    return "unreadable" if isinstance(error, ReplyUnreadable) else "refused"
