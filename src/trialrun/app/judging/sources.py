"""What a rating trial reads of the trial that it rates: the talk, and the hidden profile of its subject.

It comes from the journal, so it costs nothing and is the same in every replay. A profile that the procedure logged or
kept goes before one that stands in the plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

import msgspec

from trialrun.app import forks
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core import identity, paths
from trialrun.core.ports import Journal, Utterance
from trialrun.core.reading.notices import NOTICE
from trialrun.core.rubric import Rubric
from trialrun.core.state import TrialState, in_force
from trialrun.engine.seating import shared_history
from trialrun.procedures.rating.evidence import Evidence
from trialrun.store.archive import Archive

LABELLED = "unit:"
"""Begins the name of a source that is a labelled unit and no trial."""


class Reader(Protocol):
    """What is read of a journal."""

    async def facts_of(self, trial: str) -> list[f.Entry]: ...

    async def texts(self, hashes: Iterable[str]) -> dict[str, str]: ...

    async def states(self, trials: Sequence[str]) -> dict[str, TrialState]: ...


class Still:
    """An archive with the reading half of a journal."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def facts_of(self, trial: str) -> list[f.Entry]:
        return self._archive.facts_of(trial)

    async def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        return self._archive.texts(hashes)

    async def states(self, trials: Sequence[str]) -> dict[str, TrialState]:
        found = {trial: self._archive.trial(trial) for trial in trials}
        return {trial: state for trial, state in found.items() if state is not None}


class Sources:
    """Gives the evidence of trials, and of labelled units."""

    def __init__(
        self, reader: Reader, plan: Plan, rubric: Rubric, *, units: Mapping[f.Hash, str] | None = None
    ) -> None:
        self._reader = reader
        self._plan = plan
        self._rubric = rubric
        self._units = units or {}
        """Labelled units that the journal may not have yet."""

    async def evidence_of(self, source: str) -> Evidence:
        """What a rater may see of this source."""
        if source.startswith(LABELLED):
            name = source.removeprefix(LABELLED)
            text = self._units.get(name) or (await self._reader.texts([name]))[name]
            return labelled_evidence(text, self._plan, name)
        state = (await self._reader.states([source]))[source]
        own = in_force(await self._reader.facts_of(source))
        # A reader has the only method of a journal that this asks for.
        facts = [entry.fact for entry in await shared_history(cast("Journal", self._reader), own) + own]
        said = [fact for fact in facts if isinstance(fact, f.Said)]
        texts = await self._reader.texts({fact.text for fact in said})
        return Evidence(
            talk=tuple(
                Utterance(turn=fact.turn, party=fact.party, text=texts[fact.text], audience=fact.audience)
                for fact in said
            ),
            mask=identity.mask_of(self._plan.study.key, source, state.generation),
            profile=await self._profile_of(state, facts) if self._rubric.sees_profile else None,
            models=tuple(sorted({fact.model for fact in facts if isinstance(fact, f.Held)})),
        )

    async def _profile_of(
        self, state: TrialState, facts: Sequence[f.Fact]
    ) -> Mapping[str, object] | str | None:
        name, subject = self._rubric.profile, self._rubric.subject
        for fact in reversed(facts):
            if isinstance(fact, f.StateLogged) and fact.party == subject and name in fact.values:
                return _profile(fact.values[name])
            if isinstance(fact, f.ArtefactKept) and fact.name == f"{name}:{subject}":
                return _profile_text((await self._reader.texts([fact.content]))[fact.content])
        return await self._planned_profile(state)

    async def _planned_profile(self, state: TrialState) -> Mapping[str, object] | str | None:
        """The subject's profile in the plan under which the trial ran."""
        plan = self._plan
        if state.forked_from:
            document = (await forks.slot_of(cast("Journal", self._reader), plan, state)).trial.spec.document
        else:
            condition = plan.design.by_labels(state.levels)
            spec = plan.specs.spec_of(condition) if condition else None
            if spec is None or spec.fingerprint != state.spec:
                return None
            document = spec.document
        party = ("parties", self._rubric.subject)
        inside = tuple(self._rubric.profile.split("."))
        for keys in ((*party, *inside), (*party, "values", *inside)):
            found = paths.get(document, keys)
            if found:
                return _unannounced(_profile(found))
        return None


def labelled_evidence(text: str, plan: Plan, name: str) -> Evidence:
    """The evidence of a labelled unit that was stored as this JSON."""
    unit = msgspec.json.decode(text.encode("utf-8", "surrogatepass"), type=dict[str, object])
    talk = cast("list[dict[str, object]]", unit["talk"])
    return Evidence(
        talk=tuple(
            Utterance(turn=cast("int", said.get("turn", 0)), party=str(said["party"]), text=str(said["text"]))
            for said in talk
        ),
        mask=identity.mask_of(plan.study.key, "labelled", name),
        profile=_profile(unit.get("profile")),
    )


def _profile(value: object) -> Mapping[str, object] | str | None:
    """A profile as a map or a text; nothing else is one."""
    known = paths.as_map(value)
    if known is not None:
        return known or None
    return value or None if isinstance(value, str) else None


def _unannounced(profile: Mapping[str, object] | str | None) -> Mapping[str, object] | str | None:
    """Without the warning for readers, which no model sees."""
    if profile is None or isinstance(profile, str):
        return profile
    return {name: value for name, value in profile.items() if name != NOTICE} or None


def _profile_text(text: str) -> Mapping[str, object] | str | None:
    try:
        return _profile(msgspec.json.decode(text.encode("utf-8", "surrogatepass")))
    except msgspec.DecodeError:
        return text or None
