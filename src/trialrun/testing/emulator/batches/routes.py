"""Which path belongs to which request about files and batches."""

from collections.abc import Callable

from aiohttp import web

from trialrun.testing.emulator.anthropic import Anthropic
from trialrun.testing.emulator.batches.anthropic import AnthropicBatches
from trialrun.testing.emulator.batches.door import Do, Door, Subject
from trialrun.testing.emulator.batches.gemini import GeminiBatches
from trialrun.testing.emulator.batches.gemini_files import GeminiFiles
from trialrun.testing.emulator.batches.openai import OpenAIBatches
from trialrun.testing.emulator.batches.openai_files import OpenAIFiles
from trialrun.testing.emulator.google import Google
from trialrun.testing.emulator.openai import OpenAIChat
from trialrun.testing.emulator.script import Step

_OPENAI, _ANTHROPIC, _GEMINI = OpenAIChat(), Anthropic(), Google()


def add(app: web.Application, door: Door, *, is_known: Callable[[str], bool]) -> None:
    """All endpoints, the special before the general."""
    for prefix in ("/anthropic/v1", "/v1", "/anthropic"):
        _add_anthropic(app, f"{prefix}/messages/batches", door)
    for name in ("gemini", "google", ""):
        _add_gemini(app, f"/{name}" if name else "", door, name or "gemini")
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


def _add_gemini(app: web.Application, prefix: str, door: Door, provider: str) -> None:
    files, batches = GeminiFiles(door), GeminiBatches(door)
    # Without a prefix, `v1` alone does not say whose batches are meant.
    version = "{version:v1|v1beta}" if prefix else "{version:v1beta}"
    path = f"{prefix}/{version}"
    batch, file = f"{path}/batches/{{batch:[^/:]+}}", f"{path}/files/{{file:[^/:]+}}"

    def add(method: str, where: str, step: Step | None, do: Do, subject: Subject | None = None) -> None:
        app.router.add_route(method, where, door.opens(step, _GEMINI, do, provider=provider, subject=subject))

    async def upload(request: web.Request) -> web.StreamResponse:
        return await (takes if "upload_id" in request.query else begins)(request)

    begins = door.opens(None, _GEMINI, files.begin, provider=provider)
    # Who has the address of an upload may go on with it: its pieces carry no key.
    takes = door.opens("upload", _GEMINI, files.piece, provider=provider, needs_key=False)
    app.router.add_post(f"{prefix}/upload/{{version:v1|v1beta}}/files", upload)
    add(
        "POST",
        f"{prefix}/{{version:v1|v1beta}}/models/{{model}}:batchGenerateContent",
        "create",
        batches.create,
    )
    add("GET", f"{path}/batches", "list", batches.listed)
    add("GET", batch, "look", batches.look, batches.subject)
    add("POST", f"{batch}:cancel", "cancel", batches.cancel, batches.subject)
    add("DELETE", batch, "delete", batches.delete, batches.subject)
    add("GET", f"{path}/files", "list", files.listed)
    add("GET", file, "look", files.look, files.subject)
    add("DELETE", file, "delete", files.delete, files.subject)
    add("GET", f"{file}:download", "download", files.content, files.subject)
    add(
        "GET",
        f"{prefix}/download/{version}/files/{{file:[^/:]+}}:download",
        "download",
        files.content,
        files.subject,
    )


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
