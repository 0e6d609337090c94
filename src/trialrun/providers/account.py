"""What every adapter over HTTP shares: an address, its keys, one attempt at a time, and refusals made our errors."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from urllib.parse import urlsplit

from trialrun.core.calls import Call, Parsed, RawReply, Request, Usage
from trialrun.core.errors import TrialrunError, Unavailable
from trialrun.providers.http.addresses import without_credentials
from trialrun.providers.http.client import HttpClient
from trialrun.providers.http.uploads import FileBody
from trialrun.providers.keys import Keys, Secret
from trialrun.providers.refusals import LONGEST_MESSAGE, error_of, is_policy, problem_in

_SURELY_REFUSED = (408, 425, 503, 529)
"""Of the statuses that may be tried again, those that say that nothing was begun."""


class HttpAccount(ABC):
    """An account at a provider. An adapter adds the protocol: what is sent where, and what comes back."""

    is_rehearsal = False

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        key: str | Sequence[str] = "",
        key_name: str = "",
        http: HttpClient | None = None,
    ) -> None:
        self.name = name
        self._base_url = base_url.rstrip("/")
        self._keys = Keys((key,) if isinstance(key, str) else key)
        self._key_name = key_name or "the API key"
        self._http = http or HttpClient()
        self._owns_http = http is None

    @property
    def base_url(self) -> str:
        return self._base_url

    @property
    def account(self) -> str:
        """The same for all who ask at this address with these keys, whatever they call it."""
        return f"{without_credentials(self._base_url)}#{self._keys.digest}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {urlsplit(self._base_url).hostname!r})"

    @abstractmethod
    def prepare(self, call: Call) -> bytes: ...

    @abstractmethod
    def meter(self, raw: RawReply) -> Usage | None: ...

    @abstractmethod
    def parse(self, raw: RawReply, request: Request) -> Parsed: ...

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        secret = self._keys.of(call, attempt)
        headers = {"Content-Type": "application/json", **self.headers(call, secret)}
        raw = await self._http.post(self.url_of(call), body, headers=headers, timeout_s=timeout_s)
        return self.checked(raw, call, self._keys)

    def checked(self, raw: RawReply, call: Call, keys: Keys) -> RawReply:
        """The reply without our keys; any status but 200 raises, unless it is an answer all the same."""
        raw = RawReply(
            body=keys.hide_in_bytes(raw.body),
            status=raw.status,
            latency_s=raw.latency_s,
            request_id=keys.hide_in(raw.request_id),
            headers=keys.hide_in_each(raw.headers),
        )
        if raw.status == 200 or is_policy(raw) or self.is_reply(raw):
            return raw
        raise self.error(raw, about=call.place, model=call.request.model, keys=keys)

    def is_reply(self, raw: RawReply) -> bool:
        """Whether a status other than 200 brings what a model wrote."""
        return False

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | FileBody = b"",
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        about: str = "",
        kept: Sequence[str] = (),
        begins: bool = False,
        is_signed: bool = True,
        accepted: Sequence[int] = (),
    ) -> RawReply:
        """One request that is no call, under the account's first key. Any status but 2xx and `accepted` raises.

        `about` is what an error names; `begins` says that the request makes the provider begin something, so that a
        lost reply leaves that in doubt. An address that carries its own permission gets no key: not `is_signed`.
        """
        keys = await self.keys()
        raw = await self._http.request(
            method,
            url,
            body,
            headers={**(self.auth(keys.first) if is_signed else {}), **(headers or {})},
            timeout_s=timeout_s,
            kept=kept,
            billed="unknown" if begins else "no",
        )
        if 200 <= raw.status < 300 or raw.status in accepted:
            return raw
        raise self.error(raw, about=about, keys=keys, begins=begins)

    async def download(
        self, url: str, *, headers: Mapping[str, str] | None = None, about: str = "", silence_s: float = 120.0
    ) -> AsyncGenerator[bytes, None]:
        """Whole lines of something large, as they come, without our keys."""
        keys = await self.keys()
        sent = {**self.auth(keys.first), **(headers or {})}
        async with self._http.download(url, headers=sent, silence_s=silence_s) as download:
            if download.status != 200:
                raise self.error(await download.whole(), about=about, keys=keys)
            async for lines in download.lines():
                yield keys.hide_in_bytes(lines)

    async def keys(self) -> Keys:
        return self._keys

    @abstractmethod
    def url_of(self, call: Call) -> str: ...

    @abstractmethod
    def auth(self, secret: Secret | None) -> Mapping[str, str]:
        """The header that holds the key."""

    def headers(self, call: Call, secret: Secret | None) -> Mapping[str, str]:
        return self.auth(secret)

    async def close(self) -> None:
        if self._owns_http:
            await self._http.close()

    def error(
        self,
        raw: RawReply,
        *,
        about: str = "",
        model: str = "",
        keys: Keys | None = None,
        begins: bool = False,
    ) -> TrialrunError:
        """What a status other than 200 means. `about` is the call or the batch, and `model` what an account lacks."""
        problem = problem_in(raw.body)
        error = error_of(
            raw,
            problem,
            name=self.name,
            message=(keys or self._keys).hide_in(problem.message)[:LONGEST_MESSAGE],
            model=model or self.name,
            place=about,
            key_name=self._key_name,
        )
        if begins and isinstance(error, Unavailable) and raw.status not in _SURELY_REFUSED:
            error.billed = "unknown"
        return error


def model_name(model: str) -> str:
    """The model's name without the provider's."""
    return model.partition("/")[2] or model
