"""Every named server that speaks chat completions, driven by whole studies over HTTP in its own dialect."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.behaviour.support import make_plan
from tests.providers.named_servers import DATA, SERVERS, TEXT, Named, NamedServer
from trialrun.app.exits import Exit
from trialrun.app.running import Ran, run_study
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core.errors import QuotaExhausted
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.providers.registry import ENDPOINTS
from trialrun.store.archive import Archive

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}
KEY = "sk-named-0123456789"
each = pytest.mark.parametrize("named", SERVERS, ids=[named.name for named in SERVERS])


async def two_questions(trial: Trial, lab: Lab) -> dict[str, object]:
    plain = await lab.ask("a", "How was it?")
    rated = await lab.ask("a", "How warm was it?", schema=SCHEMA)
    data: Any = rated.data
    return {"text": plain.text, "finish": plain.finish, "score": data["score"], "cost": str(plain.cost_usd)}


@asynccontextmanager
async def served(
    named: Named, monkeypatch: pytest.MonkeyPatch, *, first: str = ""
) -> AsyncGenerator[NamedServer, None]:
    server = NamedServer(named, first=first)
    async with server.running():
        monkeypatch.setenv(f"{named.name.upper()}_BASE_URL", server.url)
        if named.key:
            monkeypatch.setenv(named.key, KEY)
        yield server


async def run(named: Named, folder: Path, *, model: str = "", **changes: Any) -> tuple[Plan, Ran]:
    """A study of one trial: a question, and one with a schema; with all settings that a party may have."""
    party = {
        "model": f"{named.name}/{model or named.model}",
        "prompt": "You are calm.",
        "max_tokens": 500,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
    }
    study: dict[str, Any] = {
        "parties": {"a": party},
        "factors": {},
        "replicates": 1,
        "budget_usd": 1,
        "prices": {f"{named.name}/*": {"input": 1, "output": 4}},
        "limits": {"call_attempts": 3},
    }
    plan = make_plan(folder, two_questions, **{**study, **changes})
    return plan, await run_study(plan)


def test_every_server_that_the_guide_names_is_driven_here() -> None:
    named = {name for name, endpoint in ENDPOINTS.items() if endpoint.wire == "chat"}
    assert {server.name for server in SERVERS} == named - {"openai"}
    for server in SERVERS:
        endpoint = ENDPOINTS[server.name]
        assert endpoint.base_url.endswith(server.path)
        assert bool(server.key) == bool(endpoint.keys)
        assert not server.key or server.key in endpoint.keys


@each
async def test_a_study_is_answered_counted_and_paid(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(named, monkeypatch) as server:
        plan, ran = await run(named, tmp_path)
    assert ran.exit is Exit.DONE
    for body in server.bodies:
        assert body["model"] == named.model
        assert body.get("max_tokens", body.get("max_completion_tokens")) == 500
    assert server.keys == [f"Bearer {KEY}" if named.key else None] * 2
    with Archive(plan.folder) as archive:
        (trial,) = archive.trials()
        values = {"text": TEXT, "finish": "stop", "score": 4, "cost": str(named.cost_usd)}
        assert trial.values == values
        settled = [entry.fact for entry in archive.facts_of(trial.id) if isinstance(entry.fact, f.Settled)]
        assert [fact.usage for fact in settled] == [named.usage] * 2
        assert [fact.cost_usd for fact in settled] == [named.cost_usd] * 2
        assert archive.total().spent_usd == 2 * named.cost_usd
        assert [fact.seed for fact in settled] == [named.seed] * 2
        assert all(fact.model for fact in settled)
        kept = {artefact.name: artefact for artefact in archive.artefacts()}
        assert set(kept) == ({"extras:0", "extras:1"} if named.extras else set())
        raw = msgspec.json.decode(archive.raw_of(trial.id, "1"))
        assert raw == server.named.reply(server.bodies[1], DATA), "the whole reply is kept, word for word"


@each
async def test_a_server_that_is_busy_is_asked_again(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(named, monkeypatch, first="busy") as server:
        plan, ran = await run(named, tmp_path)
    assert ran.exit is Exit.DONE
    assert len(server.bodies) == 3
    assert server.bodies[0] == server.bodies[1]
    with Archive(plan.folder) as archive:
        total = archive.total()
    assert (total.spent_usd, total.doubts, total.unknown_costs) == (2 * named.cost_usd, 0, 0)


@pytest.mark.parametrize(
    "named", [named for named in SERVERS if named.empty], ids=[named.name for named in SERVERS if named.empty]
)
async def test_an_account_without_money_pauses_the_study(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(named, monkeypatch, first="empty") as server:
        plan, ran = await run(named, tmp_path)
        assert isinstance(ran.stopped_by, QuotaExhausted)
        assert len(server.bodies) == 1
        with Archive(plan.folder) as archive:
            assert not any(trial.status == "failed" for trial in archive.trials())
            assert archive.total().spent_usd == 0
        # Somebody has paid, and says the same again.
        ran = await run_study(plan)
        assert ran.exit is Exit.DONE


@pytest.mark.parametrize(
    "named",
    [named for named in SERVERS if named.broken_off],
    ids=[named.name for named in SERVERS if named.broken_off],
)
async def test_a_reply_that_the_server_broke_off_is_paid_and_no_outcome(
    named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(named, monkeypatch, first="broken off") as server:
        plan, ran = await run(named, tmp_path)
    assert ran.exit is not Exit.DONE
    assert len(server.bodies) == 1, "a paid reply is not asked for again by itself"
    with Archive(plan.folder) as archive:
        (trial,) = archive.trials()
        assert (trial.status, trial.boundary) == ("failed", "provider")
        assert "broke the reply off" in trial.reason
        assert archive.total().spent_usd == named.cost_usd
    if "error" in (named.broken_off or {}):
        assert "Upstream idle timeout" in trial.reason


async def test_what_groq_s_model_wrote_beside_its_schema_is_asked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (groq,) = (named for named in SERVERS if named.name == "groq")
    async with served(groq, monkeypatch) as server:
        server.unfit = '{"score": 9}'
        plan, ran = await run(groq, tmp_path)
    assert ran.exit is Exit.DONE
    plain, rated, repair = server.bodies
    assert "response_format" not in plain
    assert repair["messages"][:-2] == rated["messages"]
    assert repair["messages"][-2] == {"role": "assistant", "content": '{"score": 9}'}
    with Archive(plan.folder) as archive:
        rows = [(row.at, row.purpose, bool(row.unreadable), row.cost_usd) for row in archive.calls()]
        total = archive.total()
    assert rows == [
        ("0", "", False, groq.cost_usd),
        ("1", "", True, None),
        ("1.r", "repair", False, groq.cost_usd),
    ]
    # It says no tokens, and nobody knows whether it bills them.
    assert (total.unknown_costs, total.spent_usd) == (1, 2 * groq.cost_usd)


@pytest.mark.parametrize("name", ["ollama", "vllm", "llamacpp", "lmstudio"])
async def test_a_server_of_one_s_own_gets_a_key_if_there_is_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (named,) = (named for named in SERVERS if named.name == name)
    monkeypatch.setenv(f"{name.upper()}_API_KEY", KEY)
    async with served(named, monkeypatch) as server:
        await run(named, tmp_path)
    assert server.keys == [f"Bearer {KEY}"] * 2


async def test_where_the_provider_says_what_it_charged_no_price_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (xai,) = (named for named in SERVERS if named.name == "xai")
    async with served(xai, monkeypatch):
        plan, ran = await run(xai, tmp_path, model="grok-4-of-tomorrow", prices={}, budget_usd=None)
    assert ran.exit is Exit.DONE
    with Archive(plan.folder) as archive:
        assert {row.priced_by for row in archive.calls()} == {"xai: as billed"}
        assert archive.total().spent_usd == Decimal("0.0075512")
    assert "above what was held" not in capsys.readouterr().err


async def test_a_charge_above_the_hold_is_booked_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (xai,) = (named for named in SERVERS if named.name == "xai")
    async with served(xai, monkeypatch):
        plan, _ = await run(xai, tmp_path, prices={"xai/*": {"input": "0.001", "output": "0.001"}})
    with Archive(plan.folder) as archive:
        assert archive.total().spent_usd == 2 * xai.cost_usd
    assert "2 bills came above what was held" in capsys.readouterr().err
