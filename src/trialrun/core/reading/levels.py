"""Checks every level by putting it into the study: what a level may set, and whether the result is a study.

The file alone may be incomplete (a model that only a factor gives), so levels are judged on the *filled* study: the
file with a level of every factor put in, as some condition has them (`core.reading.company`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from trialrun.core import identity, paths
from trialrun.core.near import nearest, pick
from trialrun.core.paths import Path
from trialrun.core.reading.arrangement import Arrangement
from trialrun.core.reading.catalogue import ProcedureFacts
from trialrun.core.reading.company import Company
from trialrun.core.reading.document import TRIAL_KEYS, TrialPart, plain
from trialrun.core.reading.explain import objections
from trialrun.core.reading.factors import Draft, FactorDraft, Setting
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.objection import Objection
from trialrun.core.reading.rules import party_objections, procedure_objections
from trialrun.core.study import Factor, Level

Data = Mapping[str, object]
Check = Callable[[Data], tuple[Data | None, list[Objection]]]
_REASONS = {
    "study": "names the study",
    "question": "is for people",
    "factors": "says what is varied",
    "design": "says which conditions there are",
    "replicates": "says how often each condition is repeated",
    "measures": "says what is taken from finished trials",
    "budget_usd": "caps the whole study; caps per condition and per trial stand in `budget_usd` itself",
    "limits": "changes how fast trials run, not what they are",
    "prices": "changes what is paid, not what a trial is",
    "rehearsal": "belongs to the rehearsal lane",
    "lane": "says how calls travel, and a study keeps its identity in every lane",
    "batch": "belongs to the batch lane",
    "notice": "is for reports",
    "seed": "is the root of all chance; `replicates` draw anew by themselves",
    "sources": "is for the archive",
}


def check_levels(
    document: Data,
    drafts: Sequence[FactorDraft],
    arrangement: Arrangement,
    catalogue: Mapping[str, ProcedureFacts],
    mistakes: Mistakes,
) -> tuple[Factor, ...]:
    """The factors with their values validated. Whatever is wrong, with the file too, is added to `mistakes`."""
    part = {key: document[key] for key in TRIAL_KEYS if key in document}
    check = _checker(catalogue, _varied(drafts))
    usable = [draft for draft in drafts if _paths_are_open(draft, part, mistakes)]
    _report_overlaps(usable, mistakes)
    company = Company(usable, arrangement)
    first = _first_condition(usable, company)
    _, known = check(_filled(part, first))
    _report_base(part, known, first, check, mistakes)
    seen = {(o.path, o.what) for o in known}
    bench = _Bench(part=part, company=company, check=check, seen=seen, mistakes=mistakes)
    return tuple(_factor(draft, bench) for draft in usable)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bench:
    """What a level is judged with."""

    part: Data
    company: Company
    check: Check
    seen: set[tuple[Path, str]]
    """What the first condition suffers from already; it is not the fault of other levels."""
    mistakes: Mistakes


def _first_condition(drafts: Sequence[FactorDraft], company: Company) -> list[Draft]:
    for draft in drafts[:1]:
        for place, level in enumerate(draft.levels):
            others = company.of(draft.name, place)
            if others is not None:
                return [level, *others]
    return [draft.levels[0] for draft in drafts]


def _filled(part: Data, levels: Iterable[Draft]) -> Data:
    for level in levels:
        part = _applied(part, level) or part
    return part


def _checker(catalogue: Mapping[str, ProcedureFacts], varied: Sequence[str]) -> Check:
    def check(part: Data) -> tuple[Data | None, list[Objection]]:
        entry, found = objections(TrialPart, part)
        data = cast("Data", plain(entry)) if entry else None
        rules = [*party_objections(part), *procedure_objections(part, catalogue, varied)]
        # A key that is misspelled is not missing as well.
        known = {o.path for o in found} | {o.path[:-1] for o in found if o.at_key}
        return data, found + [o for o in rules if o.path not in known]

    return check


def _varied(drafts: Iterable[FactorDraft]) -> list[str]:
    return [
        str(setting.value)
        for draft in drafts
        for level in draft.levels
        for setting in level.settings
        if setting.keys == ("procedure",)
    ]


def _paths_are_open(draft: FactorDraft, part: Data, mistakes: Mistakes) -> bool:
    """Report every path of the factor that leads nowhere."""
    is_open = True
    for dotted, setting in {s.dotted: s for level in draft.levels for s in level.settings}.items():
        problem = _problem_with(dotted, setting, part)
        if problem is not None:
            mistakes.add(problem[0], setting.at_path, problem[1], key=True)
            is_open = False
    return is_open


def _problem_with(dotted: str, setting: Setting, part: Data) -> tuple[str, str] | None:
    keys = setting.keys
    if keys[0] not in TRIAL_KEYS:
        if keys[0] in _REASONS:
            what = f"a factor cannot vary `{dotted}`: `{keys[0]}` {_REASONS[keys[0]]}"
            return what, f"vary something under {', '.join(f'`{key}`' for key in TRIAL_KEYS)}"
        what = f"`{dotted}` is no path of a study"
        return what, pick(keys[0], TRIAL_KEYS)
    if keys == ("procedure",):
        return None
    if keys[0] == "procedure" or len(keys) == 1:
        what = f"`{dotted}` is not one thing that can vary"
        return what, f"write `{keys[0]}`" if keys[0] == "procedure" else f"name what varies below `{keys[0]}`"
    known = part.get(keys[0])
    names = list(cast("Data", known)) if isinstance(known, Mapping) else []
    if keys[0] in {"parties", "judges"} and keys[1] not in names:
        kind = "party" if keys[0] == "parties" else "judge"
        near = nearest(keys[1], names)
        fix = (
            f"did you mean `{'.'.join((keys[0], near, *keys[2:]))}`?" if near else f"add it under `{keys[0]}`"
        )
        return f"there is no {kind} `{keys[1]}`", fix
    try:
        paths.put(part, keys, setting.value)
    except KeyError as error:
        return f"`{dotted}` goes through a value that is no map, at `{error.args[0]}`", "shorten the path"
    return None


def _report_overlaps(drafts: Sequence[FactorDraft], mistakes: Mistakes) -> None:
    """Two factors, or two entries of one level, that set the same thing: the last would win silently."""
    taken: dict[paths.Keys, str] = {}
    for draft in drafts:
        mine = {setting.keys: setting for level in draft.levels for setting in level.settings}
        for keys, setting in mine.items():
            for start in (keys[: length + 1] for length in range(len(keys))):
                if start in taken and taken[start] != draft.name:
                    _report_shared(setting, ".".join(start), draft.name, taken[start], mistakes)
            longer = next(
                (other for other in taken if other[: len(keys)] == keys and len(other) > len(keys)), None
            )
            if longer is not None and taken[longer] != draft.name:
                _report_shared(setting, ".".join(longer), draft.name, taken[longer], mistakes)
        taken.update(dict.fromkeys(mine, draft.name))
        for level in draft.levels:
            for one in level.settings:
                if any(
                    one is not two and paths.overlap(one.keys, two.keys) and len(one.keys) <= len(two.keys)
                    for two in level.settings
                ):
                    what = f"the level `{level.label}` of `{draft.name}` sets `{one.dotted}` and something below it"
                    mistakes.add(what, one.at, "set it once")


def _report_shared(setting: Setting, shared: str, one: str, other: str, mistakes: Mistakes) -> None:
    what = f"the factors `{other}` and `{one}` both set `{shared}`"
    mistakes.add(what, setting.at_path, "let one factor set it, or join the two with `levels`", key=True)


def _applied(part: Data, level: Draft) -> dict[str, object] | None:
    try:
        for setting in level.settings:
            part = paths.put(part, setting.keys, setting.value)
    except KeyError:
        return None
    return dict(part)


def _report_base(
    part: Data, found: list[Objection], firsts: list[Draft], check: Check, mistakes: Mistakes
) -> None:
    """What is wrong with the filled study, at the file's line or at the level that brought it in."""
    own = {(o.path, o.what) for o in check(part)[1]}
    for objection in found:
        setting = None
        if (objection.path, objection.what) not in own:
            setting = next(_touching(firsts, objection.path), None)
        _report(objection, setting, mistakes)


def _touching(levels: Iterable[Draft], path: Path) -> Iterator[Setting]:
    for level in levels:
        for setting in level.settings:
            if setting.keys == path[: len(setting.keys)] or path == setting.keys[: len(path)] != ():
                yield setting


def _report(objection: Objection, setting: Setting | None, mistakes: Mistakes) -> None:
    path = objection.path
    if setting is None:
        mistakes.add(objection.what, path, objection.fix, key=objection.at_key)
    elif objection.at_key and len(path) <= len(setting.keys):
        mistakes.add(objection.what, setting.at_path, objection.fix, key=True)
    else:
        mistakes.add(
            objection.what, (*setting.at, *path[len(setting.keys) :]), objection.fix, key=objection.at_key
        )


def _factor(draft: FactorDraft, bench: _Bench) -> Factor:
    """The factor with validated values."""
    levels: list[Level] = []
    equal: dict[bytes, str] = {}
    for place, level in enumerate(draft.levels):
        others = bench.company.of(draft.name, place)
        beside = bench.company.any_of(draft.name) if others is None else others
        whole = _applied(_filled(bench.part, beside), level)
        data, found = bench.check(whole) if whole is not None else (None, [])
        for objection in found:
            setting = next(_touching([level], objection.path), None) or next(iter(level.settings), None)
            # A level that no condition has can only be wrong in itself.
            is_own = setting is not None and objection.path[: len(setting.keys)] == setting.keys
            if (objection.path, objection.what) not in bench.seen and (is_own or others is not None):
                _report(objection, setting, bench.mistakes)
        sets = tuple((s.dotted, s.value if data is None else paths.get(data, s.keys)) for s in level.settings)
        is_plain = len(sets) == 1 and level.value is level.settings[0].value
        levels.append(Level(label=level.label, value=sets[0][1] if is_plain else level.value, sets=sets))
        twin = equal.setdefault(identity.canonical(sets), level.label)
        if twin != level.label:
            what = (
                f"the levels `{twin}` and `{level.label}` of `{draft.name}` set the same: nothing would vary"
            )
            bench.mistakes.add(what, level.at, "change one, or remove it")
    return Factor(name=draft.name, levels=tuple(levels))
