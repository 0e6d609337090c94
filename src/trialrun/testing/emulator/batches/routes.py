"""Which path belongs to which request about files and batches."""

from collections.abc import Callable

from aiohttp import web

from trialrun.testing.emulator.anthropic import Anthropic
from trialrun.testing.emulator.batches.anthropic import AnthropicBatches
from trialrun.testing.emulator.batches.door import Do, Door, Subject
from trialrun.testing.emulator.batches.openai import OpenAIBatches
from trialrun.testing.emulator.batches.openai_files import OpenAIFiles
from trialrun.testing.emulator.openai import OpenAIChat
from trialrun.testing.emulator.script import Step

_OPENAI, _ANTHROPIC = OpenAIChat(), Anthropic()


def add(app: web.Application, door: Door, *, is_known: Callable[[str], bool]) -> None:
    """All endpoints, the special before the general."""
    for prefix in ("/anthropic/v1", "/v1", "/anthropic"):
        _add_anthropic(app, f"{prefix}/messages/batches", door)
    # Whatever else has the shape of OpenAI: its name is the prefix.
    for prefix, provider in (("/openai", "openai"), ("", "openai"), ("/{provider:[a-z0-9_-]+}", "")):
        _add_openai(app, f"{prefix}/v1", door, provider, is_known)


def _add_anthropic(app: web.Application, path: str, door: Door) -> None:
    batches = AnthropicBatches(door)
    batch = f"{path}/{{batch}}"

    def add(method: str, where: str, step: Step, do: Do, subject: Subject | None = batches.subject) -> None:
        opened = door.opens(step, _ANTHROPIC, do, provider="anthropic", subject=subject)
        app.router.add_route(method, where, opened)

    add("POST", path, "create", batches.create, None)
    add("GET", path, "list", batches.listed, None)
    add("GET", batch, "look", batches.look)
    add("GET", f"{batch}/results", "download", batches.results)
    add("POST", f"{batch}/cancel", "cancel", batches.cancel)
    add("DELETE", batch, "delete", batches.delete)


def _add_openai(
    app: web.Application, prefix: str, door: Door, provider: str, is_known: Callable[[str], bool]
) -> None:
    files, batches = OpenAIFiles(door), OpenAIBatches(door, is_known=is_known)
    file, batch = f"{prefix}/files/{{file}}", f"{prefix}/batches/{{batch}}"

    def add(method: str, path: str, step: Step, do: Do, subject: Subject | None = None) -> None:
        app.router.add_route(method, path, door.opens(step, _OPENAI, do, provider=provider, subject=subject))

    add("POST", f"{prefix}/files", "upload", files.upload)
    add("GET", f"{prefix}/files", "list", files.listed)
    add("GET", file, "look", files.look, files.subject)
    add("GET", f"{file}/content", "download", files.content, files.subject)
    add("DELETE", file, "delete", files.delete, files.subject)
    add("POST", f"{prefix}/batches", "create", batches.create)
    add("GET", f"{prefix}/batches", "list", batches.listed)
    add("GET", batch, "look", batches.look, batches.subject)
    add("POST", f"{batch}/cancel", "cancel", batches.cancel, batches.subject)
