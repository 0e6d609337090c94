"""How the user calls this program, so that every command that is shown can be copied: `./dev trialrun` in a checkout.

Only what people read is changed; the data of `--json` always says `trialrun`.
"""

import os
import re
from collections.abc import Iterable, Iterator

from trialrun.cli.blocks import Block, Pairs

VARIABLE = "TRIALRUN_CALLED_AS"
"""Set by `./dev`."""
_NAME = "trialrun"
_QUOTED = re.compile(r"(?<=`)trialrun(?= )")


def called_as() -> str:
    return os.environ.get(VARIABLE, "") or _NAME


def copyable(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, with commands as the user would type them."""
    name = called_as()
    for block in blocks:
        if isinstance(block, Pairs) and block.are_commands:
            yield Pairs([(_typed(command, name), why) for command, why in block.rows], are_commands=True)
        else:
            yield block


def copyable_text(text: str) -> str:
    """A message whose commands stand in backquotes."""
    name = called_as()
    return _QUOTED.sub(lambda _: name, text)


def _typed(command: str, name: str) -> str:
    return name + command.removeprefix(_NAME) if command.startswith(f"{_NAME} ") else command
