"""Scenario Lab as a format of foreign plans (`compat.registry`)."""

from pathlib import Path

from trialrun.app.foreign import Translation, View


class ScenarioLab:
    """Batches of scenarios."""

    def translate(self, file: Path, text: str) -> Translation:
        """The study that a batch file stands for."""
        from trialrun.compat.scenario_lab.translation import translated

        return translated(file, text)

    def view(self, folder: Path) -> View | None:
        """The files of the batch, beside the journal."""
        from trialrun.compat.scenario_lab.view import BatchView

        return BatchView(folder)
