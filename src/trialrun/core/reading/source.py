"""Study-file text to plain data, with the line of every key and value.

YAML is read from the parser's events and not through a loader: nothing but text, numbers, true/false, null, lists and
maps can come out, nesting and anchors are bounded before anything is built, and every mark is at hand. Plain scalars
follow YAML 1.2: `no` and `1:30` and `2024-01-01` are texts, `012` is 12, `1e3` is a number. Keys are always texts.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from trialrun.core.data import DEEPEST, is_unicode
from trialrun.core.errors import Mistake
from trialrun.core.paths import Path

MOST_REPEATED = 20_000
"""So many values may come out of anchors; without a bound, ten lines can describe more data than there is memory."""
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: Mapping[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAG = "tag:yaml.org,2002:"
_TAGS = {"str", "int", "float", "bool", "null", "map", "seq"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key and its value stand, in lines from 1."""

    key: int
    value: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A text as read: the data, and where everything stands."""

    file: str
    text: str
    data: object
    places: Mapping[Path, Place]
    mistakes: tuple[Mistake, ...]

    def line_of(self, path: Path, *, key: bool = False) -> int | None:
        """The line of what stands at `path`, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            place = self.places.get(path[:length])
            if place is not None:
                return place.key if key or length < len(path) else max(place.key, place.value)
        return None

    def text_of(self, line: int | None) -> str:
        lines = self.text.splitlines()
        return lines[line - 1] if line and line <= len(lines) else ""


@dataclass(slots=True)
class _Node:
    kind: str
    line: int
    text: str = ""
    tag: str = ""
    is_plain: bool = False
    children: list["_Node"] = field(default_factory=list["_Node"])
    target: "_Node | None" = None


class _Unreadable(Exception):
    def __init__(self, what: str, line: int | None, fix: str) -> None:
        super().__init__(what)
        self.line = line
        self.fix = fix


def read_source(text: str, *, file: str) -> Source:
    """Read a YAML text. What cannot be read is in `mistakes`; then `data` is None or lacks the part."""
    text = text.removeprefix("\ufeff")
    reader = _Reader(file, text)
    data: object = None
    try:
        root = _nodes_of(text)
        data = reader.build(root, (), root.line) if root else None
    except _Unreadable as error:
        reader.add(str(error), error.line, error.fix)
    return Source(file=file, text=text, data=data, places=reader.places, mistakes=tuple(reader.mistakes))


def plain_value(text: str) -> object:
    """One value as it would be read in a file; a text that is no YAML stands for itself."""
    source = read_source(text, file="")
    return text if source.mistakes else source.data


def reads_otherwise(text: str) -> bool:
    """Whether this text, written plain, would be read as something else than a text."""
    return text in _WORDS or text == "<<" or bool(_INTEGER.match(text) or _FLOAT.match(text))


def _nodes_of(text: str) -> _Node | None:
    """The text's one document as a tree; aliases point at their anchors."""
    if "\x00" in text or not is_unicode(text):
        raise _Unreadable("the file is not text", None, "save it as UTF-8")
    root = _Node("root", 1)
    stack = [root]
    anchors: dict[str, _Node] = {}
    try:
        for event in cast("Iterable[Any]", yaml.parse(text, Loader=yaml.CSafeLoader)):
            line = int(event.start_mark.line) + 1
            match event:
                case yaml.ScalarEvent():
                    plain = bool(event.implicit[0]) and not event.style
                    node = _Node("scalar", line, text=event.value, tag=event.tag or "", is_plain=plain)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    kind = "list" if isinstance(event, yaml.SequenceStartEvent) else "map"
                    node = _Node(kind, line, tag=event.tag or "")
                case yaml.AliasEvent():
                    name = str(event.anchor)
                    if name not in anchors:
                        raise _Unreadable(f"nothing is anchored as `&{name}`", line, _near(name, anchors))
                    node = _Node("alias", line, target=anchors[name])
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    stack.pop()
                    continue
                case yaml.DocumentStartEvent():
                    if root.children:
                        raise _Unreadable(
                            "a second document begins here", line, "one file holds one study; drop the `---`"
                        )
                    continue
                case _:
                    continue
            stack[-1].children.append(node)
            if node.kind != "alias" and event.anchor:
                anchors[event.anchor] = node
            if node.kind in {"list", "map"}:
                stack.append(node)
                if len(stack) > DEEPEST:
                    raise _Unreadable(f"values are nested deeper than {DEEPEST}", line, "make it flatter")
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error) from error
    except yaml.YAMLError as error:
        position = getattr(error, "position", None)
        line = text[:position].count("\n") + 1 if position is not None else None
        what = f"the text is not YAML: {str(error).splitlines()[0]}"
        raise _Unreadable(what, line, "remove the character, or save the file as UTF-8") from error
    return root.children[0] if root.children else None


def _near(word: str, known: Iterable[str]) -> str:
    names = ", ".join(f"`&{name}`" for name in known)
    return f"anchors so far: {names}" if names else f"put `&{word}` before a value above this line"


def _unreadable(error: Any) -> _Unreadable:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    opened = error.context_mark.line + 1 if error.context_mark else None
    problem = str(error.problem)
    fix = "check indentation, colons and quotes here"
    if "tab character" in problem:
        fix = "indent with spaces, not tabs"
    elif "cannot start any token" in problem:
        fix = "indent with spaces, not tabs; put values that begin with @, ` or % in quotes"
    elif "mapping values are not allowed" in problem:
        fix = "put a text that contains `: ` in quotes, and check the indentation"
    elif "expected ':'" in problem and opened:
        fix, line = "put a `:` after the key, or quotes around the text", opened
    elif "expected key" in problem or "block end" in problem:
        fix = f"line it up with the block that begins in line {opened}, or close a quote or bracket above"
    elif opened and line and opened < line:
        fix = f"close what was opened in line {opened}"
        line = opened if "end of stream" in problem or "',' or" in problem else line
    return _Unreadable(f"this is not YAML: {problem}", line, fix)


class _Reader:
    """Turns nodes into data and remembers where everything stands."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.places: dict[Path, Place] = {}
        self.mistakes: list[Mistake] = []
        self._open: list[_Node] = []
        self._repeated = 0
        self._aliases = 0

    def add(self, what: str, line: int | None, fix: str) -> None:
        source = self.lines[line - 1] if line and line <= len(self.lines) else ""
        self.mistakes.append(Mistake(what=what, file=self.file, line=line, source=source, fix=fix))

    def build(self, node: _Node, path: Path, key_line: int) -> object:
        if node.target is not None:
            return self._expanded(node, path, key_line)
        self.places[path] = Place(
            key_line, node.line if node.kind == "scalar" and not self._aliases else key_line
        )
        self._repeated += self._aliases > 0
        if self._repeated > MOST_REPEATED:
            raise _Unreadable(
                f"anchors stand for more than {MOST_REPEATED} values", key_line, "write less with `*`"
            )
        if node.tag and node.tag != "!" and node.tag.removeprefix(_TAG) not in _TAGS:
            self.add(f"the tag `{node.tag}` means nothing here", node.line, "remove it")
            return None
        match node.kind:
            case "scalar":
                return self._scalar(node)
            case "list":
                return [
                    self.build(child, (*path, index), child.line) for index, child in enumerate(node.children)
                ]
            case _:
                return self._map(node, path)

    def _expanded(self, node: _Node, path: Path, key_line: int) -> object:
        assert node.target is not None  # noqa: S101  # the caller looked
        if node.target in self._open:
            raise _Unreadable("this anchor contains itself", node.line, "remove the `*`")
        self._open.append(node.target)
        self._aliases += 1
        value = self.build(node.target, path, key_line)
        self._aliases -= 1
        self._open.pop()
        return value

    def _map(self, node: _Node, path: Path) -> dict[str, object]:
        self._open.append(node)
        data: dict[str, object] = {}
        merged: dict[str, object] = {}
        lines: dict[str, int] = {}
        for key, value in zip(node.children[::2], node.children[1::2], strict=True):
            if key.is_plain and key.text == "<<":
                merged.update(self._merged(value, path))
                continue
            name = self._key(key)
            if name is None:
                continue
            if name in lines:
                self.add(
                    f"the key `{name}` stands here twice",
                    key.line,
                    f"the first is in line {lines[name]}; keep one",
                )
                continue
            lines[name] = key.line
            self._forget((*path, name))
            data[name] = self.build(value, (*path, name), key.line)
        self._open.pop()
        return {**merged, **data}

    def _forget(self, path: Path) -> None:
        """Drop the places that a merge left under a key which the map itself gives."""
        if path in self.places:
            for other in [known for known in self.places if known[: len(path)] == path]:
                del self.places[other]

    def _merged(self, value: _Node, path: Path) -> dict[str, object]:
        parts = value.children if value.kind == "list" else [value]
        together: dict[str, object] = {}
        for part in reversed(parts):
            data = self.build(part, path, value.line)
            if not isinstance(data, dict):
                self.add("`<<` takes a map", value.line, "give it `*` and the name of an anchored map")
                continue
            together.update(cast("dict[str, object]", data))
        return together

    def _key(self, key: _Node) -> str | None:
        node = key.target or key
        if node.kind != "scalar":
            self.add("a key must be a text", key.line, "use a name as key")
            return None
        return node.text

    def _scalar(self, node: _Node) -> object:
        tag = node.tag.removeprefix(_TAG)
        if tag in {"str", "!"} or (not tag and not node.is_plain):
            return node.text
        if node.text in _WORDS:
            return _WORDS[node.text]
        if _INTEGER.match(node.text):
            return self._integer(node)
        if _FLOAT.match(node.text):
            number = float(node.text)
            if number in {float("inf"), float("-inf")}:
                self.add(
                    f"`{node.text}` is too large a number",
                    node.line,
                    "use a smaller one, or put it in quotes",
                )
                return None
            return number
        return node.text

    def _integer(self, node: _Node) -> int | None:
        if len(node.text) > 20 or not -(2**63) <= int(node.text) < 2**64:
            self.add(
                f"`{node.text[:30]}` is too large a whole number",
                node.line,
                "put it in quotes if it is a text",
            )
            return None
        return int(node.text)
