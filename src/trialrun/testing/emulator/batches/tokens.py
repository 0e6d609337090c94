"""Where Google's client libraries get their tokens: application default credentials that lead here."""

from collections.abc import Callable

import msgspec
from aiohttp import web

from trialrun.testing.emulator.dialect import Json

_GRANTS = (
    "urn:ietf:params:oauth:grant-type:token-exchange",
    "urn:ietf:params:oauth:grant-type:jwt-bearer",
    "refresh_token",
)
_LIFE_S = 3600


def credentials(url: str) -> Json:
    """The content of a file for `GOOGLE_APPLICATION_CREDENTIALS`: an identity from elsewhere, changed for a token."""
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/emulated",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{url}/vertex/token",
        "credential_source": {"url": f"{url}/vertex/identity"},
    }


def add(app: web.Application, key: Callable[[], str]) -> None:
    """The endpoints that hand out this key as a token, to whoever asks as the libraries do."""

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        grant = form.get("grant_type")
        if grant not in _GRANTS:
            error: Json = {"error": "unsupported_grant_type", "error_description": f"Invalid grant: {grant}"}
            return _json(error, status=400)
        told: Json = {"access_token": key(), "expires_in": _LIFE_S, "token_type": "Bearer"}
        return _json({**told, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"})

    async def identity(_: web.Request) -> web.Response:
        return web.Response(text="emulated-identity")

    async def file(request: web.Request) -> web.Response:
        return _json(credentials(str(request.url.origin())))

    app.router.add_post("/vertex/token", token)
    app.router.add_get("/vertex/identity", identity)
    app.router.add_get("/__credentials", file)


def _json(value: object, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type="application/json")
