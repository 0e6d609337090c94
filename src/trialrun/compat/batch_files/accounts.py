"""The batch APIs of the accounts in the environment, and calls to them that outlast a bad moment."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from trialrun.app.environment import read_env
from trialrun.compat.batch_files.services import full_name
from trialrun.core.batches import BatchRoute
from trialrun.core.errors import CallError, CallTimedOut, Throttled, Unavailable
from trialrun.core.ports import Clock

T = TypeVar("T")
Routes = Callable[[str, str], BatchRoute]
"""From a service and a model to its batches."""
_ATTEMPTS = 5
_LONGEST_WAIT_S = 60.0
_OFFLINE: Mapping[str, str] = {
    "OPENAI_API_KEY": "none",
    "ANTHROPIC_API_KEY": "none",
    "GEMINI_API_KEY": "none",
    "DEEPINFRA_API_KEY": "none",
    "GROQ_API_KEY": "none",
    "MISTRAL_API_KEY": "none",
    "TOGETHER_API_KEY": "none",
    "XAI_API_KEY": "none",
    "GOOGLE_CLOUD_PROJECT": "none",
    "VERTEX_ACCESS_TOKEN": "none",
    "VERTEX_BATCH_BUCKET": "gs://none",
}
"""Reading an answer needs an adapter, and an adapter wants a key; nothing is sent with these."""
_ANY_MODEL = "any"


@asynccontextmanager
async def opened(clock: Clock, *, is_offline: bool = False) -> AsyncGenerator[Routes]:
    """The routes, for as long as they are needed. Offline ones only read."""
    from trialrun.providers.registry import Providers

    if not is_offline:
        read_env(None)
    providers = Providers("live", settings=_OFFLINE if is_offline else os.environ, clock=clock)
    try:
        yield lambda service, model: providers.batch_route_of(full_name(service, model or _ANY_MODEL))
    finally:
        await providers.close()


async def patiently(work: Callable[[], Awaitable[T]], clock: Clock, *, may_repeat: bool = True) -> T:
    """Do it, again after a bad moment. What must not happen twice is repeated only if it surely did not happen."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await work()
        except (Throttled, Unavailable, CallTimedOut) as error:
            if attempt == _ATTEMPTS or not (may_repeat or error.billed == "no"):
                raise
            await clock.sleep(_wait_s(error, attempt))
    raise AssertionError("the last attempt returns or raises")


def _wait_s(error: CallError, attempt: int) -> float:
    asked = error.retry_after_s if isinstance(error, Throttled) else None
    return min(_LONGEST_WAIT_S, asked if asked is not None else 0.5 * 2.0**attempt)
