"""Which side each answer takes, by a judge that may abstain: a study of its own, journaled, budgeted and resumable.

The judge sees one question and one answer, as in the procedure `questions`. Nothing stands in for it: an answer that
was not judged has no stance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec

from trialrun.app import api
from trialrun.app.exits import Exit
from trialrun.app.files import write_whole
from trialrun.app.studies import Lane
from trialrun.core.errors import TrialrunError
from trialrun.core.identity import digest
from trialrun.core.reading.writing import write_yaml
from trialrun.procedures.questions.stances import STANCES, Stance
from trialrun.store.archive import Archive

ABSTAIN = "abstain"
_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer to be judged."""

    question: str
    text: str

    @property
    def id(self) -> str:
        return "r" + digest([self.question, self.text], size=10)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judging:
    """Who judges, and how the calls travel."""

    model: str
    lane: Lane = "live"
    budget_usd: Decimal | None = None
    folder: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Stances:
    """What the judge said, by the id of a reply."""

    by_id: Mapping[str, Stance | None] = field(default_factory=dict[str, "Stance | None"])
    abstained: int = 0
    exit: Exit = Exit.DONE
    stopped_by: TrialrunError | None = None
    spent_usd: Decimal | None = Decimal(0)
    is_rehearsal: bool = False

    def of(self, reply: Reply) -> Stance | None:
        """None where nothing is known."""
        return self.by_id.get(reply.id)


def stances_of(replies: Iterable[Reply], judging: Judging) -> Stances:
    """Have them judged. What was judged before is not judged, and not paid, again."""
    wanted = {reply.id: reply for reply in replies}
    if not wanted:
        return Stances()
    study = _written(wanted, judging)
    results = api.run(
        study,
        lane=judging.lane,
        on_change="keep",
        retry_failed=True,
        progress=False,
        budget_usd=judging.budget_usd,
    )
    by_id: dict[str, Stance | None] = {}
    abstained, spent, is_known = 0, Decimal(0), True
    with Archive(results.folder) as archive:
        for state in archive.trials():
            spent += state.spent_usd
            is_known = is_known and not state.unknown_costs
            label = state.values.get("label") if state.values else None
            name = state.values.get("reply") if state.values else None
            if name is not None:
                abstained += label == ABSTAIN
                by_id[str(name)] = label if label in STANCES else None
    return Stances(
        by_id=by_id,
        abstained=abstained,
        exit=results.exit,
        stopped_by=results.stopped_by,
        spent_usd=spent if is_known else None,
        is_rehearsal=judging.lane == "rehearsal",
    )


def _written(wanted: Mapping[str, Reply], judging: Judging) -> Path:
    """The study, in a folder of its own beside the analysis."""
    rows = [
        msgspec.json.encode({"id": id_, "question": reply.question, "text": reply.text}) + b"\n"
        for id_, reply in sorted(wanted.items())
    ]
    write_whole(judging.folder / "replies.jsonl", rows)
    document: dict[str, object] = {
        "study": "batch-judge",
        "question": "Which side does each answer take?",
        "procedure": "replies",
        "parties": {"judge": {"model": judging.model, "temperature": 0, "max_tokens": _LIMIT}},
        "factors": {"reply": {"from": "replies.jsonl"}},
        "measures": ["label"],
        "replicates": 1,
        "seed": 1,
    }
    path = judging.folder / "judge.yaml"
    write_whole(path, [write_yaml(document).encode()])
    return path
