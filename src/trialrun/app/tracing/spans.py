"""Trials and calls as spans of OpenTelemetry. Imported only when spans are wanted (`app.tracing.telemetry`).

S1. Spans stand around the ports (`Procedure`, `Door`, `Journal`); engine and gateway know nothing of them.
S2. No text of a prompt, a reply or an error leaves unless it was asked for: errors are told by their type and status.
S3. A call is one span, with all its attempts as events: from when it was asked for until its reply was settled. In the
    batch lane from when it was put down; one that an earlier process put down begins when it came back.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, cast

from opentelemetry import context, trace

from trialrun.app.tracing.span_names import Attributes, answered, asked, input_of, output_of
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.core.ports import Answer, Door, Journal, Lab, Outcome, Procedure
from trialrun.core.study import Spec, Trial
from trialrun.core.version import VERSION
from trialrun.engine.parts import Parts


@dataclass(kw_only=True, slots=True)
class _Sums:
    """What the calls of a trial came to since it was last opened."""

    calls: int = 0
    cost_usd: Decimal = Decimal(0)
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, settled: f.Settled) -> None:
        self.calls += 1
        self.cost_usd += settled.cost_usd or 0
        if settled.usage is not None:
            self.tokens_in += settled.usage.tokens_in
            self.tokens_out += settled.usage.tokens_out


@dataclass(kw_only=True, slots=True)
class _Open:
    """A call on its way: when it was asked for, by which trial, and what became of its attempts."""

    began_ns: int
    within: context.Context | None
    attributes: Attributes
    model: str
    events: list[tuple[str, Attributes, int]] = field(default_factory=list[tuple[str, Attributes, int]])

    def note(self, name: str, **attributes: object) -> None:
        self.events.append((name, {f"trialrun.{key}": value for key, value in attributes.items()}, _now()))


_trial: ContextVar[_Sums | None] = ContextVar("trialrun_trial", default=None)
_call: ContextVar[_Open | None] = ContextVar("trialrun_call", default=None)
_now = time.time_ns


class Tracing:
    """Tells one tracer provider of one run."""

    def __init__(
        self,
        provider: trace.TracerProvider,
        *,
        study: str,
        lane: str,
        with_content: bool,
        end: Callable[[], None] | None,
    ) -> None:
        self._tracer = provider.get_tracer("trialrun", VERSION)
        self._study = study
        self._lane = lane
        self._with_content = with_content
        self._end = end
        self._out: dict[tuple[str, str, int], _Open] = {}
        """Calls in the batch lane that this process put down."""

    async def close(self) -> None:
        """Send what is left, if nobody else does."""
        if self._end is not None:
            await asyncio.to_thread(self._end)

    # --- around the ports -------------------------------------------------------------------------------------------

    def watching(self, journal: Journal) -> Journal:
        """The same journal, which also tells us of attempts."""
        return cast("Journal", _Watched(journal, self._heard))

    def around(self, parts: Parts) -> Parts:
        """The same parts, with spans around procedures and calls."""

        def procedure_of(spec: Spec) -> Procedure:
            return _Traced(self, parts.procedure_of(spec))

        return replace(parts, procedure_of=procedure_of, door=_Door(self, parts.door))

    async def trial(self, trial: Trial, lab: Lab, procedure: Procedure) -> Outcome:
        """Run the trial inside a span, which is the parent of its calls."""
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": self._study,
            "trialrun.study": self._study,
            "trialrun.lane": self._lane,
            "trialrun.procedure": trial.spec.procedure,
            "trialrun.trial": trial.id,
            "trialrun.condition": trial.condition.id,
            "trialrun.replicate": trial.replicate,
        }
        attributes |= {f"trialrun.factor.{name}": label for name, label in trial.condition.labels.items()}
        sums = _Sums()
        token = _trial.set(sums)
        with self._tracer.start_as_current_span(
            f"invoke_workflow {self._study}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                outcome = await procedure.run(trial, lab)
                span.set_attribute("trialrun.status", "done")
                return outcome
            except BaseException as error:
                self._tell_ending(span, error)
                raise
            finally:
                span.set_attributes(
                    {
                        "trialrun.calls": sums.calls,
                        "trialrun.cost_usd": float(sums.cost_usd),
                        "gen_ai.usage.input_tokens": sums.tokens_in,
                        "gen_ai.usage.output_tokens": sums.tokens_out,
                    }
                )
                _trial.reset(token)

    async def ask(self, door: Door, call: Call, *, attempts_before: int, **given: Any) -> Answer:
        """Ask, and tell when the reply is there. A call that never left is no span."""
        open_ = self._opened(call)
        token = _call.set(open_)
        try:
            answer = await door.ask(call, attempts_before=attempts_before, **given)
        except (Exception, asyncio.CancelledError) as error:
            if open_.events:
                self._tell(open_, error=error)
            raise
        finally:
            _call.reset(token)
        sums = _trial.get()
        if sums is not None:
            sums.add(answer.settled)
        output = output_of(answer.text, answer.settled) if self._with_content else {}
        self._tell(open_, settled=answer.settled, more=output)
        return answer

    def _opened(self, call: Call) -> _Open:
        attributes = asked(call)
        if self._with_content:
            attributes |= input_of(call.request.messages)
        return _Open(
            began_ns=_now(),
            within=context.get_current(),
            attributes={**attributes, "trialrun.study": self._study, "trialrun.lane": self._lane},
            model=call.request.model,
        )

    # --- what the journal hears -------------------------------------------------------------------------------------

    def _heard(self, trial: str, facts: Sequence[f.Fact]) -> None:
        for fact in facts:
            match fact:
                case f.Held():
                    self._left(trial, fact)
                case f.Released() | f.Doubted():
                    self._failed(trial, fact)
                case f.Settled(pack=pack) if pack:
                    self._came_back(trial, fact)
                case _:
                    pass

    def _left(self, trial: str, held: f.Held) -> None:
        open_ = _call.get()
        if open_ is None:
            return
        if held.lane == "batch":
            self._out[trial, held.at, held.attempt] = open_
        else:
            open_.note("trialrun.attempt", attempt=held.attempt)

    def _failed(self, trial: str, fact: f.Released | f.Doubted) -> None:
        handed_in = self._out.pop((trial, fact.at, fact.attempt), None)
        open_ = handed_in or _call.get()
        if open_ is None:
            return
        billed = "no" if isinstance(fact, f.Released) else "unknown"
        open_.note("trialrun.attempt_failed", attempt=fact.attempt, error=fact.error, billed=billed)
        if handed_in is not None and fact.error != f.NEVER_SENT:
            self._tell(handed_in, error=fact.error)

    def _came_back(self, trial: str, settled: f.Settled) -> None:
        open_ = self._out.pop((trial, settled.at, settled.attempt), None) or _Open(
            began_ns=_now(),
            within=None,
            attributes={
                "gen_ai.operation.name": "chat",
                "trialrun.study": self._study,
                "trialrun.lane": "batch",
                "trialrun.trial": trial,
                "trialrun.call": settled.at,
            },
            model=f"/{settled.model}",
        )
        self._tell(open_, settled=settled)

    # --- spans ------------------------------------------------------------------------------------------------------

    def _tell(
        self,
        open_: _Open,
        *,
        settled: f.Settled | None = None,
        error: BaseException | str | None = None,
        more: Attributes | None = None,
    ) -> None:
        """One finished call."""
        _, _, model = open_.model.partition("/")
        attributes = open_.attributes | (answered(settled) if settled else {}) | (more or {})
        span = self._tracer.start_span(
            f"chat {model}",
            context=open_.within,
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=open_.began_ns,
        )
        for name, values, at_ns in open_.events:
            span.add_event(name, values, timestamp=at_ns)
        if error is not None:
            self._tell_error(span, error)
        span.end()

    def _tell_ending(self, span: trace.Span, error: BaseException) -> None:
        """Why a trial did not come to its end. What unwinds it to go on later is no error."""
        match error:
            case e.Parked():
                status = "parked"
            case e.BudgetExhausted():
                status = "stopped_by_budget"
            case e.Drained() | e.StudyStop():
                status = "stopped"
            case asyncio.CancelledError():
                status = "cut"
            case _:
                status = "failed"
                self._tell_error(span, error)
        span.set_attribute("trialrun.status", status)

    def _tell_error(self, span: trace.Span, error: BaseException | str) -> None:
        name = error if isinstance(error, str) else type(error).__name__
        span.set_attribute("error.type", name)
        status = getattr(error, "status", None)
        if isinstance(status, int):
            span.set_attribute("http.response.status_code", status)
        said = str(error) if self._with_content and not isinstance(error, str) else None
        span.set_status(trace.StatusCode.ERROR, said)


class _Door:
    """A door with a span around each call."""

    def __init__(self, tracing: Tracing, door: Door) -> None:
        self._tracing = tracing
        self._door = door

    async def ask(
        self, call: Call, *, attempts_before: int, delta: f.RequestDelta, texts: Mapping[str, str | bytes]
    ) -> Answer:
        return await self._tracing.ask(
            self._door, call, attempts_before=attempts_before, delta=delta, texts=texts
        )


class _Traced:
    """A procedure with a span around each trial."""

    def __init__(self, tracing: Tracing, procedure: Procedure) -> None:
        self._tracing = tracing
        self._procedure = procedure

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        return await self._tracing.trial(trial, lab, self._procedure)


class _Watched:
    """A journal that says what is appended."""

    def __init__(self, journal: Journal, hear: Callable[[str, Sequence[f.Fact]], None]) -> None:
        self._journal = journal
        self._hear = hear

    def append(
        self,
        trial: str,
        facts: Sequence[f.TrialFact] | Sequence[f.StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        self._journal.append(trial, facts, texts)
        self._hear(trial, facts)

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)
