"""When a batch changes its state, and how much of it is done: a pure function of its times and the clock.

C1. Nothing happens by itself: course, cancellation and time give the standing, whoever asks and however often.
C2. What is done never gets less, and what ended stays as it ended.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from trialrun.core import chance
from trialrun.testing.emulator.script import Batches, Rule

Phase = Literal["validating", "queued", "running", "paused", "finishing", "cancelling", "ended"]
Ending = Literal["completed", "rejected", "failed", "expired", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """The moments of a batch that nobody disturbs, in seconds since 1970."""

    created_at: float
    validated_at: float
    started_at: float
    running_s: float
    """What the work takes without a pause."""
    finalizing_s: float
    cancelling_s: float
    expires_at: float
    promised_at: float
    """When it will expire, as its provider tells."""
    pause_s: float = 0.0
    """In the middle of the work."""
    most: float = 1.0
    """The part of the work after which nothing goes on."""
    ending: Ending = "completed"
    hears_cancel: bool = True

    @property
    def worked_at(self) -> float:
        """When all is done; never, if the work stops before."""
        return self.started_at + self.running_s + self.pause_s if self.most >= 1 else inf

    @property
    def paused_at(self) -> float:
        return self.started_at + self.running_s / 2

    def done(self, at: float) -> float:
        """The part of the work that is done by then."""
        if at < self.started_at:
            return 0.0
        if at >= self.worked_at:
            return 1.0
        paused = min(max(0.0, at - self.paused_at), self.pause_s)
        worked = (at - self.started_at - paused) / self.running_s if self.running_s else 1.0
        return min(worked, self.most)

    def moment(self, part: float) -> float:
        """When this part of the work was done."""
        return self.started_at + self.running_s * part + (self.pause_s if part > 0.5 else 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a batch stands."""

    phase: Phase
    done: float
    ended_at: float
    """When it ends or ended, as things stand."""
    ending: Ending | None = None
    """How it ended; None while it has not."""


def standing(course: Course, now: float, cancelled_at: float | None = None) -> Standing:
    """Where a batch stands that was told to stop at this moment, if ever."""
    ended_at, ending, stops_at = _end(course)
    is_cancelling = cancelled_at is not None and cancelled_at < ended_at
    if is_cancelling and cancelled_at is not None and course.hears_cancel and cancelled_at < course.worked_at:
        ended_at, ending, stops_at = cancelled_at + course.cancelling_s, "cancelled", cancelled_at
    done = course.done(min(now, stops_at))
    if now >= ended_at:
        return Standing(phase="ended", done=done, ended_at=ended_at, ending=ending)
    phase = "cancelling" if is_cancelling else _phase(course, now)
    return Standing(phase=phase, done=done, ended_at=ended_at)


def _end(course: Course) -> tuple[float, Ending, float]:
    """When and how it ends if nobody stops it, and when its work stops."""
    if course.ending == "rejected":
        return course.validated_at, "rejected", -inf
    if course.worked_at <= course.expires_at:
        return course.worked_at + course.finalizing_s, course.ending, inf
    return course.expires_at, "expired", course.expires_at


def _phase(course: Course, now: float) -> Phase:
    if now < course.validated_at:
        return "validating"
    if now < course.started_at:
        return "queued"
    if now >= course.worked_at:
        return "finishing"
    is_paused = course.paused_at <= now < course.paused_at + course.pause_s
    return "paused" if is_paused else "running"


def drawn(settings: Batches, *, created_at: float, expires_s: float, requests: int, key: bytes) -> Course:
    """A course by the script's times, each a little longer or shorter by chance."""

    def about(seconds: float, name: str) -> float:
        return seconds * (1 + settings.jitter * (2 * chance.fraction(chance.derive(key, name)) - 1))

    validated_at = created_at + about(settings.validating_s, "validating")
    return Course(
        created_at=created_at,
        validated_at=validated_at,
        started_at=validated_at + about(settings.queued_s, "queued"),
        running_s=about(settings.running_s + settings.per_request_s * requests, "running"),
        finalizing_s=about(settings.finalizing_s, "finalizing"),
        cancelling_s=about(settings.cancelling_s, "cancelling"),
        expires_at=created_at + expires_s,
        promised_at=created_at + expires_s,
    )


def bent(course: Course, rule: Rule | None, *, can_fail: bool = True) -> Course:
    """The course as the script's rule for this batch wants it."""
    match rule and rule.fault:
        case "invalid" | "enqueued":
            return replace(course, ending="rejected")
        case "stuck":
            return replace(course, started_at=inf)
        case "slow":
            assert rule
            return replace(course, started_at=course.started_at + rule.seconds)
        case "stalled":
            assert rule
            return replace(course, most=min(rule.keep, 1 - 1e-9))
        case "expired":
            assert rule
            keep = min(rule.keep, 1 - 1e-9)
            early = (course.validated_at + course.started_at) / 2
            return replace(course, most=keep, expires_at=course.moment(keep) if keep else early)
        case "failed" | "forbidden_output" if can_fail:
            return replace(course, ending="failed")
        case "late_cancel":
            return replace(course, hears_cancel=False)
        case "paused":
            assert rule
            return replace(course, pause_s=rule.seconds)
        case _:
            return course
