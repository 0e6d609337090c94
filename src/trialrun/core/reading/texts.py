"""Texts of a study that may stand in files of their own, and the names that a template asks for.

Reading is the caller's: `read` gives a file's text or None. A prompt, a judge's question and a setting that is a text
is a file when it is one line and ends with .md, .txt or .j2. A character is data: the name of one that comes with
Trialrun, or a file that ends with .yaml, .yml or .json.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from trialrun.core.near import nearest, pick
from trialrun.core.paths import Keys, Path, as_map, dotted
from trialrun.core.reading.folders import ReadFolder, folder_of
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.source import read_source

ReadText = Callable[[str], str | None]
Listing = Callable[[], Iterable[str]]
"""The files that a study file could mean, spelled as it would spell them."""

Characters = Mapping[str, Mapping[str, object]]
"""The characters that come with Trialrun, by name."""

_ENDINGS = (".md", ".txt", ".j2")
_DATA_ENDINGS = (".yaml", ".yml", ".json")


class Texts:
    """Reads the files of a study once each, and remembers which text came from where."""

    def __init__(
        self,
        read: ReadText,
        listing: Listing | None,
        settings: Collection[str],
        mistakes: Mistakes,
        *,
        read_folder: ReadFolder | None = None,
        folders: Collection[str] = (),
        characters: Characters | None = None,
    ) -> None:
        self._read = read
        self._listing = listing
        self._settings = settings
        self._read_folder = read_folder
        self._folders = folders
        self._mistakes = mistakes
        self._characters: Characters = characters or {}
        self._known: dict[str, str | None] = {}
        self.sources: dict[str, str] = {}

    def is_slot(self, keys: Keys) -> bool:
        """Whether a text at this path may be a file."""
        match keys:
            case ("parties", _, "prompt") | ("judges", _, "question"):
                return True
            case ("settings", key):
                return key in self._settings
            case _:
                return False

    def is_file(self, value: object, keys: Keys) -> bool:
        if not isinstance(value, str):
            return False
        return is_data_file(value) if is_character(keys) else self.is_slot(keys) and is_file_name(value)

    def is_folder_name(self, value: object, keys: Keys) -> bool:
        """Whether the value names a folder whose files are still to be read."""
        return (
            isinstance(value, str) and len(keys) == 2 and keys[0] == "settings" and keys[1] in self._folders
        )

    def resolved(self, value: object, keys: Keys, path: Path) -> object:
        """The value with the texts of files in place of their names. `path` is where the file spells it."""
        if isinstance(value, str) and is_character(keys):
            return self._character_of(value, path)
        if isinstance(value, str) and self.is_file(value, keys):
            return self._text_of(value, path)
        if isinstance(value, str) and self.is_folder_name(value, keys):
            return self._folder_of(value, path)
        if len(keys) >= 3 or not isinstance(value, Mapping):
            return cast("object", value)
        known = cast("Mapping[str, object]", value)
        return {key: self.resolved(item, (*keys, key), (*path, key)) for key, item in known.items()}

    def read(self, name: str) -> str | None:
        """A file's text, read once."""
        if name not in self._known:
            text = self._read(name)
            self._known[name] = (
                None if text is None else text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip()
            )
        return self._known[name]

    def missing_fix(self, name: str, otherwise: str) -> str:
        """What to do about a file that does not exist."""
        files = list(self._listing()) if self._listing else []
        # A right name in the wrong folder is nearer than a wrong name.
        moved = [file for file in files if file.rpartition("/")[2] == name.rpartition("/")[2]]
        near = nearest(name.removeprefix("./"), moved or files) or next(iter(moved), None)
        return f"did you mean `{near}`?" if near else otherwise

    def _text_of(self, name: str, path: Path) -> str:
        text = self.read(name)
        if text is None:
            fix = self.missing_fix(
                name, "create it beside the study file; a text that is no file needs another ending"
            )
            self._mistakes.add(f"there is no file `{name}`", path, fix)
            return name
        if not text.strip():
            self._mistakes.add(f"the file `{name}` is empty", path, "write the text into it")
        self.sources[dotted(path)] = name
        # The resolved study is a study file too: there this text must not be taken for the name of a file.
        return text + "\n" if is_file_name(text) else text

    def _folder_of(self, name: str, path: Path) -> object:
        files = self._read_folder(name) if self._read_folder else None
        if not files:
            what = f"there is no folder `{name}`" if files is None else f"the folder `{name}` holds no texts"
            self._mistakes.add(what, path, "give the path of a folder, from the study file's folder")
            return {}
        folder = folder_of(name, files)
        for keys, source in folder.sources.items():
            self._mistakes.graft((*path, *keys), source, is_whole=True)
        for one, other in folder.twice:
            self._mistakes.add(f"`{name}/{one}` and `{name}/{other}` have one name", path, "rename one")
        self.sources[dotted(path)] = name
        return dict(folder.data)

    def _character_of(self, name: str, path: Path) -> object:
        """The character as data; the name itself, with a mistake noted, when there is none."""
        self.sources[dotted(path)] = name
        if not is_data_file(name):
            known = self._characters.get(name)
            if known is not None:
                return dict(known)
            fix = pick(name, self._characters, otherwise="name a file that ends with .yaml or .json")
            self._mistakes.add(f"there is no character `{name}`", path, fix)
            return {}
        text = self.read(name)
        if text is None:
            fix = self.missing_fix(name, "create it beside the study file")
            self._mistakes.add(f"there is no file `{name}`", path, fix)
            return {}
        source = read_source(text, file=name)
        self._mistakes.graft(path, source)
        if not source.mistakes and not as_map(source.data):
            what = f"`{name}` is no character"
            self._mistakes.add(what, path, "a character is a map: `name: ...`, and so on")
        return as_map(source.data) or {}


def is_character(keys: Keys) -> bool:
    """Whether a character stands at this path."""
    return len(keys) == 3 and (keys[0], keys[2]) == ("parties", "character")


def is_data_file(text: str) -> bool:
    """One line that ends like a file of data."""
    return "\n" not in text and text.lower().endswith(_DATA_ENDINGS)


def is_file_name(text: str) -> bool:
    """One line that ends like a text file."""
    return "\n" not in text and text.lower().endswith(_ENDINGS)


_BLOCK = re.compile(
    r"\{#.*?#\}|\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}|\{\{(.*?)\}\}|\{%(.*?)%\}", re.DOTALL
)
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_TOKEN = re.compile(r"[A-Za-z_]\w*|==|\d[\w.]*|\S")
_WORDS = """
and or not in is if else elif endif for endfor set endset block endblock macro endmacro call endcall filter endfilter
with endwith recursive do true false none True False None loop range dict lipsum cycler joiner namespace self super
varargs kwargs caller import include from as extends ignore missing without context
"""
_KEYWORDS = frozenset(re.findall(r"\w+", _WORDS))


def names_in(template: str) -> frozenset[str]:
    """The names that a Jinja2 template needs from outside. In doubt a name is left out."""
    asked: set[str] = set()
    own: set[str] = set()
    for match in _BLOCK.finditer(template):
        code = match[1] if match[1] is not None else match[2]
        if code is not None:
            _scan(_TOKEN.findall(_STRING.sub("0", code.strip("-+ \n\t"))), asked, own)
    return frozenset(asked - own)


def _scan(tokens: list[str], asked: set[str], own: set[str]) -> None:
    word = tokens[0] if tokens else ""
    if word == "for" and "in" in tokens:
        own.update(tokens[1 : tokens.index("in")])
    elif word in {"set", "with"} and "=" in tokens:
        own.update(tokens[index - 1] for index, sign in enumerate(tokens) if sign == "=")
    elif word == "set":
        own.update(tokens[1:2])
    elif word in {"macro", "call", "import", "from"}:
        own.update(tokens)
    before = ""
    for index, token in enumerate(tokens):
        after = tokens[index + 1 : index + 3]
        is_name = token.isidentifier() and token not in _KEYWORDS
        if is_name and before not in {".", "|", "is", "block", "filter"} and after[:1] != ["="]:
            asked.add(token)
            if after in (["is", "defined"], ["|", "default"], ["|", "d"]):
                own.add(token)
            if after == ["is", "not"] and tokens[index + 3 : index + 4] == ["defined"]:
                own.add(token)
        if (before, token) != ("is", "not"):
            before = token
