"""What OpenTelemetry is told of a run: nothing unless asked, no text unless asked, and never a key."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.batches.support import batch_plan, jumping, route_of, run_batches
from tests.behaviour.support import make_plan, run
from trialrun.app.running import run_study
from trialrun.app.studies import plan_of
from trialrun.core.calls import Parsed, ToolCall
from trialrun.core.errors import CallTimedOut, RequestRefused, Throttled, UsageError
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.testing.emulator import Emulator
from trialrun.testing.scripted import Scripted

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
QUESTION, ANSWER = "What is behind the green door?", "A garden with a pond."
KEY = "sk-canary-of-spans"


async def ask_once(trial: Trial, lab: Lab) -> dict[str, object]:
    async with lab.next_turn():
        reply = await lab.ask("a", QUESTION, temperature=0.5)
    return {"words": len(reply.text)}


@pytest.fixture(scope="module")
def exported() -> Iterator[InMemorySpanExporter]:
    """A program around Trialrun that has set OpenTelemetry up for itself."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def spans(exported: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    monkeypatch.setenv("TRIALRUN_OTEL", "1")
    exported.clear()
    return exported


def calls_and_trials(spans: InMemorySpanExporter) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
    finished = spans.get_finished_spans()
    calls = [span for span in finished if span.kind is trace.SpanKind.CLIENT]
    return calls, [span for span in finished if span not in calls]


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def everything_in(spans: Sequence[ReadableSpan]) -> str:
    return "\n".join(span.to_json() for span in spans)


async def test_a_call_is_a_span_inside_the_span_of_its_trial(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    await run(make_plan(tmp_path, ask_once, replicates=2), Scripted(lambda call: ANSWER))
    calls, trials = calls_and_trials(spans)
    assert [len(calls), len(trials)] == [4, 4]
    parents = {span.context.span_id: span for span in trials if span.context}
    for call in calls:
        asked = of(call)
        assert call.name == "chat m"
        assert call.parent is not None
        trial = of(parents[call.parent.span_id])
        assert asked["trialrun.trial"] == trial["trialrun.trial"] == asked["gen_ai.conversation.id"]
        assert asked["gen_ai.operation.name"] == "chat"
        assert (asked["gen_ai.provider.name"], asked["gen_ai.request.model"]) == ("x", "m")
        assert (asked["gen_ai.request.max_tokens"], asked["gen_ai.request.temperature"]) == (50, 0.5)
        assert asked["gen_ai.response.finish_reasons"] == ("stop",)
        assert asked["gen_ai.usage.input_tokens"] > 0
        assert asked["trialrun.party"] == "a"
        assert asked["trialrun.turn"] == 1
        assert [event.name for event in call.events] == ["trialrun.attempt"]
        assert call.status.status_code is trace.StatusCode.UNSET
        assert trial["trialrun.calls"] == 1
        assert trial["trialrun.cost_usd"] == asked["trialrun.cost_usd"] > 0
        assert trial["gen_ai.usage.output_tokens"] == asked["gen_ai.usage.output_tokens"]
    assert {span.name for span in trials} == {"invoke_workflow small"}
    assert {of(span)["trialrun.status"] for span in trials} == {"done"}
    assert sorted(of(span)["trialrun.factor.mood"] for span in trials) == ["calm", "calm", "wild", "wild"]


async def test_no_text_leaves_unless_it_is_asked_for(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = Parsed(
        text=ANSWER, finish="tool", tool_calls=(ToolCall(id="1", name="dig", arguments={"depth": 2}),)
    )
    await run(make_plan(tmp_path / "without", ask_once), Scripted(lambda call: wish))
    quiet = everything_in(spans.get_finished_spans())
    assert "chat m" in quiet
    assert not any(text in quiet for text in (QUESTION, ANSWER, "You are calm", "depth"))

    spans.clear()
    monkeypatch.setenv(CONTENT, "true")
    await run(make_plan(tmp_path / "with", ask_once, factors={}, replicates=1), Scripted(lambda call: wish))
    (call,), _ = calls_and_trials(spans)
    told = {name: json.loads(of(call)[f"gen_ai.{name}"]) for name in ("input.messages", "output.messages")}
    assert told["input.messages"] == [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    assert told["output.messages"] == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": ANSWER},
                {"type": "tool_call", "id": "1", "name": "dig", "arguments": {"depth": 2}},
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert json.loads(of(call)["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "You are calm."}
    ]


async def test_attempts_are_events_and_errors_are_told_by_their_type(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    secret = f"refused: {QUESTION}"
    script = iter(
        [
            Throttled(secret, retry_after_s=0.0),
            CallTimedOut(secret),
            ANSWER,
            RequestRefused(secret, status=400),
        ]
    )
    await run(
        make_plan(tmp_path, ask_once, factors={}, replicates=2, limits={"open_trials": 1}),
        Scripted(lambda call: next(script)),
        clock=jumping(),
    )
    (good, bad), trials = calls_and_trials(spans)
    told = [(event.name, dict(event.attributes or {})) for event in good.events]
    assert [name for name, _ in told] == [
        "trialrun.attempt",
        "trialrun.attempt_failed",
        "trialrun.attempt",
        "trialrun.attempt_failed",
        "trialrun.attempt",
    ]
    failed = [values for name, values in told if name == "trialrun.attempt_failed"]
    assert [(each["trialrun.error"], each["trialrun.billed"]) for each in failed] == [
        ("Throttled", "no"),
        ("CallTimedOut", "unknown"),
    ]
    assert good.status.status_code is trace.StatusCode.UNSET
    assert bad.status.status_code is trace.StatusCode.ERROR
    assert (of(bad)["error.type"], of(bad)["http.response.status_code"]) == ("RequestRefused", 400)
    assert sorted((of(span)["trialrun.status"], of(span).get("error.type")) for span in trials) == [
        ("done", None),
        ("failed", "RequestRefused"),
    ]
    assert QUESTION not in everything_in(spans.get_finished_spans())


async def test_branches_of_a_trial_have_the_trial_as_their_parent(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    async def both(trial: Trial, lab: Lab) -> None:
        await lab.together(lambda branch: branch.ask("a", "Left?"), lambda branch: branch.ask("a", "Right?"))

    await run(make_plan(tmp_path, both, factors={}, replicates=1), Scripted(lambda call: ANSWER))
    calls, (trial,) = calls_and_trials(spans)
    assert len(calls) == 2
    assert trial.context is not None
    assert {call.parent and call.parent.span_id for call in calls} == {trial.context.span_id}
    assert of(trial)["trialrun.calls"] == 2


async def test_a_call_in_a_batch_lasts_from_its_being_put_down_until_it_came_back(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    clock = jumping()
    await run_batches(batch_plan(tmp_path, factors={}, replicates=2), route_of(clock), clock)
    calls, trials = calls_and_trials(spans)
    assert len(calls) == 4
    assert all(call.parent is not None and of(call)["trialrun.cost_usd"] > 0 for call in calls)
    assert {of(call)["trialrun.lane"] for call in calls} == {"batch"}
    assert sorted(of(trial)["trialrun.status"] for trial in trials) == ["done", "done", *["parked"] * 4]


async def test_no_key_is_in_a_span(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT, "true")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    document = {
        "study": "keys",
        "procedure": "conversation",
        "parties": {
            name: {"model": "openai/gpt-4.1-mini", "prompt": f"You are {name}.", "max_tokens": 60}
            for name in ("host", "guest")
        },
        "replicates": 3,
        "settings": {"max_turns": 1},
    }
    script = {"faults": [{"fault": "revoked", "after": 3}]}
    async with Emulator(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url("openai"))
        plan = plan_of(
            json.dumps(document), file="study.yaml", home=tmp_path, lane="live", folder=None, overrides={}
        )
        await run_study(plan)
    told = everything_in(spans.get_finished_spans())
    assert "AuthRefused" in told
    assert "gen_ai.input.messages" in told
    assert KEY not in told


OFF = """
import sys, trialrun as tr
parties = {name: {"model": "openai/gpt-5-mini", "prompt": "Talk."} for name in "ab"}
study = {"study": "off", "procedure": "conversation", "settings": {"max_turns": 1}, "parties": parties}
tr.run(study, lane="rehearsal", folder=sys.argv[1], progress=False)
print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
"""


@pytest.mark.parametrize("word", [None, "0"])
def test_off_imports_nothing_and_says_nothing(tmp_path: Path, word: str | None) -> None:
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "console"}
    if word is not None:
        environment["TRIALRUN_OTEL"] = word
    done = subprocess.run(
        [sys.executable, "-c", OFF, str(tmp_path / "off")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


async def test_a_word_that_is_neither_on_nor_off_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIALRUN_OTEL", "perhaps")
    provider = Scripted("never")
    with pytest.raises(UsageError, match="TRIALRUN_OTEL"):
        await run(make_plan(tmp_path), provider)
    assert provider.sent == []


async def test_without_the_package_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIALRUN_OTEL", "1")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UsageError, match="not installed") as caught:
        await run(make_plan(tmp_path), Scripted("never"))
    assert "trialrun[otel]" in caught.value.fix


class Collector(ThreadingHTTPServer):
    """Takes spans as a collector does, over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.names: list[str] = []
        self.services: set[str] = set()


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Collector)
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        for sent in request.resource_spans:
            server.services |= {
                each.value.string_value for each in sent.resource.attributes if each.key == "service.name"
            }
            server.names += [span.name for scope in sent.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the base
        pass


def test_the_command_sends_them_where_the_variables_of_opentelemetry_say(tmp_path: Path) -> None:
    with Collector() as collector:
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        try:
            done = subprocess.run(
                [sys.executable, "-c", OFF, str(tmp_path / "on")],
                env={
                    **os.environ,
                    "TRIALRUN_OTEL": "1",
                    "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
                    "OTEL_SERVICE_NAME": "my-lab",
                },
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            collector.shutdown()
            serving.join()
    assert sorted(collector.names) == ["chat gpt-5-mini", "chat gpt-5-mini", "invoke_workflow off"]
    assert collector.services == {"my-lab"}
    assert done.stderr == ""
