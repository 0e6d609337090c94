"""What the rehearsal lane costs for each reply, from the body to the parsed text."""

import asyncio
from statistics import median

from bench.common import Stopwatch, is_short, report
from trialrun.core import chance
from trialrun.core.calls import Call, Message, Request
from trialrun.providers.rehearsal import RehearsalProvider

HISTORY = (
    Message("system", "You are a warm therapist. " * 20),
    *(
        Message(
            "user" if turn % 2 == 0 else "assistant", "I keep thinking about the wedding and my sister. " * 12
        )
        for turn in range(11)
    ),
)


def main() -> None:
    replies = 1_000 if is_short() else 10_000
    report("rehearsal, CPU of a reply of about 100 words", _us(replies, "", ()), "µs", 60)
    report(
        "rehearsal, CPU of a reply after 12 messages of 6 kB", _us(replies, "therapist", HISTORY), "µs", 75
    )


def _us(replies: int, party: str, messages: tuple[Message, ...]) -> float:
    return median(
        asyncio.run(_round(range(at, at + replies), party, messages)) for at in (0, replies, 2 * replies)
    )


async def _round(numbers: range, party: str, messages: tuple[Message, ...]) -> float:
    """Microseconds for each reply. The calls are made beforehand; their fingerprints are part of the reply."""
    provider = RehearsalProvider()
    calls = [_call(number, party, messages) for number in numbers]
    watch = Stopwatch()
    for call in calls:
        raw = await provider.send(call, provider.prepare(call), attempt=1, timeout_s=60)
        provider.meter(raw)
        provider.parse(raw, call.request)
    return 1e6 * watch.cpu_s() / len(numbers)


def _call(number: int, party: str, messages: tuple[Message, ...]) -> Call:
    # Another question each time, so that nothing can be remembered from the call before.
    question = Message("user", f"What should I know about the garden in winter, case {number}?")
    return Call(
        trial="bench-r0",
        condition="bench",
        address=str(number),
        party=party,
        purpose="",
        turn=1,
        request=Request(model="openai/gpt-5-mini", messages=(*messages, question), max_tokens=1024),
        key=chance.derive(b"bench", number),
    )


if __name__ == "__main__":
    main()
