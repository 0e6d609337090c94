"""Writes an analysis into `analysis/` of the results folder. What is there is replaced, each file at once."""

from pathlib import Path

import msgspec

from trialrun.app.analysis import layout
from trialrun.app.analysis.data import Results, results_in
from trialrun.app.analysis.patterns import Patterns, patterns_of
from trialrun.app.analysis.report import report
from trialrun.app.analysis.statistics import statistics_of
from trialrun.app.files import put

FOLDER = "analysis"


def analyse(folder: Path, *, with_report: bool) -> tuple[Results, Patterns, list[Path]]:
    """Analyse the study in this folder and write the files. Raises OSError where they cannot be written."""
    results = results_in(folder)
    patterns = patterns_of(results)
    return results, patterns, write_files(results, patterns, with_report=with_report)


def write_files(results: Results, patterns: Patterns, *, with_report: bool) -> list[Path]:
    """The three files of data, and the report if it is wanted."""
    words = results.words
    texts = {
        words.measures_file: as_json(layout.metrics_analysis(statistics_of(results, results.trials), words)),
        words.conditions_file: as_json(layout.variation_statistics(results)),
        words.patterns_file: as_json(layout.patterns_data(patterns, words)),
    }
    if with_report:
        texts[words.report_file] = report(results, patterns)
    folder = results.folder / FOLDER
    return [put(folder / name, text) for name, text in texts.items()]


def as_json(data: object) -> str:
    """Data as a file has it."""
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
