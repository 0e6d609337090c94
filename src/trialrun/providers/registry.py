"""From `provider/model` and a lane to the provider that takes the call.

Names and addresses are data; keys come from a mapping that the caller passes in, by the names given here. Any server
that speaks chat completions becomes a provider by its address alone: `MYLAB_BASE_URL` makes `mylab/some-model`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from trialrun.core.calls import Call
from trialrun.core.errors import AuthRefused, UsageError
from trialrun.core.ports import Clock, Provider
from trialrun.core.study import Rehearsal
from trialrun.providers.http import HttpClient
from trialrun.providers.openai_compatible import OPENAI, Dialect, OpenAICompatible, chat_body
from trialrun.providers.rehearsal import RehearsalProvider

Lane = Literal["live", "rehearsal"]

_PLAIN = Dialect()


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where a provider answers, what its key is called, and how it spells a request."""

    base_url: str
    keys: tuple[str, ...] = ()
    """Names of the key, first found first; without any, the server wants none."""
    dialect: Dialect = field(default_factory=lambda: _PLAIN)


ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {
        "openai": Endpoint(base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",), dialect=OPENAI),
        "openrouter": Endpoint(base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
        "xai": Endpoint(base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
        "groq": Endpoint(base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
        "mistral": Endpoint(
            base_url="https://api.mistral.ai/v1",
            keys=("MISTRAL_API_KEY",),
            dialect=Dialect(seed="random_seed"),
        ),
        "deepseek": Endpoint(
            base_url="https://api.deepseek.com/v1",
            keys=("DEEPSEEK_API_KEY",),
            dialect=Dialect(seed=None, schema="json_object"),
        ),
        "together": Endpoint(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
        "fireworks": Endpoint(base_url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",)),
        "ollama": Endpoint(base_url="http://127.0.0.1:11434/v1"),
        "vllm": Endpoint(base_url="http://127.0.0.1:8000/v1"),
    }
)
WITHOUT_LIVE = ("anthropic", "google", "gemini", "vertex")
"""Providers whose models can be rehearsed and priced, and whose own protocol has no adapter yet."""
_ALWAYS = ("local", "rehearsal")
_FAMILIES = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "google",
}


class Providers:
    """The providers of one run. Each is made when it is first asked for, and all share one pool of connections.

    `settings` holds keys and addresses by name, usually the environment; nothing else is read from it.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        settings: Mapping[str, str],
        clock: Clock,
        rehearsal: Rehearsal | None = None,
        concurrency: int = 64,
    ) -> None:
        self._lane: Lane = lane
        self._settings = settings
        self._clock = clock
        self._rehearsal = rehearsal
        self._concurrency = concurrency
        self._pools: dict[str | None, HttpClient] = {}
        self._made: dict[str, Provider] = {}

    def provider_of(self, model: str) -> Provider:
        """The provider for a model of the study; raises UsageError or AuthRefused, with the fix, if there is none."""
        name, _, rest = model.partition("/")
        if not rest:
            raise _no_provider_named(model)
        made = self._made.get(name)
        if made is None:
            if self._endpoint(name) is None and name not in (*WITHOUT_LIVE, *_ALWAYS):
                raise self._unknown(name, model)
            made = self._made[name] = self._make(name, model)
        return made

    async def close(self) -> None:
        """Close everything that was opened."""
        made, self._made = self._made, {}
        pools, self._pools = self._pools, {}
        for closing in (*made.values(), *pools.values()):
            await closing.close()

    def _make(self, name: str, model: str) -> Provider:
        if self._lane == "rehearsal" or name == "rehearsal":
            return RehearsalProvider(self._rehearsal, clock=self._clock, spell=self._speller(name), name=name)
        if name == "local":
            from trialrun.providers.local import LocalModel

            return LocalModel()
        endpoint = self._endpoint(name)
        if endpoint is None:
            raise UsageError(
                f"`{name}` has no live lane yet",
                where=model,
                fix=f"rehearse the study, or reach the model through `openrouter/{name}/...`",
            )
        return self._adapter(name, endpoint, model)

    def _adapter(self, name: str, endpoint: Endpoint, model: str) -> Provider:
        key = next((self._settings[key] for key in endpoint.keys if self._settings.get(key)), "")
        if endpoint.keys and not key:
            names = " or ".join(f"`{key}`" for key in endpoint.keys)
            raise AuthRefused(
                f"there is no key for `{name}`",
                where=model,
                fix=f"set {names} in the environment or in `.env`, or run `trialrun rehearse` without a key",
            )
        return OpenAICompatible(
            name,
            base_url=endpoint.base_url,
            key=key,
            key_name=" or ".join(endpoint.keys),
            dialect=endpoint.dialect,
            http=self._pool(endpoint.base_url),
        )

    def _endpoint(self, name: str) -> Endpoint | None:
        """The endpoint of a name, with the address that the settings give before the built-in one."""
        known = ENDPOINTS.get(name)
        prefix = name.upper().replace("-", "_")
        own = self._settings.get(f"{prefix}_BASE_URL", "").strip()
        if not own or name in (*WITHOUT_LIVE, *_ALWAYS):
            return known
        key = f"{prefix}_API_KEY"
        keys = known.keys if known else (key,) if self._settings.get(key) else ()
        return Endpoint(base_url=own, keys=keys, dialect=known.dialect if known else _PLAIN)

    def _speller(self, name: str) -> "_Speller | None":
        endpoint = self._endpoint(name)
        return _Speller(endpoint.dialect) if endpoint else None

    def _pool(self, base_url: str) -> HttpClient:
        proxy = self._proxy_for(base_url)
        if proxy not in self._pools:
            self._pools[proxy] = HttpClient(concurrency=self._concurrency, proxy=proxy)
        return self._pools[proxy]

    def _proxy_for(self, base_url: str) -> str | None:
        """The proxy that the settings name for this address. Asked once, and not by aiohttp for each request."""
        parts = urlsplit(base_url)
        names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
        proxy = next((self._settings[name] for name in names if self._settings.get(name)), None)
        excepted = self._settings.get("no_proxy") or self._settings.get("NO_PROXY") or ""
        return None if _is_direct(parts.hostname or "", excepted) else proxy

    def _unknown(self, name: str, model: str) -> UsageError:
        known = sorted({*ENDPOINTS, *WITHOUT_LIVE, *_ALWAYS})
        near = get_close_matches(name.lower(), known, n=1)
        if near:
            fix = f"use `{near[0]}/{model.partition('/')[2]}`"
        else:
            fix = f"use one of {', '.join(known)}, or set `{name.upper().replace('-', '_')}_BASE_URL`"
        return UsageError(f"there is no provider `{name}`", where=model, fix=fix)


def _is_direct(host: str, excepted: str) -> bool:
    """Whether a host is reached without the proxy: this machine, and what `NO_PROXY` lists, with all below it."""
    if host in ("localhost", "127.0.0.1", "::1"):
        return True
    names = [name.strip().lstrip(".").lower() for name in excepted.split(",")]
    return any(name in ("*", host) or host.endswith(f".{name}") for name in names if name)


@dataclass(frozen=True, slots=True)
class _Speller:
    """Spells a rehearsed request as the provider's own adapter would."""

    dialect: Dialect

    def __call__(self, call: Call) -> bytes:
        return chat_body(call, self.dialect)


def _no_provider_named(model: str) -> UsageError:
    family = next(
        (provider for start, provider in _FAMILIES.items() if model.lower().startswith(start)), "openai"
    )
    name = model.strip("/") or "gpt-5-mini"
    return UsageError(f"the model `{model}` names no provider", fix=f"write `{family}/{name}`")
