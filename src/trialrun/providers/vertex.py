"""Gemini through Vertex AI: the same protocol at a project and a location, with a short-lived token for a key.

The token comes from google-auth (the extra `vertex`) and its application default credentials, or, as it is, from the
setting `VERTEX_ACCESS_TOKEN`.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC
from importlib import import_module
from importlib.util import find_spec
from time import time
from typing import Any, Protocol
from urllib.parse import quote

from trialrun.core.calls import Call, RawReply
from trialrun.core.errors import AuthRefused
from trialrun.providers.account import model_name
from trialrun.providers.gemini import Gemini
from trialrun.providers.http.client import HttpClient
from trialrun.providers.keys import Keys, Secret

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_RENEWED_BEFORE_S = 300.0
_LIFE_S = 3600.0
KEY_NAME = "the application default credentials, or `VERTEX_ACCESS_TOKEN`"


class Tokens(Protocol):
    """Where bearer tokens come from."""

    async def current(self) -> Secret: ...


class StaticToken:
    """A token that somebody else renews."""

    def __init__(self, token: str) -> None:
        self._secret = Secret(token)

    async def current(self) -> Secret:
        return self._secret


class DefaultCredentials:
    """Tokens of google-auth's application default credentials, renewed in a thread before they expire."""

    def __init__(self, fetch: "Callable[[], tuple[str, float]] | None" = None) -> None:
        self._fetch = fetch or _Renewal()
        self._secret = Secret("")
        self._expires_at = 0.0
        self._renewing = asyncio.Lock()

    async def current(self) -> Secret:
        if time() < self._expires_at - _RENEWED_BEFORE_S:
            return self._secret
        async with self._renewing:
            if time() >= self._expires_at - _RENEWED_BEFORE_S:
                token, self._expires_at = await asyncio.to_thread(self._fetch)
                self._secret = Secret(token)
        return self._secret


class Vertex(Gemini):
    """One project at one location of Vertex AI."""

    def __init__(
        self,
        name: str,
        *,
        project: str,
        location: str = "global",
        base_url: str = "",
        tokens: Tokens | None = None,
        http: HttpClient | None = None,
    ) -> None:
        super().__init__(name, base_url=base_url or default_url(location), key_name=KEY_NAME, http=http)
        self._place = f"projects/{quote(project, safe='')}/locations/{quote(location, safe='')}"
        self._tokens = tokens or DefaultCredentials()

    @property
    def place(self) -> str:
        """The project and the location, as addresses spell them."""
        return self._place

    def url_of(self, call: Call) -> str:
        model = quote(model_name(call.request.model), safe="")
        return f"{self._base_url}/{self._place}/publishers/google/models/{model}:generateContent"

    def auth(self, secret: Secret | None) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {secret.reveal()}"} if secret else {}

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        keys = await self.keys()
        headers = {"Content-Type": "application/json", **self.headers(call, keys.first)}
        raw = await self._http.post(self.url_of(call), body, headers=headers, timeout_s=timeout_s)
        return self.checked(raw, call, keys)

    async def keys(self) -> Keys:
        return Keys(((await self._tokens.current()).reveal(),))


def has_google_auth() -> bool:
    """Whether the package that reads credentials is installed."""
    try:
        return find_spec("google.auth") is not None
    except ModuleNotFoundError:
        return False


def default_url(location: str) -> str:
    """Where a location answers."""
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    return f"https://{host}/v1"


class _Renewal:
    """Asks google-auth for a token. Blocks, so it belongs into a thread; one at a time."""

    def __init__(self) -> None:
        self._credentials: Any = None

    def __call__(self) -> tuple[str, float]:
        try:
            auth = import_module("google.auth")
            exceptions = import_module("google.auth.exceptions")
            transport = import_module("google.auth.transport.requests")
        except ImportError as error:
            raise AuthRefused(
                "Vertex AI needs a package that is not installed",
                where="vertex",
                fix="install `trialrun[vertex]`, or set `VERTEX_ACCESS_TOKEN`",
            ) from error
        try:
            if self._credentials is None:
                self._credentials, _ = auth.default(scopes=[_SCOPE])
            self._credentials.refresh(transport.Request())
        except exceptions.GoogleAuthError as error:
            # Not its words: they may quote what the credentials file holds.
            raise AuthRefused(
                f"Google gives no token for Vertex AI: {type(error).__name__}",
                where="vertex",
                fix="log in with `gcloud auth application-default login`, or set `VERTEX_ACCESS_TOKEN`",
            ) from None
        expiry = self._credentials.expiry  # UTC, though it does not say so
        expires_at = expiry.replace(tzinfo=UTC).timestamp() if expiry else time() + _LIFE_S
        return str(self._credentials.token), expires_at
