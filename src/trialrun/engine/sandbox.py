"""Fills prompts in: Jinja2 in its sandbox, with bounds on what a template can do and make.

The sandbox forbids access, not waste: without bounds `{{ 'x' * 10**10 }}` would take the machine's memory. It has no
chance of its own either: a replay must fill in the same words, so equal values give equal texts, and these are kept.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from trialrun.core.errors import ProcedureError

MOST_CHARACTERS = 2_000_000
_KEPT, _LONGEST_KEPT = 512, 20_000
"""So many texts that were filled in are kept, of at most so many characters."""


class _Bounded(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or (operator == "**" and (abs(left) > 1000 or abs(right) > 64)):
            raise TemplateError(f"`{operator}` works on (small) numbers only")
        return super().call_binop(context, operator, left, right)


def _environment() -> _Bounded:
    environment = _Bounded(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=False)
    for name in (
        "format",
        "center",
        "indent",
        "replace",
        "wordwrap",
        "xmlattr",
        "urlize",
        "pprint",
        "filesizeformat",
    ):
        environment.filters.pop(name, None)
    environment.filters["random"] = _no_chance
    environment.globals["lipsum"] = _no_chance
    return environment


def _no_chance(*_: object, **__: object) -> str:
    raise TemplateError(
        "a prompt cannot draw at random, as every replay would draw anew; make it a factor, or let a procedure draw "
        "with `lab.random()`"
    )


@lru_cache(maxsize=1)
def environment() -> _Bounded:
    """The one environment of the process."""
    return _environment()


@lru_cache(maxsize=512)
def _compiled(text: str) -> Template:
    template = environment().from_string(text)
    # Copied for every prompt: a plain dict in a tenth of the time of the chain of mappings that it is.
    template.globals = dict(template.globals)
    return template


_filled: dict[tuple[str, ...], str] = {}


def filled_in(text: str, values: Mapping[str, object], *, where: str) -> str:
    """The template with its values; ProcedureError if that cannot be, or grows too long."""
    key = _key(text, values)
    if key is None:
        return _filled_now(text, values, where)
    known = _filled.get(key)
    if known is None:
        known = _filled_now(text, values, where)
        if len(known) <= _LONGEST_KEPT:
            if len(_filled) >= _KEPT:
                _filled.clear()
            _filled[key] = known
    return known


def _key(text: str, values: Mapping[str, object]) -> tuple[str, ...] | None:
    """What the result depends on, if that is texts alone: 1, 1.0 and True are equal and not spelled alike."""
    key = [text]
    size = len(text)
    for name, value in values.items():
        if type(value) is not str:
            return None
        key += (name, value)
        size += len(value)
    return tuple(key) if size <= _LONGEST_KEPT else None


def _filled_now(text: str, values: Mapping[str, object], where: str) -> str:
    try:
        rendered: list[str] = []
        size = 0
        for piece in _compiled(text).generate(**values):
            size += len(piece)
            if size > MOST_CHARACTERS:
                raise ProcedureError(
                    f"the prompt of `{where}` is longer than {MOST_CHARACTERS:,} characters",
                    where=where,
                    fix="shorten it, or what is put into it",
                )
            rendered.append(piece)
        return "".join(rendered)
    except (TemplateError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ProcedureError(
            f"the prompt of `{where}` cannot be filled in: {error}",
            where=where,
            fix=f"give the value in `parties.{where}.values`, or correct the template",
        ) from error
