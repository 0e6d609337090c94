"""`trialrun schema`: the JSON Schema of study files."""

import click

from trialrun.cli import options
from trialrun.cli.screen import Shown


@click.command("schema", short_help="Print the JSON Schema of study files, for editors.")
@click.option("--rubric", is_flag=True, help="The schema of rubric files instead.")
@options.output
def command(*, rubric: bool) -> Shown:
    """Print the JSON Schema of study files, or of rubric files.

    With `# yaml-language-server: $schema=study.schema.json` as its first line, editors complete and check a study.
    """
    import json

    from trialrun.cli.blocks import Verbatim
    from trialrun.core.reading import document, rubric_file

    schema = rubric_file.json_schema() if rubric else document.json_schema()
    return Shown(data={"schema": schema}, blocks=lambda: [Verbatim(json.dumps(schema, indent=2))])
