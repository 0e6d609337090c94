"""Batches of all providers. No task runs in the background: what is due is done when somebody looks.

Q1. A line is billed when its turn has come by the clock, whether or not its result is ever fetched.
Q2. Who looks, when, and how often changes nothing: lines are answered in one order, each at its own moment.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from trialrun.core import chance
from trialrun.core.ports import Clock
from trialrun.testing.emulator.asked import Asked
from trialrun.testing.emulator.batches import work
from trialrun.testing.emulator.batches.course import Standing, bent, drawn
from trialrun.testing.emulator.batches.files import Files
from trialrun.testing.emulator.batches.job import Job
from trialrun.testing.emulator.batches.lines import Form, Lines, Problem, tokens_in
from trialrun.testing.emulator.batches.offers import Offer, offer_of
from trialrun.testing.emulator.desk import Desk
from trialrun.testing.emulator.faults import Faults
from trialrun.testing.emulator.script import Rule, Script, Step


class Queue:
    """All batches of all providers."""

    def __init__(self, desk: Desk, clock: Clock, files: Files) -> None:
        self._desk = desk
        self._clock = clock
        self.files = files
        self._jobs: dict[tuple[str, str, str], Job] = {}
        self._created: dict[str, int] = {}
        self._same: dict[bytes, int] = {}
        self.follow(desk.script)

    def follow(self, script: Script) -> None:
        """Begin this script; the batches that are there go on as they were going."""
        self.script = script
        self._faults = Faults(script.faults)
        self.seed = chance.derive(b"emulated batches", script.seed)

    def forget(self) -> None:
        """No batch and no file was ever there."""
        self._jobs.clear()
        self._created.clear()
        self._same.clear()
        self.files.clear()

    def pick(
        self,
        step: Step,
        *,
        provider: str,
        key: str,
        arrival: bytes,
        repeat: int,
        model: str = "",
        batch: int = 0,
    ) -> Rule | None:
        """What the script has in mind for a request about batches, or for a batch."""
        return self._faults.pick(
            Asked(provider=provider, model=model, messages=()),
            key=key,
            arrival=arrival,
            repeat=repeat,
            elapsed_s=self._desk.elapsed_s(self._clock.monotonic()),
            step=step,
            batch=batch,
        )

    # --- batches ---------------------------------------------------------------------------------------------------

    def create(
        self,
        *,
        provider: str,
        owner: str,
        key: str,
        path: str,
        model: str,
        form: Form,
        lines: Lines,
        prefix: str,
        given: object = None,
        input_id: str = "",
        problems: tuple[Problem, ...] = (),
        tokens: int = 0,
        kept_s: float | None = None,
        keep: Callable[[Job, Standing, float | None], None] | None = None,
        has_number: bool = False,
    ) -> Job:
        """A batch begins. With problems it will be rejected once it has been looked through.

        Its id begins with `prefix`, or is a number.
        """
        now, settings = self._clock.now(), self.script.batches
        same = chance.derive(self.seed, provider, lines.digest)
        repeat = self._same[same] = self._same.get(same, 0) + 1
        arrival = chance.derive(same, repeat)
        number = self._created[provider] = self._created.get(provider, 0) + 1
        rule = self.pick(
            "batch", provider=provider, key=key, arrival=arrival, repeat=repeat, model=model, batch=number
        )
        expires_s = offer_of(provider).window_s if settings.expires_s is None else settings.expires_s
        plain = drawn(settings, created_at=now, expires_s=expires_s, requests=len(lines), key=arrival)
        course = bent(plain, rule, can_fail=form.can_fail)
        if problems:
            course = replace(course, ending="rejected")
        numbers = range(len(lines))
        mixed = chance.permuted(len(lines), chance.derive(arrival, "order"))
        job = Job(
            id=str(int(arrival.hex()[:15], 16)) if has_number else f"{prefix}{arrival.hex()[:32]}",
            number=number,
            provider=provider,
            owner=owner,
            key=key,
            path=path,
            model=model,
            form=form,
            lines=lines,
            course=course,
            rule=rule,
            chance=arrival,
            order=iter(numbers) if settings.in_order else mixed,
            output=self.files.place(),
            errors=self.files.place(),
            given=given,
            input_id=input_id,
            problems=problems,
            tokens=tokens,
            keep=keep,
            kept_s=kept_s if settings.kept_s is None else settings.kept_s,
        )
        self._jobs[provider, owner, job.id] = job
        return job

    def find(self, provider: str, owner: str, id_: str) -> Job | None:
        return self._jobs.get((provider, owner, id_))

    def remove(self, job: Job) -> None:
        self._jobs.pop((job.provider, job.owner, job.id), None)

    def of(self, provider: str, owner: str) -> list[Job]:
        """The batches of an account, newest first."""
        found = [job for job in self._jobs.values() if (job.provider, job.owner) == (provider, owner)]
        return found[::-1]

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def enqueued_tokens(self, provider: str, key: str, model: str) -> int:
        """Input tokens of the batches that have not ended."""
        now = self._clock.now()
        return sum(
            job.tokens
            for job in self._jobs.values()
            if (job.provider, job.key, job.model) == (provider, key, model)
            and job.standing(now).phase != "ended"
        )

    def offer(self, provider: str) -> Offer:
        """What this provider takes in one batch, under this script."""
        offer, settings = offer_of(provider), self.script.batches
        return replace(
            offer,
            requests=settings.most_requests or offer.requests,
            size_bytes=settings.most_bytes or offer.size_bytes,
        )

    def room(self, lines: Lines, form: Form, *, provider: str, key: str, model: str) -> int | None:
        """The tokens that these requests will keep in the queue; None if there is no room for so many."""
        limit = self.script.batches.enqueued_tokens
        if limit is None:
            return 0
        tokens = tokens_in(lines, form, provider, model)
        return tokens if self.enqueued_tokens(provider, key, model) + tokens <= limit else None

    async def cancel(self, job: Job) -> None:
        """Stop a batch, if it has not ended. What is done stays done."""
        await self.settle(job)
        if job.cancelled_at is None and job.standing(self._clock.now()).phase != "ended":
            job.cancelled_at = self._clock.now()

    # --- work ------------------------------------------------------------------------------------------------------

    async def settle_all(self) -> None:
        """Do everything that is due."""
        for job in list(self._jobs.values()):
            await self.settle(job)

    async def settle(self, job: Job) -> Standing:
        """Do what is due of a batch, and say where it stands then."""
        async with job.lock:
            now = self._clock.now()
            stands = job.standing(now)
            if not job.is_closed:
                due = len(job.lines) if stands.done >= 1 else int(stands.done * len(job.lines) + 1e-9)
                if job.done < due or stands.phase == "ended":
                    await work.go_on(job, due, stands, self._desk)
                if stands.phase == "ended":
                    work.close(job, stands, self.files)
        return stands
