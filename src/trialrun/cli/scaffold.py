"""The templates of `trialrun new`, and what is said when they are written."""

import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable

from trialrun.app.scaffolding import Scaffold
from trialrun.cli.blocks import GAP, Block, Line, Pairs
from trialrun.cli.screen import Shown

# Names that tools would take for themselves if the templates had them in our own checkout.
_SPELLED = {"gitignore": ".gitignore"}


def templates(kind: str) -> dict[str, str]:
    """Path → text of one kind of template."""
    return dict(_below(files("trialrun.cli") / "templates" / kind, ""))


def _below(folder: Traversable, path: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = _SPELLED.get(entry.name, entry.name)
        if entry.is_dir():
            found += _below(entry, f"{path}{name}/")
        else:
            found.append((f"{path}{name}", entry.read_text(encoding="utf-8")))
    return found


def shown(made: Scaffold) -> Shown:
    """The files, and what to do with them."""
    study = shlex.quote(str(made.study))

    def blocks() -> list[Block]:
        lines: list[Block] = [Line(f"wrote {path}") for path in made.files]
        steps = [
            (f"trialrun plan {study} --prompts", "what would run, and the prompts to read"),
            (f"trialrun rehearse {study}", "all of it on a built-in model, for nothing"),
        ]
        return [*lines, GAP, Line("next", "title"), Pairs(steps, are_commands=True)]

    data = {"files": [str(path) for path in made.files], "study": str(made.study)}
    return Shown(data=data, blocks=blocks)
