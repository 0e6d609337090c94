"""Calls to the rehearsal provider and what it says to them."""

import asyncio

from trialrun.core import chance
from trialrun.core.calls import Call, Message, Parsed, Request, Usage
from trialrun.providers.rehearsal import RehearsalProvider

MINI = "openai/gpt-5-mini"
PLAIN = "openai/gpt-4.1"


def call(
    *texts: str,
    system: str = "",
    party: str = "",
    purpose: str = "",
    number: int = 0,
    model: str = PLAIN,
    max_tokens: int = 2000,
    schema: dict[str, object] | None = None,
    stop: tuple[str, ...] = (),
    params: dict[str, object] | None = None,
) -> Call:
    """A call whose texts are said by the other and the party in turn, ending with the other."""
    said = [Message("user" if (len(texts) - at) % 2 else "assistant", text) for at, text in enumerate(texts)]
    messages = ([Message("system", system)] if system else []) + said
    request = Request(
        model=model,
        messages=tuple(messages),
        max_tokens=max_tokens,
        schema=schema,
        stop=stop,
        params=params or {},
    )
    return Call(
        trial="trial-r0",
        condition="c",
        address=str(number),
        party=party,
        purpose=purpose,
        turn=1,
        request=request,
        key=chance.derive(b"rehearsal tests", number),
    )


def ask(this: Call, provider: RehearsalProvider | None = None) -> tuple[Parsed, Usage]:
    async def send() -> tuple[Parsed, Usage]:
        playing = provider or RehearsalProvider()
        raw = await playing.send(this, playing.prepare(this), attempt=1, timeout_s=60)
        usage = playing.meter(raw)
        assert usage is not None
        return playing.parse(raw, this.request), usage

    return asyncio.run(send())


def text_of(this: Call, provider: RehearsalProvider | None = None) -> str:
    return ask(this, provider)[0].text
