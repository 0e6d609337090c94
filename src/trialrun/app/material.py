"""Files that come with Trialrun: a study names them as `trialrun:NAME` where it would name a file of its own."""

from importlib import resources

PREFIX = "trialrun:"
_FOLDERS = ("trialrun.procedures.questions",)
"""Packages with a folder `material`."""


def material_names() -> list[str]:
    """All of them, as a study spells them."""
    folders = (resources.files(package) / "material" for package in _FOLDERS)
    return sorted(f"{PREFIX}{file.name}" for folder in folders for file in folder.iterdir())


def material(name: str) -> str | None:
    """The text of one; None when there is none of this name."""
    if name not in material_names():
        return None
    bare = name.removeprefix(PREFIX)
    files = (resources.files(package) / "material" / bare for package in _FOLDERS)
    return next(file.read_text(encoding="utf-8") for file in files if file.is_file())
