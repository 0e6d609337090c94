"""What the values of a study mean together: rules that look at more than one key. Pure functions over plain data.

They hold for the file and for every condition, so both the parser and `core.reading.specs` ask them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from trialrun.core.near import pick
from trialrun.core.paths import Path, dotted
from trialrun.core.reading.catalogue import UNDESCRIBED, MethodFacts, ProcedureFacts, SettingFacts
from trialrun.core.reading.objection import Objection

Data = Mapping[str, object]
_FROM_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][A-Za-z0-9_]*)\Z")
_MODEL_ONLY = ("temperature", "top_p", "max_tokens", "stop", "params")
_OF_METHODS = ("method", "character", "style")
_NOTHING: Data = {}


def place_of_procedure(procedure: str) -> tuple[str, str] | None:
    """File and name of a procedure of the user (`./file.py:Name`), or None for a built-in name."""
    match = _FROM_FILE.match(procedure)
    return (match["file"], match["name"]) if match else None


def facts_of(procedure: object, catalogue: Mapping[str, ProcedureFacts]) -> ProcedureFacts | None:
    """What is known about a procedure; None when there is no such procedure."""
    if not isinstance(procedure, str):
        return None
    return catalogue.get(procedure) or (UNDESCRIBED if place_of_procedure(procedure) else None)


def party_objections(part: Data) -> Iterator[Objection]:
    """Parties and judges that contradict themselves."""
    for name, party in _maps(part, "parties"):
        yield from _of_party(("parties", name), party)
    for name, judge in _maps(part, "judges"):
        yield from _of_judge(("judges", name), judge)


def procedure_objections(
    part: Data, catalogue: Mapping[str, ProcedureFacts], varied: Sequence[str] = ()
) -> Iterator[Objection]:
    """A procedure that does not exist, and parties or settings that do not suit it.

    `varied`: all procedures that some condition uses; a setting that one of them knows is known.
    """
    procedure = part.get("procedure")
    if procedure is None:
        yield Objection((), "`procedure` is missing", f"add `procedure: ...`; {pick('', catalogue)}")
        return
    facts = facts_of(procedure, catalogue)
    if facts is None:
        if isinstance(procedure, str):
            fix = pick(procedure, catalogue, otherwise="write ./file.py:Name for your own")
            yield Objection(("procedure",), f"there is no procedure `{procedure}`", fix)
        return
    yield from _of_parties(str(procedure), facts, part)
    if not facts.are_settings_free:
        for name, party in _maps(part, "parties"):
            yield from _of_method(str(procedure), facts.parties.methods.get(name), ("parties", name), party)
    others = [facts_of(name, catalogue) or facts for name in varied]
    if not any(other.are_settings_free for other in (facts, *others)):
        known = {key: setting for other in (*others, facts) for key, setting in other.settings.items()}
        yield from _of_settings(str(procedure), known, facts, part)
    if facts.contents is not None:
        yield from facts.contents(part).objections


def _of_party(path: Path, party: Data) -> Iterator[Objection]:
    name = f"parties.{path[1]}"
    given = [kind for kind in ("model", "human", "script") if party.get(kind) is not None]
    if not given and party.get("method") is not None:
        for key in _MODEL_ONLY:
            if party.get(key) is not None:
                what = f"`{name}.{key}` means nothing for a party without a model"
                yield Objection((*path, key), what, f"remove `{key}`, or add `model`", at_key=True)
    elif not given:
        yield Objection(
            path,
            f"`{name}` has no model, human or script",
            "add `model: provider/model`, or vary it with a factor",
        )
    elif len(given) > 1:
        both = " and ".join(f"`{kind}`" for kind in given)
        yield Objection(
            path,
            f"`{name}` has {both}",
            f"keep one; a level that replaces the party sets `{name}` as a whole",
        )
    elif given != ["model"]:
        for key in _MODEL_ONLY:
            if party.get(key) is not None:
                what = f"`{name}.{key}` means nothing for a party that is a {given[0]}"
                yield Objection((*path, key), what, f"remove `{key}`", at_key=True)


def _of_judge(path: Path, judge: Data) -> Iterator[Objection]:
    name = f"judges.{path[1]}"
    if judge.get("model") is None:
        yield Objection(path, f"`{name}` has no model", "add `model: provider/model`")
    if not judge.get("question"):
        yield Objection(path, f"`{name}` has no question", "add `question: ...`, as a text or a file")
    labels, scale = judge.get("labels"), judge.get("scale")
    if (labels is None) == (scale is None):
        has = "both labels and a scale" if labels is not None else "neither labels nor a scale"
        yield Objection(path, f"`{name}` has {has}", "give `labels: [yes, no]` or `scale: [1, 5]`")
    match labels:
        case list():
            seen = cast("list[object]", labels)
            twice = next((label for label in seen if seen.count(label) > 1), None)
            if twice is not None:
                yield Objection((*path, "labels"), f"`{name}` has the label `{twice}` twice", "keep one")
        case _:
            pass
    match scale:
        case [int(low), int(high)] if low >= high:
            yield Objection(
                (*path, "scale"), f"the scale of `{name}` goes from {low} to {high}", f"write [{high}, {low}]"
            )
        case _:
            pass


def _of_parties(procedure: str, facts: ProcedureFacts, part: Data) -> Iterator[Objection]:
    names = [name for name, _ in _maps(part, "parties")]
    spare = [name for name in names if name not in facts.parties.required]
    for wanted in facts.parties.required:
        if wanted not in names:
            what = f"the procedure `{procedure}` needs a party `{wanted}`"
            close = pick(wanted, spare, otherwise="") if spare else ""
            meant = close.removeprefix("did you mean `").removesuffix("`?") if close.startswith("did") else ""
            fix = f"rename `{meant}`" if meant else f"add `parties.{wanted}`"
            yield Objection(("parties", meant) if meant else ("parties",), what, fix, at_key=True)
    least, most = facts.parties.minimum, facts.parties.maximum
    if len(names) < least and not facts.parties.required:
        what = f"the procedure `{procedure}` needs at least {least} parties, and there are {len(names)}"
        yield Objection(("parties",), what, "add them under `parties`", at_key=True)
    if most is not None and len(names) > most:
        what = f"the procedure `{procedure}` takes at most {most} parties, and there are {len(names)}"
        yield Objection(("parties",), what, "remove some, or use another procedure", at_key=True)


def _of_method(
    procedure: str, methods: Mapping[str, MethodFacts] | None, path: Path, party: Data
) -> Iterator[Objection]:
    """A method that does not exist, and a character or a style that does not suit it."""
    name = f"parties.{path[1]}"
    if not methods:
        for key in _OF_METHODS:
            if party.get(key) is not None:
                what = f"`{name}.{key}` means nothing to the procedure `{procedure}`"
                yield Objection((*path, key), what, f"remove `{key}`", at_key=True)
        return
    method = party.get("method")
    if not isinstance(method, str):
        given = [key for key in _OF_METHODS if party.get(key) is not None]
        for key in given if method is None else ():
            what = f"`{name}.{key}` needs `{name}.method`"
            yield Objection((*path, key), what, f"add `method: ...`; {pick('', methods)}", at_key=True)
    elif method in methods:
        yield from _of_known_method(method, methods[method], path, party)
    elif place_of_procedure(method) is None:
        fix = pick(method, methods, otherwise="write ./file.py:Name for your own")
        yield Objection((*path, "method"), f"`{name}` cannot have the method `{method}`", fix)


def _of_known_method(method: str, facts: MethodFacts, path: Path, party: Data) -> Iterator[Objection]:
    name = f"parties.{path[1]}"
    if facts.needs and party.get(facts.needs) is None:
        fix = "add `model: provider/model`" if facts.needs == "model" else "add `script: [first line, ...]`"
        yield Objection(path, f"the method `{method}` of `{name}` needs a {facts.needs}", fix)
    character, style = party.get("character"), party.get("style")
    kind = cast("Data", character).get("kind") if isinstance(character, Mapping) else None
    if facts.character and character is None:
        fix = f"add `character: ...`, the name of one of kind `{facts.character}` or a file"
        yield Objection(path, f"the method `{method}` of `{name}` needs a character", fix)
    elif facts.character and kind is not None and kind != facts.character:
        what = f"the method `{method}` of `{name}` plays characters of kind `{facts.character}`, not `{kind}`"
        yield Objection((*path, "character"), what, "choose another character, or another method")
    if isinstance(style, str) and style not in facts.styles:
        fix = pick(style, facts.styles, otherwise="remove `style`") if facts.styles else "remove `style`"
        yield Objection((*path, "style"), f"the method `{method}` has no style `{style}`", fix)
    if character is not None and not facts.character:
        what = f"the method `{method}` of `{name}` plays no character"
        yield Objection((*path, "character"), what, "remove `character`", at_key=True)


def _of_settings(
    procedure: str, known: Mapping[str, SettingFacts], facts: ProcedureFacts, part: Data
) -> Iterator[Objection]:
    settings = part.get("settings")
    given = cast("Data", settings) if isinstance(settings, Mapping) else _NOTHING
    for key, value in given.items():
        if key not in known:
            fix = pick(key, known, otherwise="remove it")
            what = f"the procedure `{procedure}` has no setting `{key}`"
            yield Objection(("settings", key), what, fix, at_key=True)
        elif value is not None:
            yield from _of_setting(
                ("settings", key), known[key], value, [name for name, _ in _maps(part, "parties")]
            )
    for key, setting in facts.settings.items():
        if setting.is_required and given.get(key) is None:
            what = f"the procedure `{procedure}` needs the setting `{key}`"
            yield Objection(
                ("settings",), what, f"add `settings.{key}` ({setting.help or setting.kind})", at_key=True
            )


def _of_setting(
    path: Path, facts: SettingFacts, value: object, parties: Sequence[str]
) -> Iterator[Objection]:
    name = dotted(path)
    if not _fits(facts.kind, value):
        yield Objection(
            path, f"`{name}` must be {_KINDS[facts.kind]}", facts.help or f"give {_KINDS[facts.kind]}"
        )
        return
    if facts.kind in {"party", "parties"}:
        for who in [value] if isinstance(value, str) else cast("list[str]", value):
            if who not in parties:
                yield Objection(path, f"`{name}` names `{who}`, which is no party", pick(str(who), parties))
    if facts.choices and value not in facts.choices:
        choices = [str(choice) for choice in facts.choices]
        yield Objection(path, f"`{name}` cannot be `{value}`", pick(str(value), choices))
    if isinstance(value, int | float):
        if facts.minimum is not None and value < facts.minimum:
            yield Objection(
                path, f"`{name}` must be at least {facts.minimum:g}, not {value}", "give a larger number"
            )
        if facts.maximum is not None and value > facts.maximum:
            yield Objection(
                path, f"`{name}` must be at most {facts.maximum:g}, not {value}", "give a smaller number"
            )
    if facts.keys and isinstance(value, Mapping):
        yield from _of_keys(path, facts.keys, cast("Data", value), parties)


def _of_keys(
    path: Path, known: Mapping[str, SettingFacts], given: Data, parties: Sequence[str]
) -> Iterator[Objection]:
    """What is wrong inside a map whose keys are known."""
    for key, value in given.items():
        if key not in known:
            what = f"`{dotted(path)}` has no key `{key}`"
            yield Objection((*path, key), what, pick(key, known, otherwise="remove it"), at_key=True)
        elif value is not None:
            yield from _of_setting((*path, key), known[key], value, parties)
    for key, facts in known.items():
        if facts.is_required and given.get(key) is None:
            yield Objection(
                path, f"`{dotted(path)}` needs `{key}`", f"add `{key}` ({facts.help or facts.kind})"
            )


_KINDS = {
    "any": "a value",
    "int": "a whole number",
    "number": "a number",
    "text": "a text",
    "flag": "true or false",
    "texts": "a list of texts",
    "party": "the name of a party",
    "parties": "a list of party names",
    "map": "a map",
    "list": "a list",
    "entry": "a text or a map",
    "folder": "the name of a folder",
}


def _fits(kind: str, value: object) -> bool:
    match kind, value:
        case ("int" | "number", bool()):
            return False
        case ("any", _) | ("int", int()) | ("number", int() | float()) | ("text" | "party", str()):
            return True
        case ("flag", bool()) | ("map" | "folder", dict()) | ("list", list()) | ("entry", str() | dict()):
            return True
        case ("texts" | "parties", list()):
            return all(isinstance(item, str) for item in cast("list[object]", value))
        case _:
            return False


def _maps(part: Data, key: str) -> Iterator[tuple[str, Data]]:
    """The maps under a key; what is no map has been reported already."""
    found = part.get(key)
    if isinstance(found, Mapping):
        for name, value in cast("Data", found).items():
            if isinstance(value, Mapping):
                yield name, cast("Data", value)
