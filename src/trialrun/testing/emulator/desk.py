"""What happens to one request, from its arrival to its line in the book.

The order is that of a real provider: who is it, can it be read, is there room, does the script object, is it allowed,
answer, wait, bill, send. E1. A reply is billed when it was produced, whether or not it arrives. E2. Whatever happens,
the request gets its one line in the book.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase

import msgspec
from aiohttp import ClientError, web

from trialrun.core import chance, pricing
from trialrun.core.calls import Usage
from trialrun.core.ports import Clock, PriceBook
from trialrun.providers.reading import BYTES_PER_TOKEN, tokens_in_of, tokens_of
from trialrun.testing.emulator.asked import Answer, Asked, Refusal, Sent, Stamp, Trouble
from trialrun.testing.emulator.book import ZERO, Book, Entry, key_name
from trialrun.testing.emulator.caching import PromptCache
from trialrun.testing.emulator.dialect import Dialect
from trialrun.testing.emulator.faults import Faults
from trialrun.testing.emulator.limits import Admission, Limiter
from trialrun.testing.emulator.replies import Source
from trialrun.testing.emulator.script import ENDINGS, SAID, WIRE, Rule, Script
from trialrun.testing.emulator.wire import Delivery

_CALL_HEADERS = ("x-trialrun-call", "x-client-request-id")
_LONGEST_NAME = 200
_REFUSAL = "I am sorry, but I cannot help with that."


@dataclass(kw_only=True, slots=True)
class Visit:
    """One request on its way through the desk."""

    number: int
    at: float
    began: float
    path: str
    provider: str
    model: str = ""
    key: str = "none"
    call: str = ""
    body_hash: str = ""
    outcome: str = "unread"
    """Then `cut_off`, until it is known how the request ended."""
    rule: str = ""
    usage: Usage | None = None
    cost_usd: Decimal | None = ZERO
    is_billed: bool = False
    arrival: bytes = b""
    """The branch of chance of this request, which comes for the `repeat`th time."""
    repeat: int = 0
    admission: Admission | None = None
    source_key: bytes = b""
    stamp: Stamp = field(init=False)

    def __post_init__(self) -> None:
        # Until the request is read, it is known by its number alone.
        self.stamp = Stamp(id=f"{self.number:032x}", at=self.at, model=self.model)


class Desk:
    """Answers requests under one script."""

    def __init__(
        self, script: Script, *, clock: Clock, book: Book, prices: PriceBook, source: Source
    ) -> None:
        self._clock = clock
        self._book = book
        self._prices = prices
        self._source = source
        self.follow(script)

    def follow(self, script: Script) -> None:
        """Begin this script; counts, limits and times start anew, and the book goes on."""
        self.script = script
        self._names = {key: name for name, key in script.keys.items()}
        self._faults = Faults(script.faults)
        self._limiter = Limiter(script.limits)
        self._cache = PromptCache()
        self._seed = chance.derive(b"emulator", script.seed)
        self._repeats: dict[bytes, int] = {}
        self._began_at = math.nan

    async def serve(
        self, request: web.BaseRequest, dialect: Dialect, provider: str, model: str = ""
    ) -> web.StreamResponse:
        """Answer one request for a reply of a model."""
        began = self._clock.monotonic()
        if math.isnan(self._began_at):
            self._began_at = began
        visit = Visit(
            number=self._book.arrive(),
            at=self._clock.now(),
            began=began,
            path=request.path,
            provider=provider,
            model=model,
        )
        delivery = Delivery(request, self._clock)
        try:
            return await self._handled(request, dialect, visit, delivery)
        finally:
            if visit.admission is not None:
                visit.admission.leave()
            self._enter(visit, delivery)

    async def _handled(
        self, request: web.BaseRequest, dialect: Dialect, visit: Visit, delivery: Delivery
    ) -> web.StreamResponse:
        try:
            asked = await self._received(request, dialect, visit)
            rule = self._let_in(asked, visit)
            if rule is not None:
                visit.outcome, visit.rule = rule.fault, rule.title
                await self._pause(rule.after_s)
                if rule.fault in SAID:
                    raise Refusal(_said(rule, asked.model))
                if rule.fault == "dropped_before" and not rule.is_billed:
                    return delivery.drop()
            self._check(asked, dialect)
            answer = await self._answer(asked, dialect, visit, rule)
        except Refusal as refusal:
            trouble = refusal.trouble
            visit.outcome = visit.outcome if visit.rule else trouble.kind
            return await delivery.whole(self._problem(trouble, dialect, visit))
        except (ConnectionError, ClientError):
            return delivery.drop()
        await self._wait(answer, visit)
        self._bill(asked, answer, visit, rule)
        sent = self._rendered(asked, answer, dialect, visit, rule)
        if rule is not None and rule.fault in WIRE:
            return await delivery.spoiled(sent, rule)
        visit.outcome = rule.fault if rule else "answered"
        return await delivery.whole(sent)

    # --- before the answer -----------------------------------------------------------------------------------------

    async def _received(self, request: web.BaseRequest, dialect: Dialect, visit: Visit) -> Asked:
        """Who it is, and what is asked."""
        headers = request.headers
        key = dialect.key_in(headers, request.query)
        visit.key = self._names.get(key) or key_name(key)
        visit.call = next((headers[name][:_LONGEST_NAME] for name in _CALL_HEADERS if name in headers), "")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise Refusal(Trouble(kind="too_large")) from error
        visit.outcome = "cut_off"
        digest = hashlib.blake2b(body, digest_size=16)
        visit.body_hash = digest.hexdigest()
        if not key or (self._names and key not in self._names):
            raise Refusal(Trouble(kind="revoked"))
        asked = dialect.read(body, provider=visit.provider, model=visit.model)
        visit.model = asked.model[:_LONGEST_NAME]
        self._identify(asked, visit, digest.digest())
        return asked

    def _identify(self, asked: Asked, visit: Visit, body: bytes) -> None:
        """The request's own branch of chance: by its call or its body, and how often that has come."""
        same = chance.derive(self._seed, visit.provider, visit.call or visit.body_hash)
        repeat = self._repeats[same] = self._repeats.get(same, 0) + 1
        arrival = chance.derive(same, repeat)
        visit.arrival, visit.repeat = arrival, repeat
        is_fresh = self.script.resamples and asked.seed is None
        visit.source_key = arrival if is_fresh else same
        model = self.script.snapshots.get(asked.model, asked.model)
        visit.stamp = Stamp(id=_digits(arrival), at=visit.at, model=model)

    def _let_in(self, asked: Asked, visit: Visit) -> Rule | None:
        """Room under the limits, and then what the script has in mind. Raises Refusal when there is no room."""
        elapsed_s = visit.began - self._began_at
        if self.script.limits:
            tokens = float(tokens_in_of(asked.request) + (asked.max_tokens or 0))
            admission = self._limiter.admit(
                visit.provider, asked.model, visit.key, tokens=tokens, elapsed_s=elapsed_s
            )
            visit.admission = admission
            if not admission.is_granted:
                raise Refusal(_too_many(admission, asked.model))
        if not self.script.faults:
            return None
        return self._faults.pick(
            asked, key=visit.key, arrival=visit.arrival, repeat=visit.repeat, elapsed_s=elapsed_s
        )

    def _check(self, asked: Asked, dialect: Dialect) -> None:
        """What a real provider would object to."""
        models = self.script.models
        if models and not any(fnmatchcase(asked.model, pattern) for pattern in models):
            raise Refusal(Trouble(kind="unknown_model", model=asked.model))
        if self.script.strict:
            dialect.check(asked)

    # --- the answer ------------------------------------------------------------------------------------------------

    async def _answer(self, asked: Asked, dialect: Dialect, visit: Visit, rule: Rule | None) -> Answer:
        answer = await self._source.answer(asked, visit.source_key)
        if rule is not None and rule.fault in ENDINGS:
            answer = _ended(answer, rule)
        if self.script.cache:
            usage = self._cache.counted(
                answer.usage, asked, key=visit.key, now=visit.began, by_marks=dialect.caches_by_marks
            )
            if usage is not answer.usage:
                answer = msgspec.structs.replace(answer, usage=usage)
        if visit.admission is not None:
            visit.admission.correct(float(answer.usage.tokens_in + answer.usage.tokens_out))
        return answer

    async def _wait(self, answer: Answer, visit: Visit) -> None:
        script = self.script
        seconds = script.latency_s if script.speed is None else answer.seconds / script.speed
        if script.jitter_s:
            drawn = chance.fraction(chance.derive(visit.source_key, "jitter"))
            seconds += script.jitter_s * (2 * drawn - 1)
        await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await self._clock.sleep(seconds)

    def _bill(self, asked: Asked, answer: Answer, visit: Visit, rule: Rule | None) -> None:
        visit.usage = answer.usage
        visit.is_billed = rule is None or rule.is_billed
        if visit.is_billed:
            price = self._prices.price_of(asked.priced_as)
            visit.cost_usd = None if price is None else pricing.cost_usd(answer.usage, price)

    def _rendered(
        self, asked: Asked, answer: Answer, dialect: Dialect, visit: Visit, rule: Rule | None
    ) -> Sent:
        content = dialect.render(asked, answer, visit.stamp)
        match rule and rule.fault:
            case "empty":
                content[dialect.content_field] = []
            case "no_usage":
                content.pop(dialect.usage_field)
            case _:
                pass
        standings = visit.admission.standings if visit.admission else ()
        return Sent(
            status=200, body=msgspec.json.encode(content), headers=dialect.headers(standings, visit.stamp)
        )

    def _problem(self, trouble: Trouble, dialect: Dialect, visit: Visit) -> Sent:
        sent = dialect.problem(trouble, visit.stamp)
        standings = visit.admission.standings if visit.admission else ()
        headers: Mapping[str, str] = {**dialect.headers(standings, visit.stamp), **sent.headers}
        return Sent(status=sent.status, body=sent.body, headers=dict(headers))

    def _enter(self, visit: Visit, delivery: Delivery) -> None:
        self._book.write(
            Entry(
                number=visit.number,
                at=visit.at,
                key=visit.key,
                provider=visit.provider,
                model=visit.model,
                path=visit.path,
                request=visit.body_hash,
                call=visit.call,
                outcome=visit.outcome,
                rule=visit.rule,
                status=delivery.status,
                usage=visit.usage,
                is_billed=visit.is_billed,
                cost_usd=visit.cost_usd,
                reached=delivery.reached,
                request_id=visit.stamp.id,
                seconds=round(self._clock.monotonic() - visit.began, 6),
            )
        )


def _said(rule: Rule, model: str) -> Trouble:
    kind = rule.fault
    assert kind in SAID
    return Trouble(
        kind=kind,  # pyright: ignore[reportArgumentType]  # the assertion above is not seen as a narrowing
        message=rule.message,
        model=model,
        status=rule.status,
        wait_s=rule.wait_s,
        wait_as=rule.wait_as,
    )


def _too_many(admission: Admission, model: str) -> Trouble:
    standing = admission.refused_by
    assert standing is not None
    if math.isinf(standing.wait_s):
        # No wait is told: it would be refused then, too.
        limit = f"Limit {int(standing.limit)}"
        return Trouble(
            kind="throttled",
            model=model,
            message=f"Request too large for {model} on {standing.unit} per {standing.per}: {limit}.",
            limit=standing.unit,
        )
    return Trouble(
        kind="throttled", model=model, wait_s=standing.wait_s, limit=standing.unit, per=standing.per
    )


def _ended(answer: Answer, rule: Rule) -> Answer:
    """The same answer with the ending that the rule wants."""
    usage = answer.usage
    match rule.fault:
        case "refusal":
            text = rule.message or _REFUSAL
            usage = msgspec.structs.replace(usage, tokens_out=usage.tokens_reasoning + tokens_of(text))
            return msgspec.structs.replace(answer, text=text, finish="refusal", usage=usage)
        case "length":
            text = answer.text[: int(len(answer.text) * rule.keep)]
            left = usage.tokens_reasoning + -(-len(text) // BYTES_PER_TOKEN)
            usage = msgspec.structs.replace(usage, tokens_out=min(usage.tokens_out, left))
            return msgspec.structs.replace(answer, text=text, finish="length", usage=usage)
        case _:
            return answer


def _digits(key: bytes) -> str:
    return key.hex()[:32]
