"""Planning a million trials: counted, put into their random order and named, in constant memory."""

import tempfile
from pathlib import Path

import msgspec

from bench.common import Stopwatch, is_short, peak_rss_mb, report
from trialrun.app.studies import Plan, plan_of
from trialrun.core.design import Schedule
from trialrun.core.study import trial_of


def main() -> None:
    levels = 30 if is_short() else 100
    trials = levels**3
    with tempfile.TemporaryDirectory() as folder:
        few_conditions = _plan(Path(folder), levels=2, replicates=trials // 8)
        many_conditions = _plan(Path(folder), levels=levels, replicates=1)
        before = peak_rss_mb()
        watch = Stopwatch()
        assert few_conditions.trials == sum(1 for _ in Schedule(few_conditions.study, few_conditions.design))
        report(f"{trials:,} trials of 8 conditions in random order", watch.cpu_s(), "s CPU", 10)
        watch = Stopwatch()
        assert many_conditions.trials == sum(
            1 for _ in Schedule(many_conditions.study, many_conditions.design)
        )
        report(f"{trials:,} trials of {trials:,} conditions in random order", watch.cpu_s(), "s CPU", 30)
        watch = Stopwatch()
        for slot in Schedule(few_conditions.study, few_conditions.design):
            spec = few_conditions.specs.spec_of(slot.condition)
            trial_of(few_conditions.study, slot.condition, slot.replicate, spec)
        report(f"{trials:,} trials named and specified", watch.cpu_s(), "s CPU", 20)
        report("memory that planning added", peak_rss_mb() - before, "MB", 30)


def _plan(folder: Path, *, levels: int, replicates: int) -> Plan:
    document = {
        "study": "bench",
        "procedure": "conversation",
        "parties": {
            "a": {"model": "x/m", "prompt": "{{ x }} {{ y }} {{ z }}"},
            "b": {"model": "x/m", "prompt": "b"},
        },
        "factors": {name: {f"parties.a.values.{name}": list(range(levels))} for name in "xyz"},
        "replicates": replicates,
    }
    text = msgspec.json.encode(document).decode()
    return plan_of(text, file="b.yaml", home=folder, lane="live", folder=None, overrides={})


if __name__ == "__main__":
    main()
