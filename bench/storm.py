"""A 429 storm over HTTP: the emulator enforces a limit in a process of its own, and cuts it to a tenth for a while.

What is measured is the emulator's book, second by second: what it accepted and what it had to refuse.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from bisect import bisect_left
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.common import OnePrice, is_short, report, study
from trialrun.app.running import Ran, run_study

FACTOR = 0.1
_LATENCY_S = 0.2
_SETTLING_S = 1.0
"""From the cut on: until then, what is refused had left before anybody could know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weather:
    """A limit in calls a second, with a second's worth saved up; fair for so long, then cut, then fair again."""

    rate: int
    open_trials: int
    before_s: float
    storm_s: float
    after_s: float

    @property
    def trials(self) -> int:
        calls = self.rate * (self.before_s + FACTOR * self.storm_s + self.after_s)
        return int(calls) // 2 * 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Ridden:
    """What came of it. Times are seconds since the first request."""

    weather: Weather
    ran: Ran
    accepted: list[float]
    refused: list[float]
    others: list[str]
    """Outcomes that are neither."""
    storm_at: float

    @property
    def fair_at(self) -> float:
        return self.storm_at + self.weather.storm_s

    def accepted_in(self, begin: float, end: float) -> int:
        return bisect_left(self.accepted, end) - bisect_left(self.accepted, begin)

    def refused_in(self, begin: float, end: float) -> int:
        return bisect_left(self.refused, end) - bisect_left(self.refused, begin)

    def over_limit(self) -> float:
        """The most requests, refused ones too, that came within any span of the storm beyond what its limit gives."""
        sent = sorted(
            at for at in self.accepted + self.refused if self.storm_at + _SETTLING_S <= at < self.fair_at
        )
        per_s = self.weather.rate * FACTOR
        most = lowest = 0.0
        for number, at in enumerate(sent):
            # So many more than the limit gives, counted from the span's begin at which that is the most.
            beyond = number - per_s * at
            lowest = beyond if number == 0 else min(lowest, beyond)
            most = max(most, beyond - lowest + 1)
        return most

    def kept(self) -> float:
        """The part of the storm's limit that was used, once it was known."""
        begin = self.storm_at + self.weather.storm_s / 2
        return self.accepted_in(begin, self.fair_at) / (self.weather.rate * FACTOR * (self.fair_at - begin))

    def recovered_s(self) -> float:
        """From the end of the storm to the first second in which 95 % of the limit was used again."""
        begins = [at for at in self.accepted if at >= self.fair_at]
        wanted = 0.95 * self.weather.rate
        return next((at - self.fair_at for at in begins if self.accepted_in(at, at + 1.0) >= wanted), 1e9)


class _Line(msgspec.Struct):
    at: float
    outcome: str


def ride(weather: Weather, folder: Path) -> Ridden:
    """One study of one call a trial, from fair weather through the storm."""
    plan = study(folder, trials=weather.trials, turns=0, open_trials=weather.open_trials)
    cut = msgspec.json.encode({"factor": FACTOR, "seconds": weather.storm_s})
    cut_at: list[float] = []
    with _emulator(weather, folder) as url:
        os.environ |= {"X_BASE_URL": f"{url}/x/v1", "X_API_KEY": "bench"}

        def wait_and_cut() -> None:
            while not _lines(url):
                if ended.wait(0.05):
                    return
            ended.wait(weather.before_s)
            urllib.request.urlopen(f"{url}/__cut", cut).close()
            cut_at.append(time.time())

        ended = threading.Event()
        storm = threading.Thread(target=wait_and_cut)
        storm.start()
        try:
            ran = asyncio.run(run_study(plan, prices=OnePrice()))
        finally:
            ended.set()
            storm.join()
            del os.environ["X_BASE_URL"], os.environ["X_API_KEY"]
        lines = _lines(url)
    first = min(line.at for line in lines)
    return Ridden(
        weather=weather,
        ran=ran,
        accepted=sorted(line.at - first for line in lines if line.outcome == "answered"),
        refused=sorted(line.at - first for line in lines if line.outcome == "throttled"),
        others=[line.outcome for line in lines if line.outcome not in ("answered", "throttled")],
        storm_at=cut_at[0] - first,
    )


@contextmanager
def _emulator(weather: Weather, folder: Path) -> Generator[str]:
    script = folder / "script.json"
    limits = [{"requests_per_second": weather.rate}]
    script.write_bytes(msgspec.json.encode({"replies": "canned", "latency_s": _LATENCY_S, "limits": limits}))
    command = [sys.executable, "-m", "trialrun", "emulate", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            line = next(line for line in server.stdout if "OPENAI_BASE_URL=" in line)
            yield line.strip().partition("=")[2].removesuffix("/openai/v1")
        finally:
            server.terminate()


def _lines(url: str) -> list[_Line]:
    with urllib.request.urlopen(f"{url}/__book") as response:
        return [msgspec.json.decode(line, type=_Line) for line in response.read().splitlines()]


def main() -> None:
    weather = (
        Weather(rate=100, open_trials=200, before_s=3, storm_s=5, after_s=8)
        if is_short()
        else Weather(rate=100, open_trials=200, before_s=10, storm_s=60, after_s=20)
    )
    with tempfile.TemporaryDirectory() as folder:
        ridden = ride(weather, Path(folder))
    title = f"{weather.rate} calls a second, a tenth of it for {weather.storm_s:g} s"
    end = ridden.accepted[-1] + 1.0
    refused = ridden.refused_in(ridden.storm_at, end)
    calls = refused + ridden.accepted_in(ridden.storm_at, end)
    report(f"storm: trials lost or failed, {title}", weather.trials - ridden.ran.live.done, "trials", 0)
    report("storm: share of the calls refused from its begin", refused / calls, "", 0.08)
    report(
        "storm: sent beyond the cut limit in any span", ridden.over_limit(), "calls", 2 * 0.1 * weather.rate
    )
    report("storm: share of the cut limit used", ridden.kept(), "", 0.8, at_least=True)
    report("storm: until 95 % of the limit is used again", ridden.recovered_s(), "s", 10.0)


if __name__ == "__main__":
    main()
