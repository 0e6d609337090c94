"""What is already known of a trial, by address: the answers of a replay."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trialrun.core import facts as f
from trialrun.core.calls import Request, Role
from trialrun.core.identity import place_of, text_hash
from trialrun.core.rubric import UNANSWERED
from trialrun.engine.repairs import repair_address


@dataclass(kw_only=True, slots=True)
class Record:
    """The facts of one trial that are in force, indexed for replay."""

    replies: dict[str, f.Settled] = field(default_factory=dict[str, f.Settled])
    gave_up: dict[str, f.GaveUp] = field(default_factory=dict[str, f.GaveUp])
    attempts: dict[str, int] = field(default_factory=dict[str, int])
    requests: dict[str, f.Held] = field(default_factory=dict[str, f.Held])
    deeds: dict[str, f.TrialFact] = field(default_factory=dict[str, f.TrialFact])
    """Said, Measured, Rated, StateLogged, ArtefactKept, Ticked, TurnBegan, Asked, ActBegan: one at each address."""
    answers: dict[str, f.Answered] = field(default_factory=dict[str, f.Answered])
    results: dict[str, f.ActEnded] = field(default_factory=dict[str, f.ActEnded])
    failed_acts: set[str] = field(default_factory=set[str])
    """Acts that raised, of a trial that was retried: they are over, and are done again."""
    cut_acts: set[str] = field(default_factory=set[str])
    """Acts that were cut off before the trial was retried: a person has looked."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    _left: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Attempts that belong to this record. A batch may bring the reply to one from before the trial began anew."""

    @classmethod
    def of(
        cls, entries: Iterable[f.Entry], texts: Mapping[str, str], *, before: Iterable[f.Entry] = ()
    ) -> "Record":
        """The record of these entries. `before` are those that count no more: only their attempts are remembered,
        as no number is given twice."""
        record = cls(texts=texts)
        for entry in before:
            if isinstance(entry.fact, f.Held):
                record._count(entry.fact)
        for entry in entries:
            record._take(entry.fact)
        return record

    @property
    def is_empty(self) -> bool:
        return not (self.attempts or self.deeds)

    def addresses(self) -> set[str]:
        """Everything that happened in the trial, for the check that a replay came by all of it."""
        return set(self.replies) | set(self.gave_up) | set(self.deeds)

    def request_at(self, address: str) -> list[tuple[Role, f.Hash]]:
        """The messages of the call at this address, put together from the differences."""
        held = self.requests.get(address)
        if held is None or held.request is None:
            return []
        delta = held.request
        before = self.request_at(delta.base)[: delta.keep] if delta.base else []
        return before + list(delta.add)

    def _take(self, fact: f.Fact) -> None:
        match fact:
            case f.Held():
                self._count(fact)
                self._left.add((fact.at, fact.attempt))
                if fact.request is not None:
                    self.requests[fact.at] = fact
            case f.Released() if fact.error == f.NEVER_SENT:
                self.attempts[fact.at] = fact.attempt - 1
            case f.Settled() if (fact.at, fact.attempt) in self._left:
                self.replies[fact.at] = fact
            case f.GaveUp():
                self.gave_up[fact.at] = fact
            case f.Answered():
                # The first one: it is what the procedure heard.
                self.answers.setdefault(fact.at, fact)
            case f.ActEnded():
                self.results[fact.at] = fact
            case f.Retried():
                self._forget_failures()
                self._forget_unanswered()
            case (
                f.Said() | f.Measured() | f.Rated() | f.StateLogged() | f.ArtefactKept() | f.Ticked()
                | f.TurnBegan() | f.Asked() | f.ActBegan()
            ):  # fmt: skip
                self.deeds[fact.at] = fact
            case _:
                pass

    def _count(self, held: f.Held) -> None:
        self.attempts[held.at] = max(self.attempts.get(held.at, 0), held.attempt)

    def _forget_failures(self) -> None:
        """A retried trial does again what broke; what was answered, if only in a repair, stays answered."""
        self.gave_up.clear()
        self.failed_acts |= {at for at, ended in self.results.items() if ended.error}
        self.results = {at: ended for at, ended in self.results.items() if not ended.error}
        began = {at for at, deed in self.deeds.items() if isinstance(deed, f.ActBegan)}
        self.cut_acts |= began - self.results.keys() - self.failed_acts
        usable = {at for at, settled in self.replies.items() if not settled.unreadable}
        self.replies = {
            at: settled
            for at, settled in self.replies.items()
            if at in usable or repair_address(at) in usable
        }

    def _forget_unanswered(self) -> None:
        """Where a reply gave no rating, it is asked for again, with what came after it in its branch; and that branch
        rates anew: a mean over some ratings changes with each of them."""
        rated = [deed for deed in self.deeds.values() if isinstance(deed, f.Rated)]
        first: dict[str, int] = {}
        for rating in rated:
            if rating.missing in UNANSWERED:
                branch, number = _branch_of(rating.call or rating.at)
                first[branch] = min(number, first.get(branch, number))
        for known in (self.replies, self.requests):
            for at in [at for at in known if _is_from(first, at)]:
                del known[at]
        for rating in rated:
            if _branch_of(rating.at)[0] in first:
                del self.deeds[rating.at]


def _branch_of(address: str) -> tuple[str, int]:
    """The branch of a trial in which an address stands, and its place there."""
    *branch, number = place_of(address)
    return ".".join(map(str, branch)), number


def _is_from(first: Mapping[str, int], address: str) -> bool:
    branch, number = _branch_of(address)
    return branch in first and number >= first[branch]


def hashes_of(entries: Iterable[f.Entry]) -> set[f.Hash]:
    """The texts that a replay needs: those of replies, and what came beside them."""
    settled = [entry.fact for entry in entries if isinstance(entry.fact, f.Settled)]
    return {name for fact in settled for name in (fact.text, fact.extras) if name}


def what_changed(record: Record, address: str, request: Request) -> str:
    """How a request differs from the one recorded at its address, in words."""
    held = record.requests.get(address)
    if held is None or held.request is None:
        return "nothing was asked here before"
    then = held.request
    fields: list[tuple[str, object, object]] = [
        ("model", held.model, request.model),
        ("max_tokens", then.max_tokens, request.max_tokens),
        ("temperature", then.temperature, request.temperature),
        ("top_p", then.top_p, request.top_p),
        ("stop", then.stop, request.stop),
        ("schema", then.schema, request.schema),
        ("params", then.params, request.params),
        ("tools", then.tools, request.tools or ()),
    ]
    changed = [f"{name}: {old!r} became {new!r}" for name, old, new in fields if old != new]
    old_messages = record.request_at(address)
    new_messages = [(message.role, text_hash(message.stored)) for message in request.messages]
    for number, (old, new) in enumerate(zip(old_messages, new_messages, strict=False), start=1):
        if old != new:
            changed.append(f"message {number} ({new[0]}) has another text")
            break
    if len(old_messages) != len(new_messages):
        changed.append(f"{len(old_messages)} messages became {len(new_messages)}")
    return "; ".join(changed) or "the request is spelled differently"
