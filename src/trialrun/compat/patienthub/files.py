"""JSON files that are whole or as they were before, and are touched only when they change."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from trialrun.export.rows import opened

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def write_json(file: Path, data: Mapping[str, object]) -> None:
    """Write the data for people to read; a file that says the same already is left alone."""
    text = msgspec.json.format(_ENCODER.encode(data), indent=2) + b"\n"
    with suppress(OSError):
        if file.read_bytes() == text:
            return
    file.parent.mkdir(parents=True, exist_ok=True)
    with opened(file) as stream:
        stream.write(text)
