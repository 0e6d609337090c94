"""JSON files that are whole or as they were before, and are touched only when they change."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from trialrun.app.files import put

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def write_json(file: Path, data: Mapping[str, object]) -> None:
    """Write the data for people to read; a file that says the same already is left alone."""
    put(file, msgspec.json.format(_ENCODER.encode(data), indent=2) + b"\n")
