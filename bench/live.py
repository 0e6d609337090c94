"""Live calls over HTTP, beside a bare client in the same run: one call or ten a trial, three widths, three delays.

Each measurement is a process of its own against one far end. CPU is that of the whole process less that of a study of
two calls, which is the cost of starting; efficiency is the ideal time (calls x delay / open) over the time from the
first request to the last reply. Where there are two cores, the far end gets one and the client the other.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.common import is_short, report, study
from bench.far_end import FarEnd, far_end

WIDTHS, DELAYS_S = (50, 200, 1000), (0.0, 0.2, 1.0)
CLIENTS = ("bare", "ours")
_CPU_BAR, _ROUNDS = 3.0, 3
# On cores that are shared, the same work takes up to twice the CPU; ratios of one run do not care.
_BUSY = 2.0 if is_short() else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """So many calls in trials of one call (`turns` 0) or of ten (5), with so many trials open."""

    calls: int
    turns: int
    open_trials: int
    delay_s: float

    @property
    def trials(self) -> int:
        return self.calls // (2 * self.turns or 1)

    @property
    def title(self) -> str:
        return f"{2 * self.turns or 1} a trial, {self.open_trials:,} open, {1000 * self.delay_s:.0f} ms"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What one client took for one piece of work."""

    cpu_s: float
    active_s: float
    rss_mb: float
    stored_mb: float

    def efficiency(self, work: Work) -> float:
        return work.calls * work.delay_s / work.open_trials / self.active_s

    def cpu_ms(self, work: Work, start: "Measured") -> float:
        """Own CPU milliseconds for a call, without those for starting."""
        return 1000 * (self.cpu_s - start.cpu_s) / (work.calls - 2)


def main() -> None:
    with far_end() as server:
        _pin(server.pid, 0)
        if "--table" in sys.argv:
            _table(server)
        else:
            _bars(server)


def measure(client: str, work: Work, server: FarEnd) -> Measured:
    """Let a client do the work in a process of its own, from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return _measured_in(folder, client, work, server)


def _measured_in(folder: str, client: str, work: Work, server: FarEnd) -> Measured:
    server.sums()
    arguments = [client, server.url(work.delay_s), folder, work.trials, work.turns, work.open_trials]
    command = [sys.executable, "-m", "bench.live", "--child", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _pin(process.pid, 1)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    sums = server.sums()
    assert process.returncode == 0, f"{client} ended with {process.returncode}"
    assert sums.calls == work.calls, f"{client} made {sums.calls} calls in place of {work.calls}"
    assert sums.most_open <= work.open_trials
    return Measured(
        cpu_s=used.ru_utime + used.ru_stime,
        active_s=sums.last_at - sums.first_at,
        rss_mb=used.ru_maxrss / 1024,
        stored_mb=sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6,
    )


def _starts(server: FarEnd) -> dict[str, Measured]:
    """The smallest study, of two calls, with each client: what starting costs."""
    least = Work(calls=2, turns=0, open_trials=2, delay_s=0.0)
    return {
        client: min((measure(client, least, server) for _ in range(_ROUNDS)), key=lambda made: made.cpu_s)
        for client in CLIENTS
    }


def _bars(server: FarEnd) -> None:
    """What is promised: CPU beside the bare client's, and how much of the ideal is reached."""
    starts = _starts(server)
    calls = 3_000 if is_short() else 10_000
    for turns, width in ((0, 1000), (5, 200)):
        work = Work(calls=calls, turns=turns, open_trials=width, delay_s=0.2)
        best = {client: _best(client, work, server) for client in CLIENTS}
        ours, bare = (best[client].cpu_ms(work, starts[client]) for client in ("ours", "bare"))
        report(f"live: own CPU for a call, {work.title}", ours, "ms CPU", 0.45 * _BUSY)
        report(f"live: the same over the bare client's {bare:.3f} ms", ours / bare, "times", _CPU_BAR)
    if not is_short():
        for delay_s, bar in ((0.2, 0.75), (1.0, 0.95)):
            _efficiency(Work(calls=10_000, turns=0, open_trials=1000, delay_s=delay_s), server, bar)


def _efficiency(work: Work, server: FarEnd, bar: float) -> None:
    """The best rounds of both clients, in turns: what else the machine does must not meet one of them alone."""
    rounds = [
        {client: measure(client, work, server).efficiency(work) for client in CLIENTS} for _ in range(_ROUNDS)
    ]
    ours, bare = (max(round_[client] for round_ in rounds) for client in ("ours", "bare"))
    report(
        f"live: share of the ideal, {work.title}; the bare client's {bare:.2f}", ours, "", bar, at_least=True
    )


def _best(client: str, work: Work, server: FarEnd) -> Measured:
    """The round with the least CPU: what other processes do can only add to it."""
    rounds = 1 if is_short() else _ROUNDS
    return min((measure(client, work, server) for _ in range(rounds)), key=lambda made: made.cpu_s)


def _table(server: FarEnd) -> None:
    """The table of `docs/benchmarks.md`, as Markdown."""
    starts = _starts(server)
    print(
        "| calls a trial | open | reply | client | CPU ms a call | ratio | of the ideal | calls/s | MB | KB a call |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for work in _all_work():
        bare_ms = 0.0
        for client in CLIENTS:
            made = measure(client, work, server)
            cpu_ms = made.cpu_ms(work, starts[client])
            bare_ms = cpu_ms if client == "bare" else bare_ms
            share = f"{100 * made.efficiency(work):.0f} %" if work.delay_s else "-"
            cells = (
                2 * work.turns or 1,
                f"{work.open_trials:,}",
                f"{1000 * work.delay_s:.0f} ms",
                client,
                f"{cpu_ms:.2f}",
                f"{cpu_ms / bare_ms:.1f}",
                share,
                f"{work.calls / made.active_s:,.0f}",
                f"{made.rss_mb:.0f}",
                f"{1000 * made.stored_mb / work.calls:.1f}",
            )
            print("|", " | ".join(map(str, cells)), "|", flush=True)


def _all_work() -> Iterator[Work]:
    for turns in (0, 5):
        for width in WIDTHS:
            for delay_s in DELAYS_S:
                # Whole rounds of everything that is open: the last one would else run half empty.
                calls = 10_000 if width == 1000 else 1_500 if (width, delay_s) == (50, 1.0) else 4_000
                yield Work(calls=calls, turns=turns, open_trials=width, delay_s=delay_s)


def _pin(pid: int, core: int) -> None:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(pid, {cores[core]})


def _child(client: str, url: str, folder: Path, *, trials: int, turns: int, open_trials: int) -> int:
    """Do the work. Returns how many calls were stored."""
    if client == "bare":
        from bench import bare

        return asyncio.run(bare.main(url, folder, trials=trials, turns=turns, open_trials=open_trials))
    from bench.common import OnePrice
    from trialrun.app.running import run_study

    os.environ |= {"X_BASE_URL": url, "X_API_KEY": "bench"}
    plan = study(folder, trials=trials, turns=turns, open_trials=open_trials)
    ran = asyncio.run(run_study(plan, prices=OnePrice()))
    assert ran.live.done == trials, ran
    return ran.live.calls


if __name__ == "__main__":
    if "--child" in sys.argv:
        client, url, folder, *sizes = sys.argv[sys.argv.index("--child") + 1 :]
        trials, turns, open_trials = map(int, sizes)
        print(_child(client, url, Path(folder), trials=trials, turns=turns, open_trials=open_trials))
    else:
        main()
