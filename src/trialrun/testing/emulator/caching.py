"""Prompt caching as the providers do it: a prefix that was sent before is cheaper.

OpenAI and Google find it by themselves from 1,024 tokens on; Anthropic does it where the request marks it, and bills
the writing too.
"""

import hashlib
from collections import OrderedDict

import msgspec

from trialrun.core.calls import Message, Usage
from trialrun.testing.emulator.asked import Asked

_LEAST_TOKENS = 1024
_STEP_TOKENS = 128
_KEPT_S = 300.0
_MOST_PREFIXES = 50_000


class PromptCache:
    """Which prefixes were sent lately, by key and model."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def counted(self, usage: Usage, asked: Asked, *, key: str, now: float, by_marks: bool) -> Usage:
        """The usage with cached and written tokens told apart, and these prefixes remembered."""
        if usage.tokens_in < _LEAST_TOKENS or (by_marks and not asked.cache_marks):
            return usage
        prefixes = _prefixes(asked, key)
        total = prefixes[-1][1] or 1
        wanted = [prefixes[mark - 1] for mark in asked.cache_marks if mark] if by_marks else prefixes
        hit = max((size for name, size in wanted if self._is_fresh(name, now)), default=0)
        for name, _ in wanted:
            self._remember(name, now)
        cached = int(usage.tokens_in * hit / total)
        if by_marks:
            # The request is counted as a whole; what lies before the last mark is read or written.
            upto = int(usage.tokens_in * wanted[-1][1] / total) if wanted else 0
            written = upto - cached
            if cached + written < _LEAST_TOKENS:
                return usage
            cached, written = _within(usage.tokens_in, cached, written)
            return msgspec.structs.replace(usage, tokens_cached=cached, tokens_cache_write=written)
        cached = min(cached, usage.tokens_in - 1) // _STEP_TOKENS * _STEP_TOKENS
        if cached < _LEAST_TOKENS:
            return usage
        return msgspec.structs.replace(usage, tokens_cached=cached)

    def _is_fresh(self, name: bytes, now: float) -> bool:
        seen_at = self._seen.get(name)
        return seen_at is not None and now - seen_at <= _KEPT_S

    def _remember(self, name: bytes, now: float) -> None:
        self._seen[name] = now
        self._seen.move_to_end(name)
        if len(self._seen) > _MOST_PREFIXES:
            self._seen.popitem(last=False)


def _prefixes(asked: Asked, key: str) -> list[tuple[bytes, int]]:
    """For each message, the hash of everything up to its end, and how many bytes that is."""
    digest = hashlib.blake2b(f"{key}\x1f{asked.priced_as}".encode(), digest_size=16)
    size = 0
    prefixes: list[tuple[bytes, int]] = []
    for message in asked.messages or (Message("user", ""),):
        text = message.text.encode("utf-8", "surrogatepass")
        digest.update(f"\x1f{message.role}\x1f{len(text)}\x1f".encode() + text)
        size += len(text) + 12
        prefixes.append((digest.copy().digest(), size))
    return prefixes


def _within(total: int, cached: int, written: int) -> tuple[int, int]:
    """At least one token is neither read nor written."""
    return (cached, min(written, total - 1 - cached)) if written else (min(cached, total - 1), 0)
