"""The batch lane at the size of OpenAI's largest batch: building its file, taking its results apart, and what waits.

Real parts throughout: OpenAI's lines, the study's files, SQLite. What a provider does, writing the results, happens in
another process and is not counted.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import msgspec

from bench.common import (
    REPLY,
    SYSTEM,
    OnePrice,
    Stopwatch,
    is_short,
    peak_rss_mb,
    question_of,
    report,
    study,
)
from trialrun.app.clock import SystemClock
from trialrun.app.exits import Exit
from trialrun.app.garbage import collected_seldom
from trialrun.app.running import run_study
from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.batches import Look, PackFile
from trialrun.core.budget import Ledger
from trialrun.core.calls import Call, Message, Request
from trialrun.core.packs import Pack, pack_of
from trialrun.core.ports import Lab
from trialrun.core.study import Batching, Budget, Limits, Trial
from trialrun.gateway.batches.loads import Load, Loads
from trialrun.gateway.batches.unpacking import Till, unpack
from trialrun.gateway.breaker import Breaker
from trialrun.gateway.purse import Purse
from trialrun.providers.batches.openai import OpenAIBatches
from trialrun.providers.openai_chat import OPENAI, OpenAIChat
from trialrun.store.journal import SqliteJournal
from trialrun.store.packs import FilePacks

_CEILING = Decimal("0.0007")
_CONDITION = "warm-abcdefghijkl"
_MODEL = "openai/gpt-4.1-mini"
_TURNS = 10


def main() -> None:
    requests = 5_000 if is_short() else 50_000
    took = _there_and_back(requests)
    report(f"a request file of {requests:,} lines, built", took.build_s / took.bare_s, "bare parses", 10)
    report(
        f"{requests:,} results parsed, settled and journaled", took.unpack_s / took.bare_s, "bare parses", 45
    )
    if not is_short():  # which runs among other tests, where a second is worth less
        report("the bare parse", took.bare_s, "s CPU", 0.2)
        report(f"a request file of {requests:,} lines, built", took.build_s, "s CPU", 1.0)
        report(f"{requests:,} results parsed, settled and journaled", took.unpack_s, "s CPU", 3.0)
    trials = 1_000 if is_short() else 10_000
    few, many = _peak_mb(1_000, 1), _peak_mb(requests, 1)
    report(f"peak memory, {requests:,} calls in one batch", many, "MB", 110)
    report(f"peak memory, {requests:,} calls in one batch over 1,000", many / few, "times", 1.5)
    report(f"peak memory, {trials:,} talks of {_TURNS} turns in batches", _peak_mb(trials, _TURNS), "MB", 110)


# --- one pack --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """CPU seconds of building the file, of taking its results apart, and of only decoding them as JSON."""

    build_s: float
    unpack_s: float
    bare_s: float


def _there_and_back(requests: int) -> Took:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_one_pack(Path(folder), requests))


async def _one_pack(folder: Path, requests: int) -> Took:
    route, packs = OnDisk(), FilePacks(folder)
    watch = Stopwatch()
    pack, file = _built(route, packs, requests)
    build_s = watch.cpu_s()
    batch = await route.create(file, "")
    journal = SqliteJournal.open(folder, clock=SystemClock())
    till = await _till(journal, packs, pack)
    watch = Stopwatch()
    with collected_seldom():  # as in every run
        digest, size = await packs.keep(pack.id, "results-1.jsonl", route.fetch(batch, batch))
        pack.files = (("results-1.jsonl", digest, size),)
        unpacked = await unpack(pack, route, till)
    unpack_s = watch.cpu_s()
    assert unpacked.counts == {"ok": requests}
    await journal.close()
    bare_s = min(_bare_s(packs, pack) for _ in range(3))
    return Took(build_s=build_s, unpack_s=unpack_s, bare_s=bare_s)


def _bare_s(packs: FilePacks, pack: Pack) -> float:
    watch = Stopwatch()
    for line in packs.lines(pack.id, "results-1.jsonl"):
        msgspec.json.decode(line)
    return watch.cpu_s()


def _built(route: OpenAIBatches, packs: FilePacks, requests: int) -> tuple[Pack, PackFile]:
    departed: list[Load] = []
    loads = Loads(packs=packs, settings=Batching(), tag="sabcde", depart=departed.append)
    for call in _calls(requests):
        body = route.provider.prepare(call)
        loads.add(call, body, route, attempt=1, ceiling_usd=_CEILING, now=0.0)
    loads.flush()
    (load,) = departed
    file = load.spool.seal("pabcdefgh")
    built = p.PackBuilt(
        pack=file.id,
        model=load.model,
        endpoint=load.endpoint,
        requests=file.requests,
        size_bytes=file.size_bytes,
        digest=load.spool.digest,
        tokens=load.tokens,
        ceiling_usd=load.ceiling_usd,
    )
    return pack_of(built, 0.0), file


def _calls(requests: int) -> Iterator[Call]:
    for number in range(requests):
        messages = (Message(role="system", text=SYSTEM), Message(role="user", text=question_of(number)))
        yield Call(
            trial=f"{_CONDITION}-r{number}",
            condition=_CONDITION,
            address="1",
            party="therapist",
            purpose="",
            turn=1,
            request=Request(model=_MODEL, messages=messages, max_tokens=300),
            key=b"bench",
        )


async def _till(journal: SqliteJournal, packs: FilePacks, pack: Pack) -> Till:
    """A study in which the trials of the pack are parked, and their money is held."""
    ledger = Ledger(budget=Budget(study_usd=Decimal(1_000_000)))
    for place, row in enumerate(packs.rows(pack.id)):
        ledger.hold(row.condition, row.trial, _CEILING)
        started = f.Started(
            condition=row.condition,
            levels={"tone": "warm"},
            replicate=place,
            block=place,
            planned=place,
            actual=place,
            spec="0" * 32,
        )
        held = f.Held(
            at=row.at,
            attempt=1,
            model=pack.model,
            party="therapist",
            fingerprint="0" * 32,
            ceiling_usd=_CEILING,
            lane="batch",
        )
        journal.append(row.trial, [started, held, f.Waiting(waiting_for="batch")])
    await journal.commit()
    return Till(
        journal=journal,
        purse=Purse(ledger),
        prices=OnePrice(),
        packs=packs,
        breaker=Breaker(limit=10),
        limits=Limits(),
    )


# --- a whole study ---------------------------------------------------------------------------------------------------


def _peak_mb(trials: int, turns: int) -> float:
    command = [sys.executable, "-m", "bench.batches", "--child", str(trials), str(turns)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


async def _talk(trial: Trial, lab: Lab) -> dict[str, object]:
    """Each question needs the answer before it."""
    text = question_of(trial.replicate)
    for _ in range(int(sys.argv[-1])):
        async with lab.next_turn():
            reply = await lab.ask("therapist", text)
            lab.say("therapist", reply)
            text = f"You said {len(reply.text)} characters. What else?"
    return {"last": text}


def _child(trials: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = study(Path(folder), trials=trials, turns=0, open_trials=200, lane="batch", procedure=_talk)
        route = OnDisk()
        run = run_study(plan, route=lambda _: route.provider, batch_route=lambda _: route, prices=OnePrice())
        ran = asyncio.run(run)
        assert ran.exit is Exit.DONE
        assert ran.live.done == trials
    sys.stdout.write(str(peak_rss_mb()))


# --- the far end -----------------------------------------------------------------------------------------------------


class OnDisk(OpenAIBatches):
    """OpenAI's lines; a batch is done at once, and its results are a file beside its requests."""

    def __init__(self) -> None:
        super().__init__(OpenAIChat("openai", base_url="http://127.0.0.1:1/v1", key="none", dialect=OPENAI))

    async def upload(self, pack: PackFile) -> str:
        return pack.path.name

    async def create(self, pack: PackFile, input_: str) -> str:
        results = f"{pack.path}.results"
        command = [sys.executable, "-m", "bench.batches", "--answer", str(pack.path), results]
        answering = await asyncio.create_subprocess_exec(*command)
        assert await answering.wait() == 0
        return results

    async def look(self, batch: str) -> Look:
        return Look(phase="ended", word="completed", results=(batch,))

    async def fetch(self, batch: str, result: str) -> AsyncIterator[bytes]:
        with Path(result).open("rb") as file:  # noqa: ASYNC230  # a local file, in place of a network
            while chunk := file.read(1 << 16):
                yield chunk


def _answer(requests: Path, results: Path) -> None:
    """What the provider would write."""
    with requests.open("rb") as asked, results.open("wb") as answers:
        for number, line in enumerate(asked):
            body: dict[str, object] = {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion",
                "created": 1_700_000_000,
                "model": "gpt-4.1-mini-2025-04-14",
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": f"{REPLY}{number}",
                            "refusal": None,
                            "annotations": [],
                        },
                        "logprobs": None,
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": 160, "completion_tokens": 150, "total_tokens": 310},
                "system_fingerprint": "fp_far_end",
            }
            response: dict[str, object] = {"status_code": 200, "request_id": f"req_{number}", "body": body}
            answer: dict[str, object] = {
                "id": f"batch_req_{number}",
                "custom_id": json.loads(line)["custom_id"],
                "response": response,
                "error": None,
            }
            answers.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--child", number, _]:
            _child(int(number))
        case ["--answer", requests_file, results_file]:
            _answer(Path(requests_file), Path(results_file))
        case _:
            main()
