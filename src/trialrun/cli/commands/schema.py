"""`trialrun schema`: the JSON Schema of study files."""

import click

from trialrun.cli import options
from trialrun.cli.screen import Shown


@click.command("schema", short_help="Print the JSON Schema of study files, for editors.")
@options.output
def command() -> Shown:
    """Print the JSON Schema of study files.

    With `# yaml-language-server: $schema=study.schema.json` as its first line, editors complete and check a study.
    """
    import json

    from trialrun.cli.blocks import Verbatim
    from trialrun.core.document import json_schema

    schema = json_schema()
    return Shown(data={"schema": schema}, blocks=lambda: [Verbatim(json.dumps(schema, indent=2))])
