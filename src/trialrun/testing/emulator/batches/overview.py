"""Everything about batches at one look, for tests and for people."""

from trialrun.core.ports import Clock
from trialrun.testing.emulator.batches.door import Door
from trialrun.testing.emulator.batches.job import Job


def overview(door: Door, clock: Clock) -> dict[str, object]:
    """Batches and files in the order of their creation, and how often each step was asked for."""
    now = clock.now()
    return {
        "now": now,
        "batches": [_told(job, now) for job in door.queue],
        "files": [
            {
                "id": stored.id,
                "provider": stored.provider,
                "name": stored.name,
                "purpose": stored.purpose,
                "size": stored.size,
                "fetched": stored.fetched,
            }
            for stored in door.files
        ],
        "asked": {f"{provider} {step}": count for (provider, step), count in sorted(door.visits.items())},
    }


def _told(job: Job, now: float) -> dict[str, object]:
    stands = job.standing(now)
    return {
        "id": job.id,
        "number": job.number,
        "provider": job.provider,
        "key": job.key,
        "model": job.model,
        "rule": job.rule.title if job.rule else "",
        "phase": stands.phase,
        "ending": stands.ending,
        "requests": len(job.lines),
        "done": job.done,
        "succeeded": job.succeeded,
        "failed": job.failed,
        "input": job.input_id,
    }
