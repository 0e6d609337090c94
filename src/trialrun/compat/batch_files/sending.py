"""A request file on its way: looked through, written down, uploaded, made a batch of. Nothing is sent twice.

S1. What is sent is a copy in the batch's own folder; the file that was named may change afterwards.
S2. Each step is in the tracking file before the next is taken, so that a killed submission goes on where it was.
S3. One process at a time submits the same requests; the next one finds them submitted.
S4. A creation without a reply is looked for at the provider before it is tried again; where it cannot be found by
    anything, a person decides.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from trialrun.app.files import write_whole
from trialrun.compat.batch_files.accounts import Routes, patiently
from trialrun.compat.batch_files.files import alone, filled_lines
from trialrun.compat.batch_files.lines import RequestLine, body_of, read_line
from trialrun.compat.batch_files.pricing import Estimate, estimate
from trialrun.compat.batch_files.services import form_of, full_name, model_of
from trialrun.compat.batch_files.tracking import UNSENT, Batch, Ledger, now
from trialrun.core.batches import BatchRoute, PackFile
from trialrun.core.calls import Call, Request
from trialrun.core.errors import CallError, Unavailable, UsageError
from trialrun.core.identity import digest
from trialrun.core.ports import Clock, PriceBook
from trialrun.providers.batches.gemini import GeminiBatches

REQUESTS = "requests.jsonl"
_LONGEST_ID = 64
_CREATIONS = 2
_LOOKS_S = (0.0, 1.0, 3.0)
_AGAIN = "say `--again` to send it once more, and pay once more"


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What to submit, and how."""

    path: Path
    service: str = ""
    """As the user says, or as the file's own lines and the tracking file say."""
    model: str = ""
    description: str = ""
    is_upload: bool = False
    """Gemini: the requests travel as a file, however few they are."""
    again: bool = False
    adopt: str = ""
    """The provider's id of the batch that an earlier attempt, whose reply was lost, did make."""
    budget_usd: Decimal | None = None


async def submit(order: Order, *, ledger: Ledger, routes: Routes, prices: PriceBook, clock: Clock) -> Batch:
    """Submit one request file. Raises what went wrong; the tracking file says how far it came."""
    lines = list(requests_in(order.path))
    sha256 = _sha256(order.path)
    service, model = _whose(order, ledger, lines[0], sha256)
    async with alone(ledger.folder / f".{digest([sha256, service, model], size=10)}.lock", clock):
        return await _submitted(
            order, lines, sha256, service, model, ledger=ledger, routes=routes, prices=prices, clock=clock
        )


async def _submitted(
    order: Order,
    lines: list[RequestLine],
    sha256: str,
    service: str,
    model: str,
    *,
    ledger: Ledger,
    routes: Routes,
    prices: PriceBook,
    clock: Clock,
) -> Batch:
    begun = _begun(order, ledger, sha256, service=service, model=model)
    if order.adopt:
        return _adopted(order, ledger, begun)
    route = routes(service, model)
    if order.is_upload and isinstance(route, GeminiBatches):
        route = route.with_upload()
    if begun is None:
        begun = _prepared(order, ledger, route, lines, sha256, service=service, model=model, prices=prices)
    return await _sent(begun, ledger=ledger, route=route, clock=clock)


def requests_in(path: Path) -> Iterator[RequestLine]:
    """The lines of a request file; raises UsageError for what no provider would take."""
    seen: dict[str, int] = {}
    try:
        for number, raw in filled_lines(path):
            line = read_line(raw, where=str(path), number=number)
            _check_id(line, seen, path, number)
            yield line
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no file `{path}`", where=str(path), fix="write it with `trialrun batch create`"
        ) from error
    if not seen:
        raise UsageError(
            "there is no request in it", where=str(path), fix="write it with `trialrun batch create`"
        )


def sent_requests(ledger: Ledger, batch: Batch) -> Path:
    """The requests of a batch as they were sent; the file that was named, if the copy is not there."""
    kept = ledger.folder / batch.pack / REQUESTS if batch.pack else None
    return kept if kept and kept.is_file() else Path(batch.input)


def _check_id(line: RequestLine, seen: dict[str, int], path: Path, number: int) -> None:
    where = f"{path}:{number}"
    if not line.id:
        raise UsageError(
            f"line {number} has no id, so its answer could not be matched",
            where=where,
            fix="give each line a `key` (Gemini, Vertex AI) or a `custom_id`",
        )
    if len(line.id) > _LONGEST_ID:
        raise UsageError(
            f"the id of line {number} has {len(line.id)} characters", where=where, fix="64 are the most"
        )
    if line.id in seen:
        raise UsageError(
            f"`{line.id}` is the id of line {seen[line.id]} and of line {number}",
            where=where,
            fix="give each line an id of its own",
        )
    seen[line.id] = number


def _whose(order: Order, ledger: Ledger, line: RequestLine, sha256: str) -> tuple[str, str]:
    """Service and model: as the user says, else as the file was written."""
    files = [file for file in ledger.read().files if Path(file.path).resolve() == order.path.resolve()]
    written = files[-1] if files else None
    service = order.service or (written.provider if written else "")
    if not service:
        service = {"openai": "openai", "anthropic": "claude", "gemini": "gemini"}[line.form]
    model = order.model or line.model or (written.model if written and written.sha256 == sha256 else "")
    if form_of(service) != line.form:
        raise UsageError(
            f"these are no requests for `{service}`",
            where=str(order.path),
            fix=f"they are written for {line.form}; create them with `--provider {service}`",
        )
    if not model:
        raise UsageError(
            "which model are these requests for?", where=str(order.path), fix="say `--model gemini-2.5-flash`"
        )
    return service, model_of(service, model)


def _begun(order: Order, ledger: Ledger, sha256: str, *, service: str, model: str) -> Batch | None:
    """A submission of the same requests that did not end; raises if there is one that did.

    Gemini's lines do not say whose they are: the same file may go to another model, or another provider.
    """
    same = [batch for batch in ledger.read().batches if batch.is_of(sha256, service, model)]
    unsent = next((batch for batch in same if batch.status in UNSENT), None)
    sent = next((batch for batch in reversed(same) if batch.batch_id), None)
    if unsent and order.again and unsent.status == "submitting":
        ledger.note(unsent, "given up", status="unknown", problems=("given up, and sent again",))
    elif unsent:
        return unsent
    if sent and not order.again:
        raise UsageError(
            f"these requests were submitted already, as {sent.batch_id}", where=str(order.path), fix=_AGAIN
        )
    return None


def _adopted(order: Order, ledger: Ledger, begun: Batch | None) -> Batch:
    if begun is None:
        raise UsageError(
            "no submission of these requests is open", where=str(order.path), fix="leave out `--adopt`"
        )
    return ledger.note(begun, "adopted", batch_id=order.adopt, status="pending")


def _prepared(
    order: Order,
    ledger: Ledger,
    route: BatchRoute,
    lines: list[RequestLine],
    sha256: str,
    *,
    service: str,
    model: str,
    prices: PriceBook,
) -> Batch:
    """Look through it, and put a copy of what will be sent beside the tracking file."""
    named = {line.model for line in lines if line.model}
    if route.limits.is_one_model and len(named) > 1:
        raise UsageError(
            f"these requests are for {', '.join(sorted(named))}, and a batch has one model",
            where=str(order.path),
            fix="make a file for each model: `trialrun batch create --model A --model B`",
        )
    cost = estimate(lines, full_name(service, model), prices)
    _check_budget(order, cost)
    count = sum(batch.sha256 == sha256 for batch in ledger.read().batches)
    pack = f"file-{digest([sha256, service, model, count], size=10)}"
    path = ledger.folder / pack / REQUESTS
    call = _bare_call(full_name(service, model))
    route.endpoint_of(call)
    write_whole(path, [route.line(line.id, body_of(line), call) for line in lines])
    size = path.stat().st_size
    if len(lines) > route.limits.requests or size > route.limits.size_bytes:
        raise UsageError(
            f"{len(lines):,} requests of {size:,} bytes are too many for one batch of `{service}`",
            where=str(order.path),
            fix=f"create files with `--batch-size`; the most are {route.limits.requests:,} requests "
            f"and {route.limits.size_bytes:,} bytes",
        )
    batch = Batch(
        provider=service,
        model=model,
        created=now(),
        status="uploading",
        description=order.description,
        input=str(order.path),
        requests=len(lines),
        sha256=sha256,
        pack=pack,
        ceiling_usd=cost.ceiling_usd,
    )
    return ledger.note(batch)


async def _sent(batch: Batch, *, ledger: Ledger, route: BatchRoute, clock: Clock) -> Batch:
    """From where it stands to a batch at the provider."""
    path = ledger.folder / batch.pack / REQUESTS
    pack = PackFile(
        id=batch.pack,
        model=full_name(batch.provider, batch.model),
        path=path,
        requests=batch.requests or 0,
        size_bytes=path.stat().st_size,
    )
    is_new = batch.status == "uploading"
    if is_new:
        handle = await patiently(lambda: route.upload(pack), clock)
        batch = ledger.note(batch, uploaded=handle, status="submitting")
        batch_id = await _created(batch, pack, route, clock)
    else:
        batch_id = await _found(batch, pack, route, clock)
        if not batch_id:
            batch_id = await _created(batch, pack, route, clock)
    return ledger.note(batch, "created", batch_id=batch_id, status="pending")


async def _created(batch: Batch, pack: PackFile, route: BatchRoute, clock: Clock) -> str:
    """Make the batch. A reply that was lost is made good by looking for what it would have named."""
    why = ""
    for _ in range(_CREATIONS):
        try:
            return await patiently(lambda: route.create(pack, batch.uploaded), clock, may_repeat=False)
        except CallError as error:
            if error.billed == "no":
                raise
            found, why = await _found(batch, pack, route, clock), str(error)
        if found:
            return found
        if route.anchor == "none":
            break
    raise _in_doubt(batch, why)


async def _found(batch: Batch, pack: PackFile, route: BatchRoute, clock: Clock) -> str:
    """The batch that an earlier attempt made; empty if none is found, however often one looks."""
    for wait_s in _LOOKS_S:
        await clock.sleep(wait_s)
        ids = await patiently(lambda: route.find(pack, batch.uploaded), clock)
        if ids and route.anchor != "none":
            return ids[0]
        if ids:
            raise _in_doubt(batch, f"one of these may be it: {', '.join(ids[:5])}")
    return ""


def _in_doubt(batch: Batch, why: str) -> Unavailable:
    error = Unavailable(
        f"nobody knows whether the batch of `{batch.input}` was made: {why}", billed="unknown"
    )
    error.where = batch.pack
    error.fix = (
        "run the same command again to look for it; say `--adopt ID` if one of the account's batches is it, "
        "or `--again` to send it once more"
    )
    return error


def _check_budget(order: Order, cost: Estimate) -> None:
    if order.budget_usd is None:
        return
    if cost.ceiling_usd is None:
        raise UsageError(
            f"nobody knows what this batch could cost at most: {cost.why_unknown}",
            where=str(order.path),
            fix="create it with `--max-tokens`, or leave out `--budget`",
        )
    if cost.ceiling_usd > order.budget_usd:
        raise UsageError(
            f"this batch could cost {cost.ceiling_usd:.4f} USD, more than {order.budget_usd}",
            where=str(order.path),
            fix="ask fewer questions, set a lower `--max-tokens`, or raise `--budget`",
        )


def _bare_call(model: str) -> Call:
    """What an adapter wants beside a body that is there already."""
    request = Request(model=model, messages=(), max_tokens=1)
    return Call(trial="", condition="", address="", party="", purpose="", turn=0, request=request, key=b"")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
