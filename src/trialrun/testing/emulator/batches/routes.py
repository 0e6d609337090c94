"""Which path belongs to which request about files and batches."""

from collections.abc import Callable

from aiohttp import web

from trialrun.testing.emulator.anthropic import Anthropic
from trialrun.testing.emulator.batches.anthropic import AnthropicBatches
from trialrun.testing.emulator.batches.door import Do, Door, Handler, Subject
from trialrun.testing.emulator.batches.gemini import GeminiBatches
from trialrun.testing.emulator.batches.gemini_files import GeminiFiles
from trialrun.testing.emulator.batches.openai import OpenAIBatches
from trialrun.testing.emulator.batches.openai_files import OpenAIFiles
from trialrun.testing.emulator.batches.storage import Buckets, Storage
from trialrun.testing.emulator.batches.vertex import VertexBatches
from trialrun.testing.emulator.batches.xai import XaiBatches
from trialrun.testing.emulator.google import Google
from trialrun.testing.emulator.openai import OpenAIChat
from trialrun.testing.emulator.script import Step

_OPENAI, _ANTHROPIC, _GEMINI, _VERTEX = OpenAIChat(), Anthropic(), Google(), Google(is_vertex=True)
_JOBS = "/{version:v1|v1beta1}/projects/{project}/locations/{location}/batchPredictionJobs"


def add(app: web.Application, door: Door, *, is_known: Callable[[str], bool]) -> None:
    """All endpoints, the special before the general."""
    for prefix in ("/anthropic/v1", "/v1", "/anthropic"):
        _add_anthropic(app, f"{prefix}/messages/batches", door)
    for name in ("gemini", "google", ""):
        _add_gemini(app, f"/{name}" if name else "", door, name or "gemini")
    buckets = Buckets(door.files)
    for prefix in ("/vertex", ""):
        _add_vertex(app, f"{prefix}{_JOBS}", VertexBatches(door, buckets), door)
        _add_storage(app, prefix, Storage(door, buckets), door)
    _add_xai(app, "/xai/v1", door, is_known)
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


def _add_vertex(app: web.Application, jobs: str, batches: VertexBatches, door: Door) -> None:
    job = f"{jobs}/{{batch:[^/:]+}}"

    def add(method: str, where: str, step: Step, do: Do, subject: Subject | None = batches.subject) -> None:
        app.router.add_route(method, where, door.opens(step, _VERTEX, do, provider="vertex", subject=subject))

    add("POST", jobs, "create", batches.create, None)
    add("GET", jobs, "list", batches.listed, None)
    add("GET", job, "look", batches.look)
    add("POST", f"{job}:cancel", "cancel", batches.cancel)
    add("DELETE", job, "delete", batches.delete)


def _add_storage(app: web.Application, prefix: str, storage: Storage, door: Door) -> None:
    bucket = "storage/v1/b/{bucket}"
    uploads, object_ = f"{prefix}/upload/{bucket}/o", f"{bucket}/o/{{object:.+}}"

    def opened(
        step: Step | None, do: Do, subject: Subject | None = None, *, needs_key: bool = True
    ) -> Handler:
        return door.opens(step, _VERTEX, do, provider="vertex", subject=subject, needs_key=needs_key)

    # Who has the address of an upload may go on with it.
    begins, takes = opened(None, storage.begin), opened("upload", storage.piece, needs_key=False)
    whole = opened("upload", storage.upload)
    looks = opened("look", storage.look, storage.subject)
    downloads = opened("download", storage.content, storage.subject)

    async def upload(request: web.Request) -> web.StreamResponse:
        is_resumable = request.query.get("uploadType") == "resumable"
        return await (begins if is_resumable else whole)(request)

    async def get(request: web.Request) -> web.StreamResponse:
        return await (downloads if request.query.get("alt") == "media" else looks)(request)

    app.router.add_post(uploads, upload)
    app.router.add_put(uploads, takes)
    app.router.add_get(f"{prefix}/{object_}", get)
    app.router.add_delete(f"{prefix}/{object_}", opened("delete", storage.delete, storage.subject))
    app.router.add_get(f"{prefix}/download/{object_}", downloads)
    app.router.add_get(f"{prefix}/{bucket}/o", opened("list", storage.listed))
    app.router.add_get(f"{prefix}/{bucket}", opened(None, storage.bucket))


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


def _add_xai(app: web.Application, prefix: str, door: Door, is_known: Callable[[str], bool]) -> None:
    """Files are OpenAI's, and added with the others'."""
    batches = XaiBatches(door, is_known=is_known)
    batch = f"{prefix}/batches/{{batch:[^/:]+}}"

    def add(method: str, path: str, step: Step, do: Do, subject: Subject | None = batches.subject) -> None:
        app.router.add_route(method, path, door.opens(step, _OPENAI, do, provider="xai", subject=subject))

    add("POST", f"{prefix}/batches", "create", batches.create, None)
    add("GET", f"{prefix}/batches", "list", batches.listed, None)
    add("GET", batch, "look", batches.look)
    add("GET", f"{batch}/results", "download", batches.results)
    add("POST", f"{batch}:cancel", "cancel", batches.cancel)
