"""`trialrun batch create`: questions become request files, one for each model."""

from pathlib import Path

import click

from trialrun.cli import batches, options
from trialrun.cli.screen import Screen, Shown


@click.command("create", short_help="Write request files out of questions, one for each model.")
@batches.provider
@click.option(
    "--model", "models", multiple=True, required=True, metavar="NAME", help="May be repeated, or a,b,c."
)
@click.option(
    "--questions",
    required=True,
    metavar="FILE",
    help="One question a line, a .yaml file, or trialrun:questions.yaml.",
)
@click.option("--output", required=True, metavar="FILE", help="Where; `{model}` in it stands for the model.")
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only these questions: priority=high.")
@click.option(
    "--skip", type=options.Whole(min=0), default=0, metavar="N", help="Leave out the first so many."
)
@click.option("--first", type=options.Whole(min=1), metavar="N", help="Take so many.")
@click.option(
    "--batch-size", type=options.Whole(min=1), metavar="N", help="Cut into files of so many requests."
)
@click.option(
    "--temperature", type=float, default=0.0, show_default=True, metavar="T", help="Of the answers."
)
@click.option("--max-tokens", type=options.Whole(min=1), metavar="N", help="Limit of an answer.")
@click.option("--system", default="", metavar="TEXT", help="What the model is told before each question.")
@click.option("--overwrite", is_flag=True, help="Change a file although it was submitted.")
@batches.tracking
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    provider: str,
    models: tuple[str, ...],
    questions: str,
    output: str,
    where: tuple[str, ...],
    skip: int,
    first: int | None,
    batch_size: int | None,
    temperature: float,
    max_tokens: int | None,
    system: str,
    overwrite: bool,
    tracking: Path,
) -> Shown:
    """Write what to ask a provider's batch, in the provider's own format.

    The request for question 3 has the id question_3_pressure_0, by which its answer is found again. Nothing is sent.
    """
    from trialrun.cli.amounts import plural
    from trialrun.cli.blocks import Block, Line
    from trialrun.compat.batch_files import services
    from trialrun.compat.batch_files.creating import Wish, create
    from trialrun.compat.batch_files.questions import chosen
    from trialrun.compat.batch_files.tracking import Ledger

    pairs = [pair.partition("=") for pair in where]
    if wrong := next((pair for pair in pairs if not pair[2]), None):
        raise click.UsageError(f"--where {wrong[0]} names no value: write --where priority=high")
    made = create(
        Ledger(tracking),
        models=[(provider or services.service_for(model), model) for model in batches.split(models)],
        questions=chosen(
            questions, where={field: value for field, _, value in pairs}, skip=skip, first=first
        ),
        source=questions,
        output=output,
        wish=Wish(temperature=temperature, max_tokens=max_tokens, system=system, batch_size=batch_size),
        overwrite=overwrite,
    )
    for each in made:
        for note in each.notes:
            screen.note(note)
    files = [file for each in made for file in each.files]

    def blocks() -> list[Block]:
        return [Line(f"{plural(file.requests, 'request')} to {file.model} in {file.path}") for file in files]

    data = [
        {"path": file.path, "provider": file.provider, "model": file.model, "requests": file.requests}
        for file in files
    ]
    notes = [note for each in made for note in each.notes]
    return Shown(data={"files": data, "notes": notes}, blocks=blocks)
