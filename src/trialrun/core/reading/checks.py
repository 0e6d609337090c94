"""What a study file names that has to be somewhere else: procedures in files, values for templates, measures."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from trialrun.core import paths
from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.catalogue import ProcedureFacts
from trialrun.core.reading.factors import FactorDraft
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.rules import place_of_procedure
from trialrun.core.reading.texts import Texts, names_in

Data = Mapping[str, object]
Facts = Sequence[ProcedureFacts | None]
"""What is known about each procedure that some condition uses; None for one that does not exist."""

_DEFINED = r"^(?:async\s+def|def|class)\s+{0}\b|^{0}\s*[:=]"
_ANY_DEFINED = re.compile(r"^(?:async\s+def|def|class)\s+([A-Za-z]\w*)", re.MULTILINE)


def check_procedures(used: Mapping[str, Path], texts: Texts, mistakes: Mistakes) -> None:
    """A procedure of the user must be in its file. `used`: procedure → where the file names it."""
    for procedure, at in used.items():
        place = place_of_procedure(procedure)
        if place is None:
            continue
        file, name = place
        text = texts.read(file)
        if text is None:
            mistakes.add(
                f"there is no file `{file}`", at, texts.missing_fix(file, "create it beside the study file")
            )
        elif not re.search(_DEFINED.format(name), text, re.MULTILINE):
            names: list[str] = _ANY_DEFINED.findall(text)
            fix = pick(name, names, otherwise=f"define `{name}` in it")
            mistakes.add(f"`{file}` defines no `{name}`", at, fix)


def check_templates(document: Data, drafts: Sequence[FactorDraft], facts: Facts, mistakes: Mistakes) -> None:
    """Names that a prompt asks for and nobody gives."""
    if any(one is None or one.are_settings_free for one in facts):
        return  # what an undescribed procedure fills in, nobody knows
    filled_in = {name for one in facts if one for name in one.variables}
    parties = as_map(document.get("parties")) or {}
    for party in parties:
        given = set(filled_in)
        prompts: list[tuple[str, Path]] = []
        for keys, value, at in _about(party, parties, drafts):
            given.update(_values_in(keys, value))
            prompts += _prompts_in(keys, value, at)
        for prompt, at in prompts:
            for name in sorted(names_in(prompt) - given):
                fix = pick(name, sorted(given), otherwise=f"add `parties.{party}.values.{name}`")
                mistakes.add(f"the prompt of `{party}` asks for `{name}`, which nobody gives", at, fix)


def _about(
    party: str, parties: Data, drafts: Sequence[FactorDraft]
) -> Iterator[tuple[paths.Keys, object, Path]]:
    """Everything that the file or a level sets of this party: where in the study, what, and where the file says so."""
    yield ("parties", party), parties[party], ("parties", party)
    for draft in drafts:
        for level in draft.levels:
            for setting in level.settings:
                if setting.keys[:2] == ("parties", party):
                    yield setting.keys, setting.value, setting.at


def _values_in(keys: paths.Keys, value: object) -> set[str]:
    match keys:
        case (_, _, "values", name, *_):
            return {name}
        case (_, _, "values"):
            return set(as_map(value) or ())
        case (_, _):
            return _values_in((*keys, "values"), paths.get(value, ("values",)))
        case _:
            return set()


def _prompts_in(keys: paths.Keys, value: object, at: Path) -> list[tuple[str, Path]]:
    match keys:
        case (_, _, "prompt"):
            return [(value, at)] if isinstance(value, str) else []
        case (_, _):
            return _prompts_in((*keys, "prompt"), paths.get(value, ("prompt",)), (*at, "prompt"))
        case _:
            return []


def check_measures(document: Data, facts: Facts, known: Collection[str] | None, mistakes: Mistakes) -> None:
    """Measures that nothing takes. `known`: what there is beside judges and procedures; None for anything."""
    given = document.get("measures")
    if not isinstance(given, list):
        return
    judges = list(as_map(document.get("judges")) or ())
    parties = list(as_map(document.get("parties")) or ())
    is_open = known is None or any(one is None or one.are_settings_free for one in facts)
    every = [*(known or ()), *(name for one in facts if one for name in one.measures)]
    per_party = [name.removeprefix("*.") for name in every if name.startswith("*.")]
    names = cast("list[object]", given)
    for index, name in enumerate(names):
        at: Path = ("measures", index)
        if not isinstance(name, str):
            continue
        if name in names[:index]:
            mistakes.add(f"the measure `{name}` stands there twice", at, "keep one")
        if name in (*judges, *every) or place_of_procedure(name):
            continue
        party, dot, feature = name.partition(".")
        if dot and party not in parties:
            mistakes.add(f"there is no party `{party}`", at, pick(party, parties))
        elif dot and not is_open and feature not in per_party:
            mistakes.add(f"there is no measure `{feature}` of a party", at, pick(feature, per_party))
        elif not dot and not is_open:
            choice = [*judges, *(one for one in every if not one.startswith("*."))]
            fix = pick(name, choice, otherwise=f"add `judges.{name}`")
            mistakes.add(f"there is no judge or measure `{name}`", at, fix)
