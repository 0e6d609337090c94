"""From `provider/model` and a lane to the provider that takes the call.

Names and addresses are data; keys come from a mapping that the caller passes in, by the names given here. Any server
that speaks chat completions becomes a provider by its address alone: `MYLAB_BASE_URL` makes `mylab/some-model`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from trialrun.core.batches import BatchRoute
from trialrun.core.calls import Call
from trialrun.core.errors import AuthRefused, UsageError
from trialrun.core.ports import Clock, Provider
from trialrun.core.study import Rehearsal
from trialrun.providers.account import HttpAccount, model_name
from trialrun.providers.anthropic import Anthropic, messages_body
from trialrun.providers.batches.routes import WITHOUT, batch_route, without_batches
from trialrun.providers.gemini import Gemini, generate_body
from trialrun.providers.http.client import HttpClient
from trialrun.providers.keys import keys_in
from trialrun.providers.openai_chat import OPENAI, Dialect, OpenAIChat, chat_body
from trialrun.providers.openai_responses import OpenAIResponses, responses_body
from trialrun.providers.rehearsal import RehearsalProvider
from trialrun.providers.vertex import DefaultCredentials, StaticToken, Vertex, has_google_auth

Lane = Literal["live", "rehearsal"]
Wire = Literal["chat", "responses", "anthropic", "gemini", "vertex"]

_PLAIN = Dialect()


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where a provider answers, what it speaks, what its key is called, and how it spells a request."""

    base_url: str
    keys: tuple[str, ...] = ()
    """Names of the key, first found first; without any, the server wants none."""
    wire: Wire = "chat"
    dialect: Dialect = field(default_factory=lambda: _PLAIN)
    """Of chat completions."""
    settings: tuple[str, ...] = ()
    """What `_BASE_URL` may stand behind beside the provider's own name."""


ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {
        "openai": Endpoint(base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",), dialect=OPENAI),
        "openai-responses": Endpoint(
            base_url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            wire="responses",
            settings=("OPENAI",),
        ),
        "anthropic": Endpoint(
            base_url="https://api.anthropic.com/v1", keys=("ANTHROPIC_API_KEY",), wire="anthropic"
        ),
        "google": Endpoint(
            base_url="https://generativelanguage.googleapis.com/v1",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            wire="gemini",
            settings=("GEMINI", "GOOGLE_GEMINI"),
        ),
        "gemini": Endpoint(
            base_url="https://generativelanguage.googleapis.com/v1",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            wire="gemini",
            settings=("GOOGLE", "GOOGLE_GEMINI"),
        ),
        "vertex": Endpoint(base_url="", wire="vertex", settings=("GOOGLE_VERTEX",)),
        "openrouter": Endpoint(
            base_url="https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY",),
            dialect=Dialect(bill="usd"),
        ),
        "xai": Endpoint(
            base_url="https://api.x.ai/v1",
            keys=("XAI_API_KEY",),
            dialect=Dialect(limit="max_completion_tokens", bill="ticks"),
        ),
        "groq": Endpoint(
            base_url="https://api.groq.com/openai/v1",
            keys=("GROQ_API_KEY",),
            dialect=Dialect(limit="max_completion_tokens"),
        ),
        "mistral": Endpoint(
            base_url="https://api.mistral.ai/v1",
            keys=("MISTRAL_API_KEY",),
            dialect=Dialect(seed="random_seed"),
        ),
        "deepinfra": Endpoint(
            base_url="https://api.deepinfra.com/v1/openai", keys=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN")
        ),
        "deepseek": Endpoint(
            base_url="https://api.deepseek.com/v1",
            keys=("DEEPSEEK_API_KEY",),
            dialect=Dialect(seed=None, schema="json_object"),
        ),
        "together": Endpoint(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
        "fireworks": Endpoint(base_url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",)),
        "goodfire": Endpoint(base_url="https://api.goodfire.ai/api/inference/v1", keys=("GOODFIRE_API_KEY",)),
        "ollama": Endpoint(base_url="http://127.0.0.1:11434/v1"),
        "vllm": Endpoint(base_url="http://127.0.0.1:8000/v1"),
        "llamacpp": Endpoint(base_url="http://127.0.0.1:8080/v1"),
        "lmstudio": Endpoint(base_url="http://127.0.0.1:1234/v1"),
    }
)
_VERSIONS: Mapping[Wire, tuple[str, ...]] = {
    "anthropic": ("/v1",),
    "gemini": ("/v1", "/v1beta", "/v1alpha"),
    "vertex": ("/v1", "/v1beta1"),
}
"""Addresses of these go without a version elsewhere; the first one is added where none stands."""
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
            if self._endpoint(name) is None and name not in _ALWAYS:
                raise self._unknown(name, model)
            made = self._made[name] = self._make(name, model)
        return made

    def check(self, models: Iterable[str], *, in_batches: bool = False) -> None:
        """Raise UsageError for a model without a provider, or else AuthRefused with every key that is missing."""
        lacking: dict[str, tuple[str, tuple[str, ...]]] = {}
        for model in models:
            name, _, rest = model.partition("/")
            endpoint = self._endpoint(name)
            if not rest:
                raise _no_provider_named(model)
            if endpoint is None and name not in _ALWAYS:
                raise self._unknown(name, model)
            if in_batches and name in WITHOUT:
                raise without_batches(name, model)
            if endpoint is not None and endpoint.keys and not any(keys_in(self._settings, endpoint.keys)):
                lacking.setdefault(name, (model, endpoint.keys))
        if lacking and self._lane == "live":
            raise _no_keys(lacking)

    def batch_route_of(self, model: str) -> BatchRoute:
        """The batches of a model's provider; raises as `provider_of` does, and UsageError if it takes none."""
        name = model.partition("/")[0]
        if name in WITHOUT:
            raise without_batches(name, model)
        return batch_route(name, self.provider_of(model), model, self._settings)

    def account_of(self, model: str) -> str:
        """Who counts the calls to a model: one name for one address, set of keys and model there, empty for a model of
        our own. Fit to be shown."""
        provider = self.provider_of(model)
        return f"{provider.account}/{model_name(model)}" if isinstance(provider, HttpAccount) else ""

    async def close(self) -> None:
        """Close everything that was opened."""
        made, self._made = self._made, {}
        pools, self._pools = self._pools, {}
        for closing in (*made.values(), *pools.values()):
            await closing.close()

    def _make(self, name: str, model: str) -> Provider:
        if self._lane == "rehearsal" or name == "rehearsal":
            return RehearsalProvider(self._rehearsal, clock=self._clock, spell=self._speller(name), name=name)
        if name == "local" and self._endpoint(name) is None:
            from trialrun.providers.local import LocalModel

            return LocalModel()
        endpoint = self._endpoint(name)
        if endpoint is None:
            raise self._unknown(name, model)
        return self._adapter(name, endpoint, model)

    def _adapter(self, name: str, endpoint: Endpoint, model: str) -> Provider:
        if endpoint.wire == "vertex":
            return self._vertex(name, endpoint, model)
        keys = self._keys(name, endpoint, model)
        key_name, http = " or ".join(endpoint.keys), self._pool(endpoint.base_url)
        if endpoint.wire == "chat":
            return OpenAIChat(
                name,
                base_url=endpoint.base_url,
                key=keys,
                key_name=key_name,
                dialect=endpoint.dialect,
                http=http,
            )
        made = {"responses": OpenAIResponses, "anthropic": Anthropic, "gemini": Gemini}[endpoint.wire]
        return made(name, base_url=endpoint.base_url, key=keys, key_name=key_name, http=http)

    def _keys(self, name: str, endpoint: Endpoint, model: str) -> list[str]:
        keys, unfit = keys_in(self._settings, endpoint.keys)
        if unfit:
            raise AuthRefused(
                f"`{unfit}` holds characters that no header can carry",
                where=model,
                fix=f"set `{unfit}` again, without quotes and line breaks",
            )
        if endpoint.keys and not keys:
            raise _no_keys({name: (model, endpoint.keys)})
        return keys

    def _vertex(self, name: str, endpoint: Endpoint, model: str) -> Provider:
        project = self._setting("GOOGLE_CLOUD_PROJECT", "VERTEX_PROJECT")
        token = self._setting("VERTEX_ACCESS_TOKEN")
        if not project:
            raise UsageError(
                "Vertex AI needs a project",
                where=model,
                fix="set `GOOGLE_CLOUD_PROJECT` (and `GOOGLE_CLOUD_LOCATION`, if not `global`)",
            )
        if not token and not has_google_auth():
            raise UsageError(
                "Vertex AI needs a package that is not installed",
                where=model,
                fix="install `trialrun[vertex]`, or set `VERTEX_ACCESS_TOKEN`",
            )
        return Vertex(
            name,
            project=project,
            location=self._setting("GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION") or "global",
            base_url=endpoint.base_url,
            tokens=StaticToken(token) if token else DefaultCredentials(),
            http=self._pool(endpoint.base_url or "https://aiplatform.googleapis.com"),
        )

    def _setting(self, *names: str) -> str:
        """The first of these that is set."""
        return next((value for name in names if (value := self._settings.get(name, "").strip())), "")

    def _endpoint(self, name: str) -> Endpoint | None:
        """The endpoint of a name, with the address that the settings give before the built-in one."""
        known = ENDPOINTS.get(name)
        if name == "rehearsal":
            return None
        prefix = name.upper().replace("-", "_")
        others = known.settings if known else ()
        own = self._setting(*(f"{start}_BASE_URL" for start in (prefix, *others)))
        if known is None and not own:
            return None
        endpoint = known or Endpoint(base_url=own)
        if own:
            endpoint = replace(endpoint, base_url=_versioned(own, endpoint.wire))
        key = f"{prefix}_API_KEY"
        if endpoint.wire == "chat" and not endpoint.keys and self._settings.get(key):
            # No such server wants a key, and any may be started with one.
            endpoint = replace(endpoint, keys=(key,))
        return endpoint

    def _speller(self, name: str) -> "_Speller | None":
        endpoint = self._endpoint(name)
        return _Speller(endpoint) if endpoint else None

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
        known = sorted({*ENDPOINTS, *_ALWAYS})
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

    endpoint: Endpoint

    def __call__(self, call: Call) -> bytes:
        match self.endpoint.wire:
            case "chat":
                return chat_body(call, self.endpoint.dialect)
            case "responses":
                return responses_body(call)
            case "anthropic":
                return messages_body(call)
            case "gemini" | "vertex":
                return generate_body(call)


def _versioned(url: str, wire: Wire) -> str:
    """The address with the version of the API, which other programs' settings leave out."""
    versions, bare = _VERSIONS.get(wire, ()), url.rstrip("/")
    return bare if not versions or bare.endswith(versions) else bare + versions[0]


def _no_keys(lacking: Mapping[str, tuple[str, tuple[str, ...]]]) -> AuthRefused:
    """`lacking`: provider -> one of its models, and the names that its key may have."""
    named = [" or ".join(f"`{key}`" for key in keys) for _, keys in lacking.values()]
    return AuthRefused(
        f"there is no key for {' and '.join(f'`{name}`' for name in lacking)}",
        where=", ".join(model for model, _ in lacking.values()),
        fix=f"set {' and '.join(named)} in the environment or in `.env`; `trialrun rehearse` needs no key",
    )


def _no_provider_named(model: str) -> UsageError:
    family = next(
        (provider for start, provider in _FAMILIES.items() if model.lower().startswith(start)), "openai"
    )
    name = model.strip("/") or "gpt-5-mini"
    return UsageError(f"the model `{model}` names no provider", fix=f"write `{family}/{name}`")
