"""From what a user names (a study file, its folder, plain data) to a study that is ready to run."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from trialrun.app import foreign
from trialrun.app.material import PREFIX, material, material_names
from trialrun.app.procedures import Procedures
from trialrun.core import facts as f
from trialrun.core.data import plain_data
from trialrun.core.design import Design
from trialrun.core.errors import StoreError, UsageError
from trialrun.core.near import nearest
from trialrun.core.reading.folders import ENDINGS
from trialrun.core.reading.parse import parse_study
from trialrun.core.reading.source import Source, read_source
from trialrun.core.reading.specs import Specs
from trialrun.core.study import Study
from trialrun.procedures.therapy.shelf import SHELF

Lane = Literal["live", "batch", "rehearsal"]
RESULTS = "results"
MEASURES = ("words", "turns", "*.words", "*.characters", "*.messages")
"""What is taken from the transcript of any procedure; `*` stands for a party."""
GIVEN, RESOLVED, CODE = "study.yaml", "resolved.yaml", "code"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A study with its design and procedures, and the folder that its results go to."""

    study: Study
    design: Design
    specs: Specs
    procedures: Procedures
    folder: Path
    lane: Lane
    file: str
    live_folder: Path
    """Where its live results go, whatever the lane."""
    overrides: Mapping[str, object] = field(default_factory=dict[str, object])
    """What flags say beyond the file: dotted path → value."""
    format: str = ""
    """Of another tool's plan: which format it has (`app.foreign`)."""

    @property
    def trials(self) -> int:
        return self.design.count() * self.study.replicates


def load(
    path: Path,
    *,
    lane: Lane | None = None,
    folder: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    given: Mapping[str, Callable[..., Awaitable[object]]] | None = None,
) -> Plan:
    """Read a study file, the folder of a study that ran before, or the plan of another tool. `given` are procedures
    that are functions.

    Without a lane, the study's own is taken, or the one in which it ran last.
    """
    file = find(path)
    home, live_folder, text = file.parent, None, _read(file)
    if file.name == RESOLVED and (home / "study.db").exists():
        lane, folder, live_folder = _lane_of(home, lane), home, home
        plan_given = _text_of(home / GIVEN) or ""
        form = foreign.recognised(home / GIVEN, plan_given)
        home = home / CODE if (home / CODE).is_dir() else home
        source = read_source(text, file=str(file))
        if form:
            # Another tool's plan stays the plan as given, whatever flags add to it.
            source = replace(source, text=plan_given, places={})
    elif form := foreign.recognised(file, text):
        translation = _translated(file, text, form)
        source = Source(
            file=str(file),
            text=translation.text,
            data=translation.document,
            places=translation.places,
            mistakes=(),
        )
        home, live_folder = translation.home, translation.folder
    else:
        source = read_source(text, file=str(file))
    return plan_of(
        source,
        file=str(file),
        home=home,
        lane=lane,
        folder=folder,
        overrides=overrides or {},
        given=given,
        live_folder=live_folder,
        form=form,
    )


def _translated(file: Path, text: str, form: str) -> foreign.Translation:
    known = foreign.format_of(form)
    assert known is not None  # noqa: S101  # a format that was recognised is known
    return known.translate(file, text)


def document_of(path: Path) -> object:
    """What the study file that a path means says, as data; of another tool's plan, the study that it stands for."""
    file = find(path)
    text = _read(file)
    form = foreign.recognised(file, text) if file.name != RESOLVED else ""
    return _translated(file, text, form).document if form else read_source(text, file=str(file)).data


def plan_of(
    text: str | Source,
    *,
    file: str,
    home: Path,
    lane: Lane | None,
    folder: Path | None,
    overrides: Mapping[str, object],
    given: Mapping[str, Callable[..., Awaitable[object]]] | None = None,
    live_folder: Path | None = None,
    form: str = "",
) -> Plan:
    """Parse the text of a study and put its parts together. `form`: of another tool's plan, its format."""
    procedures = Procedures(home, given)
    study = parse_study(
        text,
        file=file,
        read=lambda name: material(name) if name.startswith(PREFIX) else _text_of(home / name),
        listing=lambda: [*_names_below(home), *material_names()],
        read_folder=lambda name: texts_below(home / name),
        procedures=procedures.facts,
        overrides=overrides,
        measures=MEASURES,
        characters=SHELF,
        home=str(home),
    )
    if any(model.startswith("rehearsal/") for model in models_of(study)):
        lane = "rehearsal"
    live_folder = live_folder or home / RESULTS / study.name
    lane = lane or study.lane or _lane_of(folder or live_folder, None)
    return Plan(
        study=study,
        design=Design(study),
        specs=Specs(study, procedures.fingerprint),
        procedures=procedures,
        folder=folder or in_lane(live_folder, lane),
        lane=lane,
        file=file,
        live_folder=live_folder,
        overrides={path: plain_data(value)[0] for path, value in overrides.items()},
        format=form,
    )


def _lane_of(folder: Path, wanted: Lane | None) -> Lane:
    """The lane that a study's folder was run in, unless another one is wanted. A rehearsal stays one, and so do
    results: what was made up never mixes with what was paid."""
    from trialrun.store.archive import Archive

    if not (folder / "study.db").exists():
        return wanted or "live"
    with Archive(folder) as archive:
        declared = last_declared(archive.facts_of(""))
    last = declared.lane if declared is not None else "live"
    if last == "rehearsal":
        return "rehearsal"
    return wanted if wanted in ("live", "batch") else "batch" if last == "batch" else "live"


def last_declared(entries: Iterable[f.Entry]) -> f.Declared | None:
    """The plan that was in force when the study last ran."""
    declared = [entry.fact for entry in entries if isinstance(entry.fact, f.Declared)]
    return declared[-1] if declared else None


def ran_before(plan: Plan) -> bool:
    """Whether the plan is, to the letter, the one that was in force when the study last ran."""
    from trialrun.store.archive import Archive

    if not (plan.folder / "study.db").exists():
        return False
    with suppress(StoreError), Archive(plan.folder) as archive:
        last = last_declared(archive.facts_of(""))
        return last is not None and last.digest == plan.study.digest
    return False


def in_lane(base: Path, lane: Lane) -> Path:
    """Where a study's results are. Rehearsed data never shares a folder with real data."""
    return base.with_name(f"{base.name}.rehearsal") if lane == "rehearsal" else base


def find(path: Path) -> Path:
    """The study file that a path means: itself, or the one in a study's folder."""
    if path.is_file():
        return path
    if path.is_dir():
        for name in (RESOLVED, GIVEN):
            if (path / name).is_file():
                return path / name
        plan = foreign.plan_in(path)
        if plan is not None:
            return plan
        there = ", ".join(f"`{found}`" for found in sorted(path.glob("*.y*ml"))[:3])
        raise UsageError(
            f"`{path}` holds no study",
            where=str(path),
            fix="name a study file, or the results folder of a study"
            + (f"; there is {there}" if there else ""),
        )
    there = {found.stem: found for found in path.parent.glob("*.y*ml")} if path.parent.is_dir() else {}
    near = nearest(path.stem, there)
    names = ", ".join(f"`{found}`" for found in sorted(there.values())[:3])
    fix = "`trialrun new study NAME` writes one to start from"
    if near is not None:
        fix = f"did you mean `{there[near]}`?"
    elif names:
        fix = f"there is {names}; {fix}"
    raise UsageError(f"there is no study file `{path}`", where=str(path), fix=fix)


def results_of(path: Path, *, lane: Lane | None = None) -> Path:
    """The results folder that a path means, for commands that only look: a folder, a database, or a study file.

    For a study file, the live results are meant if there are any, and else the rehearsed ones.
    """
    if path.is_dir() and (path / "study.db").exists():
        return path
    if path.name in ("study.db", RESOLVED, GIVEN) and path.exists() and _is_kept(path.parent):
        return path.parent
    plan = load(find(path))
    lanes: tuple[Lane, ...] = (lane,) if lane else ("live", "rehearsal")
    folders = [in_lane(plan.live_folder, each) for each in lanes]
    for folder in folders:
        if (folder / "study.db").exists():
            return folder
    raise UsageError(
        f"the study `{plan.study.name}` has no results yet",
        where=str(folders[0]),
        fix=f"`trialrun rehearse {path}` or `trialrun run {path}` makes some",
    )


def _is_kept(folder: Path) -> bool:
    """Whether a run wrote this folder: the plans in it are copies."""
    return (folder / "study.db").exists() and (folder / RESOLVED).exists()


def models_of(study: Study) -> set[str]:
    """Every model that any condition may ask."""
    found: set[str] = set()
    for group in ("parties", "judges"):
        members = cast("Mapping[str, Mapping[str, object]]", study.document.get(group) or {})
        found |= {str(member["model"]) for member in members.values() if member.get("model")}
    for factor in study.factors:
        for level in factor.levels:
            found |= {str(value) for path, value in level.sets if path.endswith(".model")}
    return found


def _read(file: Path) -> str:
    try:
        return _decoded(file)
    except OSError as error:
        what = f"`{file}` cannot be read: {error.strerror}"
        raise UsageError(what, where=str(file), fix="give access to it, or name another file") from error


def _text_of(file: Path) -> str | None:
    try:
        return _decoded(file)
    except OSError:
        return None


def _decoded(file: Path) -> str:
    """The text of a file. The mark that some editors put before it is no part of it."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raw = file.read_bytes()
        place = next((number for number, line in enumerate(raw.split(b"\n"), 1) if not _is_utf8(line)), 1)
        now = "UTF-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "perhaps Windows-1252"
        raise UsageError(
            f"`{file}` is not UTF-8 text",
            where=f"{file}:{place}",
            fix=f"save it as UTF-8; it is {now} now",
        ) from error


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def texts_below(folder: Path, *, most: int = 2_000) -> dict[str, str] | None:
    """The texts in a folder by their paths inside it, hidden ones left out; None if there is no such folder."""
    if not folder.is_dir():
        return None
    found = sorted(path for path in folder.rglob("*") if path.name.endswith(ENDINGS) and path.is_file())
    names = [path.relative_to(folder) for path in found[:most]]
    texts = {
        name.as_posix(): _text_of(folder / name)
        for name in names
        if not any(part.startswith(".") for part in name.parts)
    }
    return {name: text for name, text in texts.items() if text is not None}


def _names_below(home: Path, *, most: int = 500) -> list[str]:
    """Files that a study file could mean, for near misses."""
    names: list[str] = []
    for folder, folders, files in os.walk(home):
        folders[:] = [name for name in folders if not name.startswith(".") and name != RESULTS]
        names += [
            str((Path(folder) / name).relative_to(home))
            for name in files
            if name.endswith((".md", ".txt", ".j2", ".yaml", ".yml", ".json", ".jsonl"))
        ]
        if len(names) > most:
            break
    return names[:most]
