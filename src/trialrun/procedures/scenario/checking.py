"""Quality checks of a turn, by a model: does a decision fit its actor, does it use what the actor could not know, does
the world follow. Issues are counted and kept; whether they end the trial, the rules of the scenario say."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from trialrun.core.errors import CallError, ReplyUnreadable
from trialrun.core.ports import Lab
from trialrun.procedures.scenario import forms, prompts
from trialrun.procedures.scenario.files import Severity
from trialrun.procedures.scenario.stage import Stage, filled, texts
from trialrun.procedures.scenario.world import CHECKER, Actor, Check

_SYSTEM = (
    "You check the quality of a simulation. Name each real problem in one sentence; name none where there is none. "
    "Matters of taste are no problems."
)
_PER_ACTOR = ("actor_decision_consistency", "information_access_consistency")


@dataclass(frozen=True, kw_only=True, slots=True)
class Issue:
    """One problem that a check found."""

    turn: int
    check: str
    severity: Severity
    actor: str
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a check found, or why it could not be made."""

    issues: tuple[Issue, ...]
    note: str = ""


async def check(lab: Lab, stage: Stage) -> list[Issue]:
    """Make all checks of this turn side by side."""
    rules = stage.world.rules
    asked = [
        (each, actor)
        for each in rules.checks
        for actor in (stage.world.actors if each.id in _PER_ACTOR else (None,))
    ]
    results = await lab.together(*[_checked(stage, each, actor) for each, actor in asked])
    found = [issue for result in results for issue in result.issues]
    for (each, actor), result in zip(asked, results, strict=True):
        lab.state(
            CHECKER,
            check=each.id,
            actor=actor.name if actor else "",
            severity=each.severity,
            issues=[issue.text for issue in result.issues],
            note=result.note,
        )
    if rules.has_turn_reports and asked:
        name = f"validation-{stage.turn.number:03d}"
        _keep(lab, stage, name, f"Turn {stage.turn.number}", found)
    return found


def keep_summary(lab: Lab, stage: Stage, issues: list[Issue]) -> None:
    """The issues of the whole trial as one text."""
    if stage.world.rules.has_summary and stage.world.rules.checks:
        _keep(lab, stage, "validation-summary", "All turns", issues)


def halts(stage: Stage, found: list[Issue], so_far: int) -> bool:
    """Whether the scenario's rules end it here."""
    rules = stage.world.rules
    if rules.halts_on_critical and any(issue.severity == "high" for issue in found):
        return True
    return rules.most_issues is not None and so_far >= rules.most_issues


def _checked(stage: Stage, each: Check, actor: Actor | None) -> Callable[[Lab], Awaitable[Result]]:
    async def checked(lab: Lab) -> Result:
        asked = prompts.sections(*_evidence(stage, each, actor), ("The question", each.question))
        try:
            data = await filled(lab, CHECKER, asked, forms.ISSUES, f"check {each.id}", system=_SYSTEM)
        except (CallError, ReplyUnreadable) as error:
            return Result((), f"not checked: {type(error).__name__}: {error.what}")
        name = actor.name if actor else ""
        return Result(
            tuple(
                Issue(turn=stage.turn.number, check=each.id, severity=each.severity, actor=name, text=text)
                for text in texts(data["issues"])
            )
        )

    return checked


def _evidence(stage: Stage, each: Check, actor: Actor | None) -> list[tuple[str, str]]:
    """What a check may see. One about an actor sees what that actor saw, and what it decided."""
    turn, names = stage.turn, prompts.titles(stage.world)
    if actor is not None:
        decision = turn.decisions[actor.name]
        profile = prompts.actor_system(stage.world, actor)
        known = prompts.briefing(stage.world, stage.history, turn, actor)
        decided = f"Action: {decision.action}\nReasons: {decision.reasoning}"
        parts = [("The actor's instructions", profile), (f"What {actor.title} decided", decided)]
        return [*parts, ("What the actor knew", known)] if each.id != _PER_ACTOR[0] else parts
    actions = prompts.listed(f"{names[name]}: {d.action}" for name, d in sorted(turn.decisions.items()))
    return [
        ("The world before", stage.history.state),
        ("What happened by itself", prompts.listed(turn.events)),
        ("What was done", actions),
        ("The world after", turn.state),
    ]


def _keep(lab: Lab, stage: Stage, name: str, title: str, issues: list[Issue]) -> None:
    if stage.world.rules.form == "json":
        body = [
            {"turn": i.turn, "check": i.check, "severity": i.severity, "actor": i.actor, "issue": i.text}
            for i in issues
        ]
        lab.keep(f"{name}.json", msgspec.json.encode(body).decode(), media_type="application/json")
        return
    lines = [
        f"turn {i.turn}, {i.check}{f' of {i.actor}' if i.actor else ''} ({i.severity}): {i.text}"
        for i in issues
    ]
    lab.keep(
        f"{name}.md",
        f"# Quality: {title}\n\n{prompts.listed(lines) or 'No issues.'}\n",
        media_type="text/markdown",
    )
