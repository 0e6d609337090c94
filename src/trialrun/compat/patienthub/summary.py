"""`batch_summary.json`: how many runs of a batch ended well, and how long the sessions of each combination were.

Averages are over sessions that ended well. `std_turns` is the standard deviation of a sample, and missing for one
session. A run that has not ended counts in `total_runs` and is neither a success nor a failure.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from trialrun.app.studies import in_lane
from trialrun.compat.patienthub.files import write_json
from trialrun.compat.patienthub.rows import ERROR, SUCCESS, UNFINISHED, Row
from trialrun.procedures.therapy.session import FACTS
from trialrun.stats.moments import deviation_of, mean_of

SUMMARY = "batch_summary.json"
_FAILURE = ("status", "client", "therapist", "run_id", "error")


def aggregate_results(results: Iterable[Mapping[str, Any]], output_dir: str | Path) -> Row:
    """The summary of these runs, which is also written into the folder; of rehearsed ones, into the folder beside it
    where they are."""
    summary = summary_of(results)
    folder, rehearsed = Path(output_dir), in_lane(Path(output_dir), "rehearsal")
    is_beside = summary["rehearsal"] and folder.suffix != rehearsed.suffix
    write_json((rehearsed if is_beside else folder) / SUMMARY, summary)
    return summary


def summary_of(results: Iterable[Mapping[str, Any]]) -> Row:
    """The summary of these runs."""
    combinations: dict[str, dict[str, Any]] = {}
    failures: list[Row] = []
    lanes: dict[str, None] = {}
    cost: Decimal | None = Decimal(0)
    doubt = Decimal(0)
    for row in results:
        cell = combinations.setdefault(
            f"{row['client']}_{row['therapist']}", {SUCCESS: [], ERROR: 0, UNFINISHED: 0}
        )
        if row["status"] == SUCCESS:
            cell[SUCCESS].append(row["num_turns"])
        else:
            cell[row["status"]] += 1
        if row["status"] == ERROR:
            failures.append({key: row[key] for key in _FAILURE if key in row})
        lanes[str(row.get("lane", "live"))] = None
        usage = row.get("usage", {})
        paid = usage.get("total_cost", Decimal(0))
        cost = None if cost is None or paid is None else cost + Decimal(str(paid))
        doubt += Decimal(str(usage.get("in_doubt", 0)))
    by_combination = {name: _combination(cell) for name, cell in combinations.items()}
    return {
        "total_runs": sum(each["num_runs"] for each in by_combination.values()),
        "successful": sum(each["successful"] for each in by_combination.values()),
        "failed": sum(each["failed"] for each in by_combination.values()),
        "unfinished": sum(each["unfinished"] for each in by_combination.values()),
        "by_combination": by_combination,
        "failures": failures,
        "total_cost": cost,
        "in_doubt": doubt,
        "rehearsal": "rehearsal" in lanes,
        "notice": FACTS.notice,
    }


def _combination(cell: Mapping[str, Any]) -> Row:
    turns: list[float] = cell[SUCCESS]
    return {
        "num_runs": len(turns) + cell[ERROR] + cell[UNFINISHED],
        "avg_turns": mean_of(turns) if turns else None,
        "std_turns": deviation_of(turns) if len(turns) > 1 else None,
        "successful": len(turns),
        "failed": cell[ERROR],
        "unfinished": cell[UNFINISHED],
    }
