"""`trialrun prices`: what a model costs today, live and in a batch, and of which date that is."""

from datetime import date
from pathlib import Path
from typing import Any

import genai_prices
import pytest

from tests.cli.conftest import Trialrun

STATED = """\
prices:
  openai/gpt-5-mini:
    input: 1
    output: 2
    reasoning: 5
    tiers:
      - {above: 400000, input: 4, output: 8}
      - {above: 200000, input: 3, output: 6, cached_input: 0.5}
    batch: {input: 0.4, output: 0.7}
"""


def lines_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_listed_price_is_shown_with_its_batch_price_and_the_date_of_the_list(trialrun: Trialrun) -> None:
    said = trialrun("prices", "google/gemini-2.5-pro")
    assert said.exit == 0
    assert ["any", "1.25", "10", "0.125", "as", "input"] in lines_of(said.out)
    assert [
        "in",
        "a",
        "batch,",
        "above",
        "200,000",
        "tokens",
        "in",
        "1.25",
        "7.5",
        "0.25",
        "as",
        "input",
    ] in lines_of(said.out)
    assert f"from genai-prices {genai_prices.__version__}: google/gemini-2.5-pro" in said.out
    data: Any = trialrun("prices", "google/gemini-2.5-pro", "--json").json
    assert data["list_latest_change"] in said.out
    assert date(2026, 1, 1) < date.fromisoformat(data["list_latest_change"]) <= date.fromisoformat(data["on"])
    assert [step["above_tokens_in"] for step in data["batch_usd_per_million_tokens"]] == [0, 200_000]


def test_a_study_s_own_price_is_shown_as_a_run_reckons_with_it(trialrun: Trialrun, small: str) -> None:
    text = Path(small).read_text(encoding="utf-8").partition("prices:")[0]
    Path(small).write_text(text + STATED, encoding="utf-8")
    said = trialrun("prices", "openai/gpt-5-mini", "--study", small)
    rows = lines_of(said.out)
    assert ["any", "1", "2", "as", "input", "as", "input", "5"] in rows
    assert ["above", "200,000", "tokens", "in", "3", "6", "0.5", "as", "input", "as", "output"] in rows
    assert [
        "above",
        "400,000",
        "tokens",
        "in",
        "4",
        "8",
        "as",
        "input",
        "as",
        "input",
        "as",
        "output",
    ] in rows
    assert ["in", "a", "batch", "0.4", "0.7", "as", "input", "as", "input", "as", "output"] in rows
    assert "from study" in said.out
    assert "newest dated price" not in said.out


@pytest.mark.parametrize(
    ("model", "meant"), [("openai/gpt5-mini", "openai/gpt-5-mini"), ("opnai/gpt-5", "openai/gpt-5")]
)
def test_a_misspelled_model_is_told_with_what_was_meant_and_how_to_state_a_price(
    trialrun: Trialrun, model: str, meant: str
) -> None:
    said = trialrun("prices", model)
    assert said.exit == 2
    assert f"nobody knows the price of {model} (did you mean {meant}?)" in said.err
    assert f"prices: {{{model}: {{input: 0.25, output: 2.00}}}}" in said.err
    assert trialrun("prices", model, "--json").json["error"]["where"].startswith("genai-prices")
