"""What happens to one request, from its arrival to its line in the book.

The order is that of a real provider: who is it, can it be read, is there room, does the script object, is it allowed,
answer, wait, bill, send. E1. A reply is billed when it was produced, whether or not it arrives. E2. Whatever happens,
the request gets its one line in the book.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import cast

import msgspec
from aiohttp import ClientError, web

from trialrun.core import chance, pricing
from trialrun.core.discounts import batch_price
from trialrun.core.errors import UsageError
from trialrun.core.ports import Clock, PriceBook
from trialrun.core.study import Price
from trialrun.providers.reading import tokens_in_of
from trialrun.testing.emulator.asked import (
    Answer,
    Asked,
    Refusal,
    Sent,
    Stamp,
    Trouble,
)
from trialrun.testing.emulator.book import Book, Entry, key_name
from trialrun.testing.emulator.caching import PromptCache
from trialrun.testing.emulator.dialect import Dialect, Json
from trialrun.testing.emulator.faults import Faults
from trialrun.testing.emulator.limits import Cut, Limiter
from trialrun.testing.emulator.replies import Source
from trialrun.testing.emulator.sayings import ended, said, too_many
from trialrun.testing.emulator.script import ENDINGS, SAID, WIRE, Rule, Script
from trialrun.testing.emulator.visit import LineAsked, LineReply, Visit
from trialrun.testing.emulator.wire import Delivery

_CALL_HEADERS = ("x-trialrun-call", "x-client-request-id")
_LONGEST_NAME = 200
_BESIDE = ("duplicate", "foreign")
"""Faults of a line beside which the line itself is answered, and billed."""
_TELLS_COST = ("xai",)
"""Providers whose replies say what they are billed at, in ticks."""
_TICKS = 10**10
"""In a US dollar."""


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
        self._has_line_rules = any(rule.step == "line" for rule in script.faults)
        self._batch_prices: dict[str, Price | None] = {}
        self._limiter = Limiter(script.limits)
        self._cache = PromptCache()
        self._seed = chance.derive(b"emulator", script.seed)
        self._repeats: dict[bytes, int] = {}
        self._began_at = math.nan

    def elapsed_s(self, monotonic: float) -> float:
        """Seconds since the first request."""
        if math.isnan(self._began_at):
            self._began_at = monotonic
        return monotonic - self._began_at

    def cut(self, factor: float, seconds: float) -> None:
        """From now on and for so long, let only this part of every limit hold."""
        if not self.script.limits:
            raise UsageError("the script has no limits", fix="give it some, under `limits`")
        now_s = self.elapsed_s(self._clock.monotonic())
        self._limiter.cut(Cut(factor=factor, from_s=now_s, until_s=now_s + seconds))

    def knows(self, model: str) -> bool:
        """Whether the script has this model."""
        models = self.script.models
        return not models or any(fnmatchcase(model, pattern) for pattern in models)

    def key_of(self, request: web.BaseRequest, dialect: Dialect) -> tuple[str, bool]:
        """The name of the key that a request carries, and whether it is a valid one."""
        key = dialect.key_in(request.headers, request.query)
        return self._names.get(key) or key_name(key), bool(key) and (not self._names or key in self._names)

    async def serve(
        self, request: web.BaseRequest, dialect: Dialect, provider: str, model: str = ""
    ) -> web.StreamResponse:
        """Answer one request for a reply of a model."""
        began = self._clock.monotonic()
        self.elapsed_s(began)
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
                    raise Refusal(said(rule, asked.model))
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
        visit.key, is_valid = self.key_of(request, dialect)
        visit.call = next((headers[name][:_LONGEST_NAME] for name in _CALL_HEADERS if name in headers), "")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise Refusal(Trouble(kind="too_large")) from error
        visit.outcome = "cut_off"
        digest = hashlib.blake2b(body, digest_size=16)
        visit.body_hash = digest.hexdigest()
        if not is_valid:
            raise Refusal(Trouble(kind="revoked"))
        asked = dialect.read(body, provider=visit.provider, model=visit.model)
        visit.model = asked.model[:_LONGEST_NAME]
        self._identify(asked, visit, visit.call or visit.body_hash)
        return asked

    def _identify(self, asked: Asked, visit: Visit, known_by: str) -> None:
        """The request's own branch of chance: by its call or its body, and how often that has come."""
        same = chance.derive(self._seed, visit.provider, known_by)
        repeat = self._repeats[same] = self._repeats.get(same, 0) + 1
        arrival = chance.derive(same, repeat)
        visit.arrival, visit.repeat = arrival, repeat
        is_fresh = self.script.resamples and asked.seed is None
        visit.source_key = arrival if is_fresh else same
        model = self.script.snapshots.get(asked.model, asked.model)
        visit.stamp = Stamp(id=_digits(arrival), at=visit.at, model=model)

    def _let_in(self, asked: Asked, visit: Visit) -> Rule | None:
        """Room under the limits, and then what the script has in mind. Raises Refusal when there is no room."""
        elapsed_s = self.elapsed_s(visit.began)
        if self.script.limits:
            tokens = float(tokens_in_of(asked.request) + (asked.max_tokens or 0))
            admission = self._limiter.admit(
                visit.provider, asked.model, visit.key, tokens=tokens, elapsed_s=elapsed_s
            )
            visit.admission = admission
            if not admission.is_granted:
                raise Refusal(too_many(admission, asked.model))
        if not self.script.faults:
            return None
        return self._faults.pick(
            asked, key=visit.key, arrival=visit.arrival, repeat=visit.repeat, elapsed_s=elapsed_s
        )

    def _check(self, asked: Asked, dialect: Dialect) -> None:
        """What a real provider would object to."""
        if not self.knows(asked.model):
            raise Refusal(Trouble(kind="unknown_model", model=asked.model))
        if self.script.strict:
            dialect.check(asked)

    # --- the answer ------------------------------------------------------------------------------------------------

    async def _answer(self, asked: Asked, dialect: Dialect, visit: Visit, rule: Rule | None) -> Answer:
        answer = await self._source.answer(asked, visit.source_key)
        if rule is not None and rule.fault in ENDINGS:
            answer = ended(answer, rule)
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
        content = self._content(asked, answer, dialect, visit, rule)
        standings = visit.admission.standings if visit.admission else ()
        return Sent(
            status=200, body=msgspec.json.encode(content), headers=dialect.headers(standings, visit.stamp)
        )

    def _content(
        self, asked: Asked, answer: Answer, dialect: Dialect, visit: Visit, rule: Rule | None
    ) -> Json:
        content = dialect.render(asked, answer, visit.stamp)
        if visit.provider in _TELLS_COST and visit.cost_usd is not None:
            usage = cast("Json", content[dialect.usage_field])
            usage["cost_in_usd_ticks"] = int(visit.cost_usd * _TICKS)
        match rule and rule.fault:
            case "empty":
                content[dialect.content_field] = []
            case "no_usage":
                content.pop(dialect.usage_field)
            case _:
                pass
        return content

    def _problem(self, trouble: Trouble, dialect: Dialect, visit: Visit) -> Sent:
        sent = dialect.problem(trouble, visit.stamp)
        standings = visit.admission.standings if visit.admission else ()
        headers: Mapping[str, str] = {**dialect.headers(standings, visit.stamp), **sent.headers}
        return Sent(status=sent.status, body=sent.body, headers=dict(headers))

    # --- lines of batches ------------------------------------------------------------------------------------------

    async def answer_line(
        self, line: LineAsked, dialect: Dialect, dress: Callable[[Json], Json]
    ) -> LineReply:
        """Answer one request of a batch as if it came live, bill it at the batch's price, and enter it in the book.

        `dress` marks a reply as one of a batch. The line's chance is that of its body: one that came live before is
        asked for the second time.
        """
        visit = Visit(
            number=self._book.arrive(),
            at=line.at,
            began=self._clock.monotonic() - max(0.0, self._clock.now() - line.at),
            path=line.path,
            provider=line.provider,
            model=line.model,
            key=line.key,
            call=line.id[:_LONGEST_NAME],
        )
        reply = LineReply(status=500, content={}, stamp=visit.stamp)
        try:
            reply = await self._line_reply(line, dialect, visit, dress)
        finally:
            self._enter_line(line, visit, reply)
        return reply

    async def _line_reply(
        self, line: LineAsked, dialect: Dialect, visit: Visit, dress: Callable[[Json], Json]
    ) -> LineReply:
        visit.body_hash = hashlib.blake2b(line.body, digest_size=16).hexdigest()
        rule: Rule | None = None
        try:
            asked = dialect.read(line.body, provider=line.provider, model=line.model)
            visit.model = asked.model[:_LONGEST_NAME]
            self._identify(asked, visit, visit.body_hash)
            if line.trouble is not None:
                raise Refusal(line.trouble)
            rule = self._rule_for(line, asked, visit)
            if rule is not None:
                visit.outcome, visit.rule = rule.fault, rule.title
                if rule.fault in SAID:
                    raise Refusal(said(rule, asked.model))
            self._check(asked, dialect)
            answer = await self._answer(asked, dialect, visit, rule)
        except Refusal as refusal:
            visit.outcome = visit.outcome if visit.rule else refusal.trouble.kind
            sent = dialect.problem(refusal.trouble, visit.stamp)
            error = msgspec.json.decode(sent.body, type=dict[str, object])
            return LineReply(status=sent.status, content=error, stamp=visit.stamp, rule=rule)
        visit.usage, visit.is_billed = answer.usage, line.is_billed
        if rule is not None and rule.fault not in _BESIDE:
            visit.is_billed = rule.is_billed and line.is_billed
        if visit.is_billed:
            price = self._batch_price(line.provider, asked.priced_as)
            visit.cost_usd = None if price is None else pricing.cost_usd(answer.usage, price)
        visit.outcome = rule.fault if rule else "answered"
        content = dress(self._content(asked, answer, dialect, visit, rule))
        return LineReply(
            status=200,
            content=content,
            stamp=visit.stamp,
            usage=answer.usage,
            cost_usd=visit.cost_usd,
            rule=rule,
        )

    def _rule_for(self, line: LineAsked, asked: Asked, visit: Visit) -> Rule | None:
        if line.is_again or not self._has_line_rules:
            return None
        return self._faults.pick(
            asked,
            key=visit.key,
            arrival=visit.arrival,
            repeat=visit.repeat,
            elapsed_s=self.elapsed_s(visit.began),
            step="line",
            batch=line.batch_number,
        )

    def _batch_price(self, provider: str, model: str) -> Price | None:
        if model not in self._batch_prices:
            live = self._prices.price_of(model)
            self._batch_prices[model] = None if live is None else batch_price(provider, live)
        return self._batch_prices[model]

    def _enter_line(self, line: LineAsked, visit: Visit, reply: LineReply) -> None:
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
                lane="batch",
                batch=line.batch,
                outcome=visit.outcome,
                rule=visit.rule,
                status=reply.status,
                usage=visit.usage,
                is_billed=visit.is_billed,
                cost_usd=visit.cost_usd,
                request_id=visit.stamp.id,
            )
        )

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


def _digits(key: bytes) -> str:
    return key.hex()[:32]
