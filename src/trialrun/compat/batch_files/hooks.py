"""What happens when a batch has ended: a command of the user's, or a message to an address.

A command gets what it needs as environment variables and on its input, never inside its words: nothing that a provider
says can become a part of it.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping

import msgspec

from trialrun.compat.batch_files.tracking import LONGEST_HOOK_S, Batch

_COMMAND_S = LONGEST_HOOK_S
_WEBHOOK_S = 30.0


def hook_name(kind: str, what: str) -> str:
    """A name for a hook that does not tell what is in it: addresses of webhooks are secrets."""
    return f"{kind}-{hashlib.sha256(what.encode()).hexdigest()[:12]}"


def told(batch: Batch) -> dict[str, object]:
    """The batch as a hook sees it."""
    return {
        "provider": batch.provider,
        "batch_id": batch.batch_id,
        "model": batch.model,
        "description": batch.description,
        "created": batch.created,
        "status": batch.status,
        "requests": batch.requests,
        "answered": batch.answered,
        "results": batch.results,
        "spent_usd": None if batch.spent_usd is None else str(batch.spent_usd),
    }


def run_command(command: str, batch: Batch) -> str:
    """Run a shell command for the batch. Returns what went wrong, or an empty text."""
    facts = told(batch)
    names = {f"BATCH_{name.removeprefix('batch_').upper()}": _plain(value) for name, value in facts.items()}
    try:
        ended = subprocess.run(  # noqa: S602  # the user's own command line, with nothing put into it
            command,
            shell=True,
            env={**_without_keys(os.environ), **names},
            input=msgspec.json.encode(facts),
            timeout=_COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the command did not end within {_COMMAND_S:.0f} s"
    return f"the command ended with code {ended.returncode}" if ended.returncode else ""


async def call_webhook(url: str, batch: Batch) -> str:
    """Post the batch as JSON to an address. Returns what went wrong, or an empty text."""
    import aiohttp

    try:
        timeout = aiohttp.ClientTimeout(total=_WEBHOOK_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, json=told(batch), allow_redirects=False) as answer,
        ):
            return "" if answer.status < 300 else f"the webhook answered {answer.status}"
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return f"the webhook was not reached: {type(error).__name__}"


def _plain(value: object) -> str:
    return "" if value is None else str(value)


def _without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Keys stay here."""
    return {
        name: value
        for name, value in environment.items()
        if not name.endswith(("_API_KEY", "_ACCESS_TOKEN", "_SECRET", "_TOKEN"))
    }
