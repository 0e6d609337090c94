"""What every adapter over HTTP shares: an address, its keys, one attempt at a time, and refusals made our errors."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import TrialrunError
from trialrun.providers.http import HttpClient
from trialrun.providers.keys import Keys, Secret
from trialrun.providers.refusals import LONGEST_MESSAGE, error_of, is_policy, problem_in


class HttpAccount:
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {urlsplit(self._base_url).hostname!r})"

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        secret = self._keys.of(call, attempt)
        headers = {"Content-Type": "application/json", **self.headers(call, secret)}
        raw = await self._http.post(self.url_of(call), body, headers=headers, timeout_s=timeout_s)
        return self.checked(raw, call, self._keys)

    def checked(self, raw: RawReply, call: Call, keys: Keys) -> RawReply:
        """The reply without our keys; any status but 200 raises, unless the provider declined the prompt itself."""
        raw = RawReply(
            body=keys.hide_in_bytes(raw.body),
            status=raw.status,
            latency_s=raw.latency_s,
            request_id=keys.hide_in(raw.request_id),
            headers={name: keys.hide_in(value) for name, value in raw.headers.items()},
        )
        if raw.status == 200 or is_policy(raw):
            return raw
        raise self._error(raw, call, keys)

    def url_of(self, call: Call) -> str:
        raise NotImplementedError

    def headers(self, call: Call, secret: Secret | None) -> Mapping[str, str]:
        raise NotImplementedError

    async def close(self) -> None:
        if self._owns_http:
            await self._http.close()

    def _error(self, raw: RawReply, call: Call, keys: Keys) -> TrialrunError:
        problem = problem_in(raw.body)
        return error_of(
            raw,
            problem,
            name=self.name,
            message=keys.hide_in(problem.message)[:LONGEST_MESSAGE],
            model=call.request.model,
            place=call.place,
            key_name=self._key_name,
        )


def model_name(model: str) -> str:
    """The model's name without the provider's."""
    return model.partition("/")[2] or model
