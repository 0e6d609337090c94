"""The page about spans names every attribute and event that there is, and every setting."""

import re
from pathlib import Path

from trialrun.app.tracing import span_names, spans, telemetry

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")


def test_every_name_that_a_span_may_carry_is_documented() -> None:
    code = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in (span_names, spans))
    names = set(re.findall(r'"((?:gen_ai|trialrun|error|http)\.[a-z_.]+)"', code))
    assert len(names) > 30
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_every_setting_is_documented() -> None:
    for name in (telemetry.SWITCH, telemetry.CONTENT):
        assert f"| `{name}` |" in PAGE
