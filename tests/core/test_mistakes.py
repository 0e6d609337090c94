"""Every mistake of a study file: what is said, at which line, and the fix."""

from textwrap import dedent

import pytest

from tests.core.studies import (
    FILES,
    PROCEDURES,
    SMALL,
    check_mistake,
    mistake_of,
    mistakes_of,
    parse,
    small,
)
from trialrun.core.errors import StudyMistakes
from trialrun.core.reading.parse import parse_study, study_of


def test_all_mistakes_come_together_in_the_order_of_the_file() -> None:
    found = mistakes_of("study: a b\nprocedure: conversatoin\nreplicates: 0\nsed: 4\n")
    assert [(m.line, m.fix) for m in found] == [
        (1, "use letters, digits, `.`, `_` and `-`, at most 64; the name becomes a folder"),
        (2, "did you mean `conversation`?"),
        (3, "give a value within the bounds"),
        (4, "did you mean `seed`?"),
    ]


def test_a_mistake_reads_as_in_the_house_style() -> None:
    report = mistake_of(
        SMALL
        + "factors:\n  tone: {parties.therapist.values.tone: [warm, cold]}\ndesign: {exclude: [{tone: worm}]}\n"
    )
    assert report.report() == dedent("""\
        error: factor `tone` has no level `worm`
          --> study.yaml:8
          8 | design: {exclude: [{tone: worm}]}
         fix: did you mean `warm`?""")


@pytest.mark.parametrize(
    ("more", "line", "what", "fix"),
    [
        # --- keys and types
        ("replicate: 3", 1, "a study file has no key `replicate`", "did you mean `replicates`?"),
        (
            "temperature: 1",
            1,
            "a study file has no key `temperature`",
            "`temperature` belongs in `parties.<name>`",
        ),
        ("xyz: red", 1, "a study file has no key `xyz`", "use one of `procedure`"),
        (
            "replicates: many",
            1,
            "`replicates` must be a whole number, not the text `many`",
            "give a whole number",
        ),
        ('replicates: "3"', 1, "`replicates` must be a whole number, not the text `3`", "remove the quotes"),
        ("replicates: 2.5", 1, "`replicates` must be a whole number, not the number `2.5`", "round it"),
        ("replicates: 0", 1, "`replicates` must be at least 1, not 0", "give a value within"),
        ("replicates: 10000000", 1, "`replicates` must be at most", "give a value within"),
        (
            "question: yes or no\nnotice: 5",
            2,
            "`notice` must be a text, not the number `5`",
            "put it in quotes",
        ),
        ("seed: true", 1, "`seed` must be a whole number, not `true`", "give a whole number"),
        ("settings: [1]", 1, "`settings` must be a map, not a list", "give a map"),
        ("measures: client.words", 1, "`measures` must be a list, not the text", "write [client.words]"),
        (
            "judges:\n  9lives: {model: a/b, question: q, scale: [1, 5]}",
            2,
            "`9lives` cannot be a name",
            "begin with a letter",
        ),
        # --- budget, limits, prices, rehearsal
        ("budget_usd: lots", 1, "`budget_usd` must be an amount in USD", "write an amount such as 20"),
        ("budget_usd: -1", 1, "`budget_usd` must be an amount in USD", "write an amount such as 20"),
        ("budget_usd:\n  studdy: 4", 2, "`budget_usd` has no key `studdy`", "did you mean `study`?"),
        (
            "budget_usd:\n  study: 4\n  trial: x",
            3,
            "`budget_usd.trial` must be an amount in USD",
            "write an amount",
        ),
        ("limits:\n  open_trial: 4", 2, "`limits` has no key `open_trial`", "did you mean `open_trials`?"),
        ("limits:\n  call_timeout_s: 0", 2, "`limits.call_timeout_s` must be above 0", "give a value within"),
        (
            "limits:\n  rates:\n    openai/*: {requests_minute: 5}",
            3,
            "`limits.rates.openai/*` has no key `requests_minute`",
            "did you mean `requests_per_minute`?",
        ),
        (
            "prices:\n  a/b: {input: 1}",
            2,
            "`prices.a/b.output` is missing",
            "add `output: ...` (tokens that it writes",
        ),
        (
            "prices:\n  a/b:\n    input: 1\n    output: 1\n    tiers: [{above: 5, input: 1, ouptut: 2}]",
            5,
            "`prices.a/b.tiers.0` has no key `ouptut`",
            "did you mean `output`?",
        ),
        (
            "prices: {a/b: {input: 1, output: 1, tiers: [{above: 5, input: 1, output: 2}, *T]}}".replace(
                "*T", "{above: 5, input: 0, output: 1}"
            ),
            1,
            "`prices.a/b.tiers` has two tiers with the same `above`",
            "give each tier an `above` of its own",
        ),
        (
            "prices:\n  a/b:\n    input: 1\n    output: x",
            4,
            "`prices.a/b.output` must be an amount",
            "write an amount",
        ),
        ("rehearsal: {errors: 2}", 1, "`rehearsal.errors` must be at most 1", "give a value within"),
        # --- settings of a built-in procedure
        (
            "settings:\n  max_turn: 4",
            2,
            "the procedure `conversation` has no setting `max_turn`",
            "did you mean `max_turns`?",
        ),
        (
            "settings:\n  max_turns: four",
            2,
            "`settings.max_turns` must be a whole number",
            "Rounds of the talk.",
        ),
        (
            "settings:\n  max_turns: 0",
            2,
            "`settings.max_turns` must be at least 1, not 0",
            "give a larger number",
        ),
        (
            "settings:\n  first: clent",
            2,
            "`settings.first` names `clent`, which is no party",
            "did you mean `client`?",
        ),
        ("settings:\n  mood: clam", 2, "`settings.mood` cannot be `clam`", "did you mean `calm`?"),
        (
            "settings:\n  opening: prompts/wram.md",
            2,
            "there is no file `prompts/wram.md`",
            "did you mean `prompts/warm.md`?",
        ),
        (
            "settings:\n  end_words: [1]",
            2,
            "`settings.end_words` must be a list of texts",
            "give a list of texts",
        ),
        # --- judges and measures
        (
            "judges:\n  d: {model: a/b, question: q}",
            2,
            "`judges.d` has neither labels nor a scale",
            "give `labels:",
        ),
        ("judges:\n  d: {model: a/b, scale: [1, 5]}", 2, "`judges.d` has no question", "add `question: ...`"),
        (
            "judges:\n  d: {question: q, scale: [1, 5]}",
            2,
            "`judges.d` has no model",
            "add `model: provider/model`",
        ),
        (
            "judges:\n  d: {model: a/b, question: q, scale: [5, 1]}",
            2,
            "the scale of `judges.d` goes from 5 to 1",
            "write [1, 5]",
        ),
        (
            "judges:\n  d: {model: a/b, question: q, labels: [a, b, a]}",
            2,
            "`judges.d` has the label `a` twice",
            "keep one",
        ),
        (
            "judges:\n  d:\n    model: a/b\n    question: q\n    labels: [true, no]",
            5,
            "must be a text, not `true`",
            "put it in quotes",
        ),
        (
            "judges:\n  d: {model: a/b, question: judges/disclosur.md, scale: [1, 5]}",
            2,
            "there is no file `judges/disclosur.md`",
            "did you mean `judges/disclosure.md`?",
        ),
        ("measures:\n  - turn", 2, "there is no judge or measure `turn`", "did you mean `turns`?"),
        ("measures:\n  - turns\n  - clint.words", 3, "there is no party `clint`", "did you mean `client`?"),
        ("measures: [client.word]", 1, "there is no measure `word` of a party", "did you mean `words`?"),
        ("measures: [turns, turns]", 1, "the measure `turns` stands there twice", "keep one"),
    ],
)
def test_a_mistake_in_an_added_line(more: str, line: int, what: str, fix: str) -> None:
    check_mistake(more, line=line, what=what, fix=fix)


@pytest.mark.parametrize(
    ("parties", "line", "what", "fix"),
    [
        (
            "  a: {model: x/y}\n",
            3,
            "the procedure `conversation` needs at least 2 parties, and there are 1",
            "add them",
        ),
        (
            "  a: {model: x/y}\n  b: {prompt: hello}\n",
            5,
            "`parties.b` has no model, human or script",
            "add `model: provider",
        ),
        (
            "  a: {model: x/y}\n  b: {model: gpt-5}\n",
            5,
            "`parties.b.model` cannot be `gpt-5`",
            "write provider/model",
        ),
        (
            "  a: {model: x/y}\n  b: {modle: x/y}\n",
            5,
            "`parties.b` has no key `modle`",
            "did you mean `model`?",
        ),
        (
            "  a: {model: x/y}\n  b: {human: true, script: [x]}\n",
            5,
            "`parties.b` has `human` and `script`",
            "keep one",
        ),
        (
            "  a: {model: x/y}\n  b: {human: no}\n",
            5,
            "`parties.b.human` must be true, not the text `no`",
            "write true",
        ),
        ("  a: {model: x/y}\n  b: {script: []}\n", 5, "`parties.b.script` is empty", "give a value"),
        (
            "  a: {model: x/y}\n  b:\n    human: true\n    top_p: 1\n",
            7,
            "`parties.b.top_p` means nothing",
            "remove `top_p`",
        ),
        (
            "  a: {model: x/y}\n  b: {model: x/y, prompt: prompts/empty.md}\n",
            5,
            "the file `prompts/empty.md` is empty",
            "write",
        ),
        (
            "  a: {model: x/y}\n  b: {model: x/y, prompt: warm.md}\n",
            5,
            "there is no file `warm.md`",
            "did you mean `prompts/warm.md`?",
        ),
        (
            "  a: {model: x/y}\n  b: {model: x/y, prompt: 'Be {{ tne }}', values: {tone: warm}}\n",
            5,
            "the prompt of `b` asks for `tne`, which nobody gives",
            "did you mean `tone`?",
        ),
        (
            "  a: {model: x/y}\n  b: {model: x/y, max_tokens: 0}\n",
            5,
            "`parties.b.max_tokens` must be at least 1",
            "give",
        ),
        ("  a: {model: x/y}\n  b b: {model: x/y}\n", 5, "`b b` cannot be a name", "begin with a letter"),
    ],
)
def test_a_mistake_in_a_party(parties: str, line: int, what: str, fix: str) -> None:
    mistake = mistake_of("study: s\nprocedure: conversation\nparties:\n" + parties)
    assert what in mistake.what
    assert mistake.fix.startswith(fix)
    assert mistake.line == line


def test_a_procedure_names_the_parties_that_it_needs() -> None:
    text = "study: s\nprocedure: negotiation\nsettings: {stakes: 5}\nparties:\n"
    text += "  buyr: {model: x/y}\n  seller: {model: x/y}\n"
    mistake = mistake_of(text)
    assert (mistake.line, mistake.fix) == (5, "rename `buyr`")
    assert mistake.what == "the procedure `negotiation` needs a party `buyer`"


def test_a_setting_that_a_procedure_needs_is_asked_for() -> None:
    mistake = mistake_of(
        "study: s\nprocedure: negotiation\nparties:\n  buyer: {model: x/y}\n  seller: {model: x/y}\n"
    )
    assert mistake.what == "the procedure `negotiation` needs the setting `stakes`"
    assert mistake.fix == "add `settings.stakes` (What is at stake, in USD.)"


def test_a_missing_name_and_procedure_are_asked_for() -> None:
    found = mistakes_of("question: what?\n")
    assert [m.what for m in found] == ["`study` is missing", "`procedure` is missing"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]\n", "just text\n", "5\n"])
def test_a_file_that_is_no_study_says_so(text: str) -> None:
    assert mistake_of(text).what == "this is no study"


@pytest.mark.parametrize(
    ("procedure", "what", "fix"),
    [
        ("./min.py:Mine", "there is no file `./min.py`", "did you mean `mine.py`?"),
        ("./mine.py:Mien", "`./mine.py` defines no `Mien`", "did you mean `Mine`?"),
        (
            "mine",
            "there is no procedure `mine`",
            "use one of `conversation`, `negotiation`, or write ./file.py:Name",
        ),
    ],
)
def test_a_procedure_of_the_user_must_be_there(procedure: str, what: str, fix: str) -> None:
    mistake = mistake_of(f"study: s\nprocedure: {procedure}\nparties: {{a: {{model: x/y}}}}\n")
    assert (mistake.what, mistake.line) == (what, 2)
    assert mistake.fix.startswith(fix)


@pytest.mark.parametrize(
    ("overrides", "file", "what", "fix"),
    [
        (
            {"settings.max_turn": 5},
            "--set settings.max_turn=5",
            "has no setting `max_turn`",
            "did you mean `max_turns`?",
        ),
        ({"replicates": 0}, "--replicates 0", "`replicates` must be at least 1", "give a value within"),
        ({"budget_usd": "much"}, "--budget much", "`budget_usd` must be an amount", "write an amount"),
        (
            {"replicate": 2},
            "--set replicate=2",
            "a study has no key `replicate`",
            "did you mean `replicates`?",
        ),
        (
            {"parties.client.model": "gpt"},
            "--set parties.client.model=gpt",
            "cannot be `gpt`",
            "write provider/model",
        ),
        (
            {"parties.client.promt": "x"},
            "--set parties.client.promt=x",
            "has no key `promt`",
            "did you mean `prompt`?",
        ),
        (
            {"parties.client.model.x": 1},
            "--set parties.client.model.x=1",
            "goes through a value that is no map",
            "shorten",
        ),
    ],
)
def test_a_mistake_in_a_flag_is_reported_as_the_flag(
    overrides: dict[str, object], file: str, what: str, fix: str
) -> None:
    mistake = mistake_of(SMALL, overrides)
    assert (mistake.file, mistake.line) == (file, None)
    assert what in mistake.what
    assert mistake.fix.startswith(fix)


def test_a_flag_that_a_factor_would_overwrite_is_a_mistake() -> None:
    factors = "factors: {turns: {settings.max_turns: [2, 4]}}\n"
    mistake = mistake_of(SMALL + factors, {"settings.max_turns": 5})
    assert mistake.what == "the factor `turns` varies `settings.max_turns`, so the flag would change nothing"


def test_plain_data_of_a_program_is_checked_like_a_file() -> None:
    with pytest.raises(StudyMistakes) as caught:
        study_of({"study": "s", "settings": {"when": object()}}, read=FILES.get, procedures=PROCEDURES)
    assert "`settings.when` is no plain data but object" in caught.value.mistakes[0].what


def test_the_small_study_has_no_mistakes() -> None:
    assert small().name == "small"
    assert parse_study(SMALL, file="", read=FILES.get, procedures=PROCEDURES).name == parse(SMALL).name
