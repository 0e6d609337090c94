"""What a study file becomes: values, defaults, texts, flags, and the resolved document."""

from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from tests.core.studies import FILES, PROCEDURES, SMALL, at, parse, small
from trialrun.core import paths
from trialrun.core.errors import StudyMistakes, UsageError
from trialrun.core.reading.parse import archived, parse_override, parse_study, study_of
from trialrun.core.reading.writing import write_yaml
from trialrun.core.study import Budget, Limits, Price, RateLimit, Rehearsal, Study

FULL = """\
study: warmth-and-disclosure
question: Do clients disclose more to a warm therapist?
procedure: conversation
parties:
  therapist: {model: openai/gpt-5-mini, prompt: prompts/therapist.md, temperature: 0.7, max_tokens: 300,
              values: {tone: warm}, params: {reasoning_effort: low}, stop: [END]}
  client: {model: anthropic/claude-haiku-4-5, values: {mood: sad}, prompt: "You are {{ mood }}, meeting {{ partner }}"}
factors:
  tone: {parties.therapist.values.tone: [warm, neutral]}
  model: {parties.therapist.model: {cheap: openai/gpt-5-mini, dear: openai/gpt-5}}
  size: {parties.client.max_tokens: [100, 300], settings.max_turns: [4, 8]}
  style: {levels: {warm: {parties.client.prompt: prompts/warm.md}, odd: {parties.client.prompt: prompts/odd.md}}}
  depth: {parties.client.values.depth: [3, 1, 2]}
design:
  zip: [[tone, model]]
  exclude: [{tone: warm, size: 100+4}]
  include: [{tone: warm, model: dear, size: 300+8, style: odd, depth: 1}]
replicates: 20
settings: {opening: prompts/cold.md}
judges:
  disclosure: {model: openai/gpt-5, question: judges/disclosure.md, scale: [1, 5], temperature: null}
  safe: {model: openai/gpt-5, question: Is it safe?, labels: [yes, no]}
measures: [disclosure, client.words]
budget_usd: {study: $20, condition: 5, trial: 0.5}
limits:
  open_trials: 10
  trial_timeout_s: null
  rates: {openai/*: {requests_per_minute: 500, tokens_per_minute: 200000, in_flight: 20}}
prices: {openai/gpt-5-mini: {input: 0.25, output: 2.0, cached_input: 0.025}}
rehearsal: {speed: 20, errors: 0.02, words: 1}
notice: Simulated clients; not care.
seed: 42
"""


def test_everything_in_a_full_file_arrives() -> None:
    study = parse(FULL)
    assert (study.name, study.replicates, study.seed) == ("warmth-and-disclosure", 20, 42)
    assert study.budget == Budget(study_usd=Decimal(20), condition_usd=Decimal(5), trial_usd=Decimal("0.5"))
    rate = RateLimit(model="openai/*", requests_per_minute=500, tokens_per_minute=200_000, in_flight=20)
    assert study.limits == Limits(open_trials=10, trial_timeout_s=None, rates=(rate,))
    price = Price(input=Decimal("0.25"), output=Decimal(2), cached_input=Decimal("0.025"))
    assert study.prices == {"openai/gpt-5-mini": price}
    assert study.rehearsal == Rehearsal(speed=20.0, errors=0.02, words=1.0)
    assert [factor.name for factor in study.factors] == ["tone", "model", "size", "style", "depth"]
    assert [level.label for level in study.factors[4].levels] == ["3", "1", "2"], (
        "tables keep the order of the file"
    )
    assert study.zips == (("tone", "model"),)
    assert study.excluded == ({"tone": "warm", "size": "100+4"},)
    assert study.included[0]["depth"] == "1"
    assert study.notice == "Simulated clients; not care."
    assert study.source == FULL


def test_texts_of_files_are_in_the_resolved_document_with_where_they_came_from() -> None:
    study = parse(FULL)
    assert at(study, "parties.therapist.prompt") == "You are a {{ tone }} therapist."
    assert at(study, "judges.disclosure.question") == "How much does the client disclose?"
    assert at(study, "settings.opening") == "Be cold."
    assert study.document["sources"] == {
        "factors.style.levels.odd.parties.client.prompt": "prompts/odd.md",
        "factors.style.levels.warm.parties.client.prompt": "prompts/warm.md",
        "judges.disclosure.question": "judges/disclosure.md",
        "parties.therapist.prompt": "prompts/therapist.md",
        "settings.opening": "prompts/cold.md",
    }


def test_defaults_are_filled_in() -> None:
    study = small()
    assert study.document["settings"] == {"end_words": ["[END]"], "first": "therapist", "max_turns": 10}
    assert (study.replicates, study.seed, study.budget, study.limits) == (1, 0, Budget(), Limits())
    assert study.document["replicates"] == 1
    assert study.document["measures"] == []


def test_the_first_party_of_the_file_is_remembered_by_name() -> None:
    turned = "study: small\nprocedure: conversation\nparties: {b: {model: x/y}, a: {model: x/y}}\n"
    assert at(parse(turned), "settings.first") == "b"
    assert list(paths.as_map(parse(turned).document["parties"]) or ()) == ["a", "b"]


def test_all_judges_are_measured_unless_the_file_says_which() -> None:
    judges = "judges: {b: {model: x/y, question: q, scale: [1, 5]}, a: {model: x/y, question: q, labels: [yes, no]}}\n"
    assert small(judges).document["measures"] == ["b", "a"]
    assert small(judges + "measures: [a]\n").document["measures"] == ["a"]


@pytest.mark.parametrize(
    ("budget", "usd"),
    [("20", "20"), ('"20"', "20"), ("$20", "20"), ("20.50", "20.5"), ('"$1,000"', "1000"), ("0", "0")],
)
def test_a_budget_may_be_spelled_in_many_ways(budget: str, usd: str) -> None:
    study = small(f"budget_usd: {budget}\n")
    assert study.budget == Budget(study_usd=Decimal(usd))
    assert study.document["budget_usd"] == {"study": usd}


@pytest.mark.parametrize("text", [SMALL, FULL])
def test_an_archive_gives_back_the_same_study(text: str) -> None:
    study = parse(text)
    stored = msgspec.json.encode(study.document, order="deterministic")
    assert archived(msgspec.json.decode(stored), source=study.source) == study


@pytest.mark.parametrize("text", [SMALL, FULL])
def test_a_resolved_document_is_a_study_file_of_its_own(text: str) -> None:
    study = parse(text)
    stored = msgspec.json.decode(msgspec.json.encode(study.document, order="deterministic"))
    again = parse_study(write_yaml(stored), file="resolved.yaml", read=lambda _: None, procedures=PROCEDURES)
    assert replace(again, source=study.source) == study


def test_the_order_of_maps_in_the_file_changes_nothing_that_runs() -> None:
    lines = FULL.splitlines(keepends=True)
    turned = "".join(lines).replace("tone: {parties.therapist.values.tone: [warm, neutral]}", "MARK", 1)
    turned = turned.replace("  depth: {parties.client.values.depth: [3, 1, 2]}\n", "", 1)
    turned = turned.replace(
        "MARK",
        "depth: {parties.client.values.depth: [1, 2, 3]}\n  tone: {parties.therapist.values.tone: [warm, neutral]}",
    )
    one, other = parse(FULL), parse(turned)
    assert ids_of(one) == ids_of(other)


def ids_of(study: Study) -> list[str]:
    from trialrun.core.design import Design, Schedule

    return [f"{slot.condition.id}-r{slot.replicate}" for slot in Schedule(study, Design(study))]


def test_flags_go_before_the_file_and_the_file_before_defaults() -> None:
    flagged = small(
        "replicates: 20\nsettings: {max_turns: 4}\n",
        {"replicates": 3, "budget_usd": "$5", "settings.mood": "calm"},
    )
    assert flagged.replicates == 3
    assert flagged.budget == Budget(study_usd=Decimal(5))
    assert flagged.document["settings"] == {
        "end_words": ["[END]"],
        "first": "therapist",
        "max_turns": 4,
        "mood": "calm",
    }


def test_a_price_may_have_tiers_a_rate_of_reasoning_and_rates_of_its_own_in_a_batch() -> None:
    tiers = "[{above: 9, input: 5, output: 6}, {above: 7, input: 3, output: 4, cache_write: 1}]"
    rates = f"input: 1, output: 2, tiers: {tiers}"
    study = small(f"prices: {{a/b: {{{rates}, reasoning: 8, batch: {{{rates}}}}}}}\n")
    price = study.prices["a/b"]
    assert price.batch is not None
    for one, source, reasoning in ((price, "study", Decimal(8)), (price.batch, "study, batch", None)):
        assert (one.input, one.output, one.source, one.reasoning) == (1, 2, source, reasoning)
        assert one.tiers == (
            (7, Price(input=Decimal(3), output=Decimal(4), cache_write=Decimal(1), source=source)),
            (9, Price(input=Decimal(5), output=Decimal(6), source=source)),
        )


def test_a_flag_may_go_through_keys_with_dots() -> None:
    study = small("prices: {openai/gpt-4.1: {input: 1, output: 2}}\n", {"prices.openai/gpt-4.1.input": 3})
    assert study.prices["openai/gpt-4.1"].input == Decimal(3)


def test_a_flag_may_name_a_file() -> None:
    study = small("", {"parties.client.prompt": "prompts/cold.md"})
    assert at(study, "parties.client.prompt") == "Be cold."


def test_flags_are_read_as_the_file_would_read_them() -> None:
    assert parse_override("settings.max_turns=5") == ("settings.max_turns", 5)
    assert parse_override("parties.client.values.x=no") == ("parties.client.values.x", "no")
    assert parse_override("settings.end_words=[a, b]") == ("settings.end_words", ["a", "b"])
    assert parse_override("notice=a=b") == ("notice", "a=b")
    with pytest.raises(UsageError):
        parse_override("settings.max_turns")


def test_a_program_may_give_plain_data() -> None:
    data = {
        "study": "s",
        "procedure": "conversation",
        "parties": {"a": {"model": "x/y"}, "b": {"script": ("hello", "bye")}},
        "budget_usd": Decimal("2.50"),
        "factors": {"t": {"parties.a.temperature": (0, 1)}},
    }
    study = study_of(data, read=FILES.get, procedures=PROCEDURES)
    assert study.budget.study_usd == Decimal("2.5")
    assert [level.label for level in study.factors[0].levels] == ["0", "1"]


def test_nobody_knows_what_a_procedure_of_the_user_fills_in() -> None:
    text = "study: s\nprocedure: ./mine.py:Mine\nparties: {a: {model: x/y, prompt: 'Be {{ whatever }}'}}\n"
    text += "settings: {any: [thing]}\n"
    assert parse(text).document["settings"] == {"any": ["thing"]}


@pytest.mark.parametrize(
    "prompt",
    [
        "{% for name in names %}{{ name }}{{ loop.index }}{% endfor %}",
        "{% if mood is defined %}{{ mood }}{% endif %}",
        "{{ mood | default('calm') }} {{ names | join(', ') }}",
        "{% set x = 5 %}{{ x }} {# {{ nothing }} #}",
        "{% raw %}{{ nothing }}{% endraw %} {{ 'text' }} {{ names[0].first }}",
        "{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m(names) }}",
    ],
)
def test_names_that_a_template_makes_itself_are_not_asked_for(prompt: str) -> None:
    text = SMALL.replace(
        '"You are a {{ tone }} therapist.", values: {tone: warm}', f'"{prompt}", values: {{names: [a]}}'
    )
    assert parse(text).name == "small"


def test_a_report_of_mistakes_names_the_first_and_the_number() -> None:
    with pytest.raises(StudyMistakes) as caught:
        parse(SMALL + "replicates: 0\nseed: x\n")
    assert str(caught.value).endswith("(and 1 more)")
    assert caught.value.where == "study.yaml:6"
