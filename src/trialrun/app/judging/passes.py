"""Judging passes: what was declared, and what is declared now.

A changed rubric is another pass and overwrites nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from trialrun.app.files import put
from trialrun.core import chance, identity
from trialrun.core import facts as f
from trialrun.core.errors import StoreError, UsageError
from trialrun.core.near import pick
from trialrun.core.ports import Journal
from trialrun.core.reading.rubric_file import parse_rubric, rubric_of
from trialrun.core.reading.writing import write_yaml
from trialrun.core.rubric import Rubric
from trialrun.core.version import VERSION
from trialrun.procedures.rating import rater

FOLDER = "rubrics"
_HEAD = "# A rubric as raters were given it. `trialrun judge STUDY --with` this file goes on with the same pass.\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One way of rating a study: an instrument, who uses it, and how often each of them rates the same."""

    id: str
    rubric: Rubric
    models: tuple[str, ...]
    repeats: int
    seed: int
    forks: bool = False
    labelled: str = ""
    """The labelled units of a calibration, as JSON lines; empty for a pass over trials."""
    source: str = ""
    """The rubric as written."""

    @property
    def key(self) -> bytes:
        """The root of the pass's chance."""
        return chance.study_key(self.seed)


def new_pass(
    rubric: Rubric,
    *,
    source: str,
    models: tuple[str, ...],
    repeats: int,
    seed: int,
    forks: bool = False,
    labelled: str = "",
) -> Pass:
    """The pass that these make. More models or repeats extend it; anything that raters are told makes it another."""
    chosen = tuple(dict.fromkeys(models or rubric.models))
    if not chosen:
        raise UsageError(
            "nobody is named who rates",
            fix="name a model with `--model provider/model`, or `models:` in the rubric",
        )
    told = [rubric.digest, rater.VERSION, seed, identity.text_hash(labelled) if labelled else ""]
    return Pass(
        id=identity.judging_id(rubric.name, told=told),
        rubric=rubric,
        models=chosen,
        repeats=repeats,
        seed=seed,
        forks=forks,
        labelled=labelled,
        source=source,
    )


def read_rubric(file: Path) -> tuple[Rubric, str]:
    """A rubric file, and its text."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        near = sorted(str(each) for each in file.parent.glob("*.y*ml")) if file.parent.is_dir() else []
        raise UsageError(
            f"the rubric `{file}` cannot be read",
            where=str(file),
            fix=pick(str(file), near, otherwise="name a file"),
        ) from error
    return parse_rubric(text, file=str(file), read=lambda name: _text_of(file.parent / name)), text


def _text_of(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def declared(entries: Iterable[f.Entry]) -> dict[str, f.Judging]:
    """The passes of a study as they were last declared, by id, in the order in which they began."""
    return {entry.fact.id: entry.fact for entry in entries if isinstance(entry.fact, f.Judging)}


def pass_of(fact: f.Judging, texts: "dict[str, str]") -> Pass:
    """A declared pass, exactly as it was."""
    document = msgspec.json.decode(
        texts[fact.document].encode("utf-8", "surrogatepass"), type=dict[str, object]
    )
    return Pass(
        id=fact.id,
        rubric=rubric_of(document),
        models=fact.models,
        repeats=fact.repeats,
        seed=fact.seed,
        forks=fact.forks,
        labelled=texts[fact.labelled] if fact.labelled else "",
        source=texts[fact.source],
    )


def hashes_of(fact: f.Judging) -> list[f.Hash]:
    """The texts that `pass_of` needs."""
    return [name for name in (fact.source, fact.document, fact.labelled) if name]


def extended(one: Pass, before: f.Judging | None) -> Pass:
    """The pass with what an earlier declaration has beside it: raters and repeats are added and never taken away."""
    if before is None:
        return one
    return replace(
        one,
        models=tuple(dict.fromkeys([*before.models, *one.models])),
        repeats=max(before.repeats, one.repeats),
        forks=before.forks or one.forks,
    )


async def declare(journal: Journal, folder: Path, one: Pass) -> None:
    """Write the pass into the journal, if it is not there as it is now, and its rubric beside it."""
    # In the file's order: it is the order in which a rater sees fields.
    document = msgspec.json.encode(dict(one.rubric.document)).decode()
    fact = f.Judging(
        id=one.id,
        rubric=one.rubric.name,
        source=identity.text_hash(one.source),
        document=identity.text_hash(document),
        models=one.models,
        repeats=one.repeats,
        seed=one.seed,
        version=VERSION,
        forks=one.forks,
        labelled=identity.text_hash(one.labelled) if one.labelled else "",
    )
    before = declared(await journal.facts_of("")).get(one.id)
    if before is not None and msgspec.structs.replace(fact, source=before.source) == before:
        return
    texts: dict[str, str | bytes] = {fact.source: one.source, fact.document: document}
    if one.labelled:
        texts[fact.labelled] = one.labelled
    journal.append("", [fact], texts)
    await journal.commit()
    try:
        put(folder / FOLDER / f"{one.id}.yaml", _HEAD + write_yaml(one.rubric.document))
    except OSError as error:
        raise StoreError(
            f"the rubric cannot be kept in the study's folder: {error.strerror}",
            where=str(folder),
            fix="make room",
        ) from error
