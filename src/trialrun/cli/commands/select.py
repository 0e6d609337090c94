"""`trialrun select`: the levels that a rule keeps, for the next study."""

from pathlib import Path

import click

from trialrun.app.exits import Exit
from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown


@click.command("select", short_help="Take the levels that a rule keeps, for the next study.")
@options.study
@click.option("--factor", required=True, metavar="NAME", help="Whose levels.")
@click.option(
    "--if",
    "rules",
    required=True,
    multiple=True,
    metavar="RULE",
    help="What has to hold, such as 'flipped >= 0.2'. May be repeated.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="FACTOR=LEVEL",
    help="Look at trials with this level alone. May be repeated.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the entries there.")
@options.lane
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    study: Path,
    factor: str,
    rules: tuple[str, ...],
    only: tuple[str, ...],
    out: Path | None,
    lane: options.Lane | None,
) -> Shown:
    """Write the levels of a factor for which a rule holds in the finished trials of STUDY.

    The next study takes them with {from: FILE}. Levels of which the trials say nothing are named and not taken. The
    exit code is 0 only if there is a level to take.
    """
    from trialrun.app.findings.selecting import select
    from trialrun.app.studies import results_of
    from trialrun.cli.blocks import Block, Line, Verbatim

    pairs = [pair.partition("=") for pair in only]
    if wrong := next((pair for pair in pairs if not pair[2]), None):
        raise click.UsageError(f"--only {wrong[0]} names no level: write --only FACTOR=LEVEL")
    screen.folder = results_of(study, lane=lane)
    found = select(screen.folder, factor=factor, rules=rules, only={name: label for name, _, label in pairs})
    if out is not None:
        out.write_text(found.text, encoding="utf-8")
    of = len(found.taken) + len(found.left_out) + len(found.without_data)
    counts = f"{len(found.taken)} of {of} levels of `{factor}` taken"
    if found.without_data:
        counts += f"; without data: {', '.join(found.without_data)}"

    def blocks() -> list[Block]:
        if out is None:
            return [Verbatim(found.text)]
        closed = (
            [] if found.taken else [Line("nothing meets the rule: there is no second stage to run", "bad")]
        )
        return [Line(counts), Line(f"written to {out}"), *closed]

    data = {
        "study": found.study,
        "lane": found.lane,
        "factor": factor,
        "rules": list(found.rules),
        "taken": list(found.taken),
        "left_out": list(found.left_out),
        "without_data": list(found.without_data),
        "file": str(out) if out else None,
        "entries": found.text,
    }
    return Shown(data=data, blocks=blocks, exit=Exit.DONE if found.taken else Exit.SOME_FAILED)
