"""What measurements share: a study of any size, resource readings, and how a result is written."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from trialrun.app.running import Ran, run_study
from trialrun.app.studies import Plan, plan_of
from trialrun.core.calls import Call
from trialrun.core.ports import Lab, Provider
from trialrun.core.study import Price, Trial
from trialrun.testing.scripted import Scripted

REPLY = "A reply of about one hundred and fifty tokens, as a model would give it. " * 9
SYSTEM = (
    "You are a careful participant in a study of conversations. Stay in your role, and keep to what was said. "
    * 4
)


class OnePrice:
    """Every model costs the same, so that holds and settlements are real arithmetic."""

    def price_of(self, model: str) -> Price:
        return Price(input=Decimal("0.25"), output=Decimal(2))

    def batch_price_of(self, model: str) -> Price:
        return self.price_of(model)


def study(
    folder: Path,
    *,
    trials: int,
    turns: int,
    open_trials: int,
    lane: Literal["live", "batch"] = "live",
    procedure: "AsyncProcedure | None" = None,
) -> Plan:
    """Two conditions; `turns` 0 asks one question (or does what `procedure` does), else a conversation."""
    talk = turns > 0
    document = {
        "study": "bench",
        "procedure": "conversation" if talk else "question",
        "parties": {
            "therapist": {
                "model": "x/m",
                "prompt": SYSTEM + "{{ tone }}",
                "values": {"tone": "warm"},
                "max_tokens": 300,
            },
            **({"client": {"model": "x/m", "prompt": SYSTEM, "max_tokens": 300}} if talk else {}),
        },
        "factors": {"tone": {"parties.therapist.values.tone": ["warm", "neutral"]}},
        "replicates": trials // 2,
        "settings": {"max_turns": turns} if talk else {},
        "limits": {"open_trials": open_trials},
        "budget_usd": 1_000_000,
    }
    return plan_of(
        msgspec.json.encode(document).decode(),
        file="bench.yaml",
        home=folder,
        lane=lane,
        folder=None,
        overrides={},
        given={"question": procedure or question},
    )


def study_file(folder: Path, *, trials: int) -> Path:
    """One call a trial, as users have it: a file with a procedure beside it, and a model of the price list."""
    (folder / "own.py").write_text(
        "async def question(trial, lab):\n"
        '    asked = f"Item {trial.replicate}: describe what would be different next week."\n'
        '    return {"characters": len((await lab.ask("therapist", asked)).text)}\n',
        encoding="utf-8",
    )
    document = {
        "study": "bench",
        "procedure": "./own.py:question",
        "parties": {
            "therapist": {
                "model": "openai/gpt-5-mini",
                "prompt": SYSTEM + "{{ tone }}",
                "values": {"tone": "warm"},
                "max_tokens": 300,
            }
        },
        "factors": {"tone": {"parties.therapist.values.tone": ["warm", "neutral"]}},
        "replicates": trials // 2,
        "limits": {"open_trials": 200},
        "budget_usd": 1_000_000,
    }
    file = folder / "study.yaml"
    file.write_bytes(msgspec.json.encode(document))
    return file


AsyncProcedure = Callable[[Trial, Lab], Awaitable[dict[str, object]]]


async def question(trial: Trial, lab: Lab) -> dict[str, object]:
    reply = await lab.ask("therapist", question_of(trial.replicate))
    return {"characters": len(reply.text)}


def question_of(number: int) -> str:
    """What a trial of one call asks."""
    return f"Item {number}: describe what would be different next week."


def from_memory() -> Provider:
    """A far end that costs next to nothing, so that what is measured is ours."""

    class FromMemory(Scripted):
        async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float):
            raw = await super().send(call, body, attempt=attempt, timeout_s=timeout_s)
            self.sent.clear()
            self.answered.clear()
            return raw

    return FromMemory(REPLY)


async def run(plan: Plan, provider: Provider) -> Ran:
    return await run_study(plan, route=lambda _: provider, prices=OnePrice())


def peak_rss_mb() -> float:
    """The most memory that this program had. Where the system tells only that of the process, what was in memory
    before it became this program counts as well: of a child, everything that its parent had."""
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = [
            line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:")
        ]
        return int(peak.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(slots=True)
class Stopwatch:
    """CPU and wall seconds since it was made."""

    cpu: float = field(default_factory=time.process_time)
    wall: float = field(default_factory=time.perf_counter)

    def cpu_s(self) -> float:
        return time.process_time() - self.cpu

    def wall_s(self) -> float:
        return time.perf_counter() - self.wall

    def felt(self) -> tuple[float, str]:
        """Seconds as a user feels them. In the short form, which runs among other tests, its CPU seconds."""
        return (self.cpu_s(), "s CPU") if is_short() else (self.wall_s(), "s wall")


def process_felt(arguments: Sequence[str]) -> tuple[float, str, str]:
    """The same of a fresh Python process, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if is_short():
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "s CPU", done.stdout
    return wall_s, "s wall", done.stdout


def report(what: str, value: float, unit: str, bar: float, *, at_least: bool = False) -> None:
    """One line of JSON; `bar` is the most (or least) that is allowed."""
    is_met = value >= bar if at_least else value <= bar
    spelled = f"{'>=' if at_least else '<='} {bar:g}"
    line = {"what": what, "value": f"{value:.4g}", "unit": unit, "bar": spelled, "is_met": is_met}
    sys.stdout.write(json.dumps(line) + "\n")


def is_short() -> bool:
    return "--short" in sys.argv


def timed(function: Callable[[], object]) -> tuple[object, Stopwatch]:
    watch = Stopwatch()
    return function(), watch
