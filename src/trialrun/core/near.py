"""Near misses: which known word was probably meant."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    by_lower: dict[str, str] = {}
    for name in known:
        by_lower.setdefault(name.lower().replace("-", "_"), name)
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(by_lower), n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def pick(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A fix that names the near miss, or the choice."""
    names = list(known)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean `{near}`?"
    if not names:
        return otherwise or "remove it"
    shown = ", ".join(f"`{name}`" for name in names[:12]) + (
        f" and {len(names) - 12} more" if len(names) > 12 else ""
    )
    choice = f"use {shown}" if len(names) == 1 else f"use one of {shown}"
    return f"{choice}, or {otherwise}" if otherwise else choice
