"""What every batch adapter over HTTP shares: the live adapter behind it, and lines that become results."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import ClassVar, TypeVar

import msgspec

from trialrun.core.batches import Anchor, BatchLimits, Phase, Result
from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import CallError, RequestRefused, Unavailable
from trialrun.core.ports import Provider
from trialrun.providers.account import HttpAccount
from trialrun.providers.bodies import READ_ERRORS
from trialrun.providers.refusals import is_policy

T = TypeVar("T")
_SLOWEST_BYTES_PER_S = 250_000
_QUICK_S = 60.0


class HttpRoute(ABC):
    """One provider's batches under the account of a live adapter. An adapter adds the protocol."""

    anchor: Anchor = "input"
    not_in_batches: ClassVar[frozenset[str]] = frozenset()
    """What of a study's `params` no batch of this provider takes."""

    def __init__(self, account: HttpAccount, *, limits: BatchLimits) -> None:
        self.provider: Provider = account
        self.limits = limits
        self._account = account

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account!r})"

    @property
    def _url(self) -> str:
        return self._account.base_url

    def read(self, line: bytes) -> Result:
        """Read one line of results. Never raises: a line that makes no sense has an empty id."""
        try:
            return self._read(line)
        except READ_ERRORS:
            return Result(id="")

    @abstractmethod
    def _read(self, line: bytes) -> Result: ...

    def _refuse(self, call: Call) -> None:
        """Raise for what a batch cannot carry."""
        wrong = sorted(self.not_in_batches & call.request.params.keys())
        if wrong:
            raise self._unfit(call, f"do not take {', '.join(f'`{name}`' for name in wrong)}")

    def _unfit(self, call: Call, what: str) -> RequestRefused:
        return RequestRefused(
            f"the batches of {self._account.name} {what}",
            where=call.place,
            fix="leave it out of `params`, or run this study with `--lane live`",
        )

    def _replied(self, id_: str, body: bytes, *, status: int = 200, request_id: str = "") -> Result:
        """A line that holds what the live lane would have had: a reply, or an error with its status.

        An error in a line is not billed, whatever it is.
        """
        raw = RawReply(body=body, status=status, request_id=request_id)
        if status == 200 or is_policy(raw):
            return Result(id=id_, raw=raw)
        error = self._account.error(raw, about=id_)
        if isinstance(error, CallError):
            error.billed = "no"
        return Result(id=id_, error=error)

    def _answer(self, raw: RawReply, type_: type[T]) -> T:
        """The body of a provider's answer about a batch."""
        try:
            return msgspec.json.decode(raw.body, type=type_)
        except READ_ERRORS as error:
            # Whatever was asked for has happened: the answer is as good as lost.
            raise Unavailable(
                f"{self._account.name} sent an answer that cannot be read: {error}", billed="unknown"
            ) from error

    @contextmanager
    def _known(self, batch: str) -> Generator[None, None, None]:
        """Say what to look at when the provider does not know a batch that it made."""
        try:
            yield
        except RequestRefused as error:
            if error.status != 404:
                raise
            error.where = batch
            error.fix = "is the key that of the account and project in which the batch was made?"
            raise


def phase_in(words: Mapping[str, Phase], word: str) -> Phase:
    """The phase for a provider's word; `unknown` for one that nobody knows yet."""
    return words.get(word, "unknown")


def seconds(moment: float | str | None) -> float | None:
    """Seconds since 1970, UTC, from a number or an RFC 3339 time; None for what is neither."""
    if not isinstance(moment, str):
        return moment
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()


def upload_timeout_s(size_bytes: int) -> float:
    """How long sending this much may take on a slow line."""
    return _QUICK_S + size_bytes / _SLOWEST_BYTES_PER_S
