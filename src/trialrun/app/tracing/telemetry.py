"""Whether this process tells OpenTelemetry what it does. Off unless `TRIALRUN_OTEL` says so.

Where the spans go is OpenTelemetry's own business: a tracer provider that the program around us has set up is used,
else one is made from the `OTEL_*` variables. Nothing of OpenTelemetry is imported while this is off.
"""

from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from trialrun.core.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from trialrun.app.tracing.spans import Tracing

SWITCH = "TRIALRUN_OTEL"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The conventions' own variable. The values that mean spans count; content in events is nothing that we emit."""
_ON, _OFF = ("1", "true", "on", "yes"), ("", "0", "false", "off", "no")
_WITH_CONTENT = ("true", "span_only", "span_and_event")
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_GROUP = "opentelemetry_traces_exporter"
_INSTALL = "pip install 'trialrun[otel]'"


def is_on(settings: Mapping[str, str]) -> bool:
    """Whether spans are wanted."""
    word = settings.get(SWITCH, "").strip().lower()
    if word not in _ON + _OFF:
        raise UsageError(f"`{SWITCH}` cannot be `{word}`", where="the environment", fix="set it to 1 or to 0")
    return word in _ON


def tracing_of(study: str, lane: str, settings: Mapping[str, str]) -> "Tracing | None":
    """Tells OpenTelemetry of a run; None if nobody wants to know."""
    if not is_on(settings):
        return None
    try:
        from opentelemetry import trace

        from trialrun.app.tracing.spans import Tracing
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`{SWITCH}` is set, but OpenTelemetry is not installed",
            where="the environment",
            fix=f"{_INSTALL}, or unset `{SWITCH}`",
        ) from error
    own = None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = own = _provider(settings)
    return Tracing(
        provider,
        study=study,
        lane=lane,
        with_content=settings.get(CONTENT, "").strip().lower() in _WITH_CONTENT,
        end=own.shutdown if own else None,
    )


def _provider(settings: Mapping[str, str]) -> "TracerProvider":
    """One that sends where the variables of OpenTelemetry say."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`{SWITCH}` is set, but the SDK of OpenTelemetry is not installed",
            where="the environment",
            fix=f"{_INSTALL}, or unset `{SWITCH}`",
        ) from error
    named = "OTEL_SERVICE_NAME" in settings or "service.name" in settings.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": "trialrun"}))
    for name in settings.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        if name.strip() not in ("", "none"):
            provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip(), settings)))
    return provider


def _exporter(name: str, settings: Mapping[str, str]):  # whatever an installed package brings
    """The exporter with this name, from whatever package brings it."""
    wanted = name
    if name == "otlp":
        protocol = settings.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or settings.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
        )
        wanted = _PROTOCOLS.get(protocol, protocol)
    found = next(iter(metadata.entry_points(group=_GROUP, name=wanted)), None)
    if found is None:
        known = sorted({each.name for each in metadata.entry_points(group=_GROUP)})
        raise UsageError(
            f"no installed package brings the span exporter `{wanted}`",
            where="OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_PROTOCOL",
            fix=f"install the package that does; there are {', '.join(known)}",
        )
    return found.load()()
