"""Each fault at each protocol: the ledger is the book to the micro-dollar, and what cannot be known is in doubt."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import make_plan
from trialrun.app.running import Exit, Ran, run_study
from trialrun.core.errors import AuthRefused, QuotaExhausted
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.store.tables import CallAttempt
from trialrun.testing.emulator import Emulator
from trialrun.testing.emulator.book import Entry

MODELS = {
    "chat": "openai/gpt-4.1-mini",
    "responses": "openai-responses/gpt-4.1-mini",
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "google/gemini-2.5-flash",
    "vertex": "vertex/gemini-2.5-flash",
}
on_every_protocol = pytest.mark.parametrize("way", MODELS)
RULES: dict[str, dict[str, Any]] = {
    "429": {"fault": "throttled", "wait_as": "none"},
    "429 with a wait": {"fault": "throttled", "wait_s": 0.2},
    "429 until a date": {"fault": "throttled", "wait_s": 1, "wait_as": "date"},
    "500": {"fault": "broken"},
    "503": {"fault": "unavailable"},
    "529": {"fault": "overloaded"},
    "dropped before": {"fault": "dropped_before"},
    "dropped after": {"fault": "dropped_after"},
    "truncated": {"fault": "truncated", "keep": 0.5},
    "malformed": {"fault": "malformed", "keep": 0.5},
    "slow": {"fault": "slow_body", "seconds": 0.2},
    "wrong type": {"fault": "wrong_type"},
    "no usage": {"fault": "no_usage"},
    "nothing": {},
}
NOT_BILLED = {"429", "429 with a wait", "429 until a date", "500", "503", "529"}
IN_DOUBT = {"dropped before", "dropped after", "truncated"}
"""The connection ended: nobody knows whether a reply was produced, and the call is made again."""
UNKNOWN = {"malformed", "wrong type", "no usage"}
"""A reply came, and does not say what it cost."""
UNREADABLE = {"malformed", "wrong type"}
REASONS = {
    "dropped before": "connection",
    "dropped after": "connection",
    "truncated": "connection",
}


async def ask(trial: Trial, lab: Lab) -> dict[str, object]:
    await lab.ask("a", f"How was it? <{trial.condition['case']}>")
    return {}


async def run_with(
    server: Emulator, way: str, folder: Path, cases: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> tuple[Ran, Mapping[str, list[CallAttempt]], Any]:
    """How the study ended, the attempts of each case, and the sums."""
    model = MODELS[way]
    for name, value in server.settings(model.partition("/")[0]).items():
        monkeypatch.setenv(name, value)
    plan = make_plan(
        folder,
        ask,
        parties={
            "a": {"model": model, "prompt": "You are A. {{ case }}", "values": {"case": ""}, "max_tokens": 60}
        },
        factors={"case": {"parties.a.values.case": list(cases)}},
        replicates=1,
        budget_usd=5,
        limits={"open_trials": 20},
    )
    ran = await run_study(plan)
    attempts: dict[str, list[CallAttempt]] = {}
    with Archive(plan.folder) as archive:
        for row in archive.calls():
            asked = archive.request_of(row.trial, row.at).messages[-1].text
            attempts.setdefault(asked.partition("<")[2].rstrip(">"), []).append(row)
        return ran, attempts, archive.total()


def faults() -> list[dict[str, Any]]:
    """Each for the first attempt of its own trial."""
    return [{**rule, "name": name, "text": f"<{name}>", "times": 1} for name, rule in RULES.items() if rule]


@on_every_protocol
async def test_the_ledger_is_the_book_after_each_fault(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Emulator({"faults": faults()}) as server:
        _, attempts, total = await run_with(server, way, tmp_path, tuple(RULES), monkeypatch)
        entries = list(server.book)
    of_rule: dict[str, Entry] = {entry.rule: entry for entry in entries if entry.rule}
    assert set(of_rule) == set(RULES) - {"nothing"}, "each fault happened"
    for name, rows in attempts.items():
        first, *more = rows
        if name in NOT_BILLED:
            assert (first.status, first.cost_usd) == ("released", None), name
            assert not of_rule[name].is_billed
        elif name in IN_DOUBT:
            assert (first.status, first.cost_usd) == ("in_doubt", None), name
            assert first.ceiling_usd is not None
            assert first.ceiling_usd >= (of_rule[name].cost_usd or 0), "held at no less than it may have cost"
            assert REASONS[name] in first.reason, (name, first.reason)
        elif name in UNKNOWN:
            assert (first.status, first.cost_usd) == ("settled", None), name
            assert bool(first.unreadable) == (name in UNREADABLE), name
            assert of_rule[name].is_billed
        else:
            assert first.status == "settled"
            assert first.cost_usd
        if name in NOT_BILLED | IN_DOUBT:
            assert [(row.attempt, row.status) for row in more] == [(2, "settled")], name
        else:
            assert not more, f"{name}: what came is not asked for again"
    known = [entry for entry in entries if entry.outcome in ("answered", "slow_body")]
    billed = sum((entry.cost_usd or Decimal(0) for entry in known), Decimal(0))
    assert total.spent_usd == billed > 0
    lost = [entry for entry in entries if entry.is_billed and entry not in known]
    assert len(lost) == len(IN_DOUBT | UNKNOWN) - 1, (
        "all but the connection that ended before there was a reply"
    )
    assert (total.doubts, total.unknown_costs) == (len(IN_DOUBT), len(UNKNOWN))
    assert total.held_usd >= sum((entry.cost_usd or Decimal(0) for entry in lost), Decimal(0))


@on_every_protocol
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("quota", QuotaExhausted),
        ("spend_limit", QuotaExhausted),
        ("revoked", AuthRefused),
        ("forbidden", AuthRefused),
    ],
)
async def test_an_account_that_ends_stops_the_study_unbilled_and_the_next_run_continues(
    way: str, fault: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = tuple(f"n{number}" for number in range(6))
    async with Emulator({"faults": [{"fault": fault, "after": 3}]}) as server:
        ran, _, total = await run_with(server, way, tmp_path, cases, monkeypatch)
        assert type(ran.stopped_by) is error
        assert total.spent_usd == server.book.total.cost_usd > 0
        assert (total.doubts, total.unknown_costs, total.held_usd) == (0, 0, 0)
        server.follow(None)
        ran, attempts, total = await run_with(server, way, tmp_path, cases, monkeypatch)
        assert ran.exit is Exit.DONE
        assert total.spent_usd == server.book.total.cost_usd
        assert all(rows[-1].status == "settled" for rows in attempts.values())
        assert server.book.total.billed == len(cases), "nothing was paid twice"
