"""The emulator: the providers' protocols on loopback, behind one address.

Each provider has its own path prefix (`/openai/v1/…`, `/anthropic/v1/…`, `/gemini/…`, `/vertex/…`), as two of them give
different meanings to one path; where a path is not ambiguous it also works without. Any other name as a prefix is a
provider that speaks chat completions.
"""

import ipaddress
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from trialrun.core.errors import UsageError
from trialrun.core.ports import Clock, PriceBook
from trialrun.providers.prices import GenaiPrices
from trialrun.testing.emulator import control, routes
from trialrun.testing.emulator.batches import routes as batch_routes
from trialrun.testing.emulator.batches import tokens
from trialrun.testing.emulator.batches.door import Door
from trialrun.testing.emulator.batches.files import Files
from trialrun.testing.emulator.batches.overview import overview
from trialrun.testing.emulator.batches.queue import Queue
from trialrun.testing.emulator.book import Book
from trialrun.testing.emulator.desk import Desk
from trialrun.testing.emulator.replies import Canned, Rehearsed, Source
from trialrun.testing.emulator.script import Script, script_from
from trialrun.testing.emulator.wire import RealClock
from trialrun.testing.emulator.wound import WoundClock

LARGEST_BODY = 32 * 1024 * 1024
EMULATED_KEY = "emulated-key"
BUCKET = "gs://emulated-bucket/trialrun"


class Emulator:
    """A server for the time of an `async with`.

    `script` says how the providers behave; `clock` may be a test's own; `book_file` gets each line of the book as it is
    written; `source` answers instead of what the script says, for example from a recorded study.
    """

    def __init__(
        self,
        script: Script | Mapping[str, object] | Path | str | None = None,
        *,
        clock: Clock | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        book_file: Path | None = None,
        source: Source | None = None,
        prices: PriceBook | None = None,
        largest_body: int = LARGEST_BODY,
        is_open_to_network: bool = False,
    ) -> None:
        if not is_open_to_network and not _is_loopback(host):
            raise UsageError(
                f"`{host}` is not an address of this machine alone",
                fix="use 127.0.0.1, or say that the network may come in (`--open-to-network`)",
            )
        self._host, self._port = host, port
        self._largest_body = largest_body
        self._runner: web.AppRunner | None = None
        self._given_source = source
        self._clock = WoundClock(clock or RealClock())
        self.book = Book(book_file)
        chosen = script_from(script)
        self.desk = Desk(
            chosen,
            clock=self._clock,
            book=self.book,
            prices=prices or GenaiPrices({model: rates.price() for model, rates in chosen.prices.items()}),
            source=source or _source_of(chosen),
        )

        self.batches = Queue(self.desk, self._clock, Files())
        self.door = Door(self.desk, self._clock, self.batches)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return _is_loopback(self._host)

    @property
    def script(self) -> Script:
        return self.desk.script

    @property
    def url(self) -> str:
        """The address without a path, without a slash at its end."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def _first_key(self) -> str:
        return next(iter(self.script.keys.values()), EMULATED_KEY)

    def base_url(self, provider: str) -> str:
        """What the provider's own client wants as its base URL: with `/v1` where its paths do not have it."""
        return f"{self.url}/{provider}" + ("" if provider in routes.WITH_VERSION else "/v1")

    def settings(self, *providers: str, key: str = "") -> dict[str, str]:
        """The environment variables that send calls of these providers here, with the script's first key if any."""
        key = key or self._first_key
        settings: dict[str, str] = {}
        for provider in providers:
            if provider == "openai-responses":
                settings |= self.settings("openai", key=key)  # the same address and the same key
                continue
            name = provider.upper().replace("-", "_")
            settings[f"{name}_BASE_URL"] = self.base_url(provider)
            if provider == "vertex":
                settings |= {
                    "VERTEX_ACCESS_TOKEN": key,
                    "GOOGLE_CLOUD_PROJECT": "emulated",
                    "VERTEX_BATCH_BUCKET": BUCKET,
                    "VERTEX_STORAGE_BASE_URL": self.url,
                }
            else:
                settings[f"{name}_API_KEY"] = key
        return settings

    def credentials(self) -> dict[str, object]:
        """What a file for `GOOGLE_APPLICATION_CREDENTIALS` has to hold, so that Google's libraries get a token here."""
        return tokens.credentials(self.url)

    def follow(self, script: Script | Mapping[str, object] | Path | str | None) -> None:
        """Begin another script; the book and the batches go on."""
        chosen = script_from(script)
        self.desk.follow(chosen)
        self.batches.follow(chosen)

    def cut(self, factor: float, seconds: float = math.inf) -> None:
        """From now on and for so long, let only this part of every limit hold; of all cuts at one time, each does."""
        self.desk.cut(factor, seconds)

    def overview(self) -> dict[str, object]:
        """Where all batches stand, which files there are, and how often each step was asked for."""
        return overview(self.door, self._clock)

    async def settle(self) -> None:
        """Let the batches do what is due by the clock, so that the book is up to date."""
        await self.batches.settle_all()

    async def wind(self, seconds: float) -> None:
        """Let so much time have passed, for batches, limits and caches. Who waits for a reply is not woken."""
        self._clock.wind(seconds)
        await self.settle()

    def reset(self) -> None:
        """Begin anew: an empty book, no batches and files, and the script from its start."""
        self.book.reset()
        self.batches.forget()
        self.door.forget()
        self.follow(self.desk.script)

    async def start(self) -> None:
        """Listen. The port is known afterwards."""
        app = web.Application(client_max_size=self._largest_body)
        control.add(app, self)
        tokens.add(app, lambda: self._first_key)
        routes.add(app, self.desk)
        batch_routes.add(app, self.door, is_known=self.desk.knows)
        app.router.add_route("*", "/{path:.*}", routes.nothing)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=4096)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            raise UsageError(
                f"port {self._port} cannot be opened: {error.strerror}",
                where=self._host,
                fix="choose another with `--port`, or none at all",
            ) from error
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self.settle()
        self.batches.files.clear()
        self.book.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _source_of(script: Script) -> Source:
    return Canned() if script.replies == "canned" else Rehearsed(words=script.words)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
