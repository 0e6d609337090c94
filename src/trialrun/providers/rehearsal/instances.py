"""Builds a value that fits a JSON Schema and reads as if somebody had meant it.

Property names guide the content: a `reason` becomes a sentence about what was said, a `name` a name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import cast

from trialrun.providers.rehearsal import schemas
from trialrun.providers.rehearsal.dice import Dice
from trialrun.providers.rehearsal.lexicon import WORDS
from trialrun.providers.rehearsal.patterns import Unsupported, text_matching
from trialrun.providers.rehearsal.roles import length_in, may_ask_for_length
from trialrun.providers.rehearsal.schemas import Schema, Unsatisfiable
from trialrun.providers.rehearsal.stances import is_heard
from trialrun.providers.rehearsal.values import NUMERIC, integer, is_prose, number, text

_TRIES = 12
_DEEP = 6
_RARE = ("abstain", "refus", "unsure", "unclear", "cannot", "unable", "error")
"""A field with such a name says that there is no answer; a rehearsed judge seldom has none."""
_SELDOM = 0.04
_FAULTS = ("issue", "problem", "violation")
"""A list with such a name is what somebody found wrong; mostly that is nothing."""
_FAULTLESS = 0.7
_TOO_DEEP = 40
_LETTERS_A_WORD = 7
_MOST_ITEMS = 1_000
_MOST_STEPS = 20_000
"""Schemas may ask for more than fits into any reply, or be hopeless in exponentially many ways."""
# In this order: what `allOf` adds may be one more of each of the others.
_WAYS = ("$ref", "anyOf", "oneOf", "if", "dependentSchemas", "allOf")
_HARD = (*_WAYS, "not", "contains", "patternProperties", "propertyNames")


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Builds instances of one schema document. `sentence` says something in the voice of the party, `more` goes on."""

    root: Schema
    dice: Dice
    sentence: Callable[[], str]
    more: Callable[[float], str] | None = None
    """About so many words that follow the first sentence of a text. Without it, and in lists, a sentence is all."""
    words: float = 0.0
    """Of all texts together."""
    heard: str = ""
    """The side that a judge heard; among choices that name it, it is mostly taken."""
    is_brief: bool = False
    """As little as the schema allows: for a reply that has to be short."""
    is_lenient: bool = False
    """The right shape, where what we know how to build cannot keep every rule."""
    indicators: str = ""
    """Lines that a description of a state ends with, where the text before had such."""
    steps: Iterator[int] = field(default_factory=count)

    def value(self, schema: object, name: str = "", depth: int = 0) -> object:
        """An instance of `schema`; raises Unsatisfiable when none is found."""
        rules = schemas.as_schema(schema)
        if rules is None or depth > _TOO_DEEP or next(self.steps) > _MOST_STEPS:
            raise Unsatisfiable(name)
        is_hard = any(keyword in rules for keyword in _HARD) and not self.is_lenient
        failure = Unsatisfiable(name)
        for attempt in range(_TRIES if is_hard or "enum" in rules else 1):
            try:
                plain = self._plain(rules, depth, attempt)
                value = self._simple(plain, name, depth)
            except Unsatisfiable as error:
                failure = error
                continue
            if not is_hard or schemas.fits(value, rules, self.root):
                return value
        raise failure

    def _plain(self, rules: Schema, depth: int, attempt: int) -> Schema:
        """The schema without references and branches: one way through it."""
        for _ in range(_TOO_DEEP):
            keyword = next((way for way in _WAYS if way in rules), None)
            if keyword is None:
                return rules
            rest: Schema = {key: value for key, value in rules.items() if key != keyword}
            match keyword:
                case "$ref":
                    branch = schemas.target_of(str(rules["$ref"]), self.root)
                    rules = schemas.merged(rest, self._mapping(branch))
                case "allOf":
                    for branch in schemas.parts(rules, "allOf"):
                        rest = schemas.merged(rest, self._mapping(branch))
                    rules = rest
                case "dependentSchemas":
                    for name, branch in schemas.named(rules, keyword).items():
                        if name in schemas.parts(rules, "required") or self.dice.happens(0.5):
                            rest = schemas.merged(rest, self._mapping(branch))
                    rules = rest
                case "if":
                    rules = self._with_condition(rest, rules["if"])
                case _:
                    branch = self._branch(schemas.parts(rules, keyword), depth, attempt)
                    rules = schemas.merged(rest, self._mapping(branch))
        raise Unsatisfiable("references go round in a circle")

    def _with_condition(self, rest: Schema, condition: object) -> Schema:
        both = {key: value for key, value in rest.items() if key not in ("then", "else")}
        if self.dice.happens(0.5):
            taken = schemas.merged(both, self._mapping(condition))
            return schemas.merged(taken, self._mapping(rest.get("then", True)))
        return schemas.merged(both, self._mapping(rest.get("else", True)))

    def _branch(self, branches: list[object], depth: int, attempt: int) -> object:
        """A branch by chance; deep down, or after failures, the simplest first."""
        if not branches:
            return True
        if depth >= _DEEP or self.is_brief:
            return sorted(branches, key=_weight)[attempt % len(branches)]
        full = [branch for branch in branches if (schemas.as_schema(branch) or {}).get("type") != "null"]
        return self.dice.pick(full if full and not self.dice.happens(0.15) else branches)

    def _mapping(self, schema: object) -> Schema:
        rules = schemas.as_schema(schema)
        if rules is None:
            raise Unsatisfiable("false")
        return rules

    def _simple(self, rules: Schema, name: str, depth: int) -> object:
        if "const" in rules:
            value = rules["const"]
            return self._checked(value, rules)
        if "enum" in rules:
            return self._checked(self._choice(schemas.parts(rules, "enum")), rules)
        match self._type(rules, depth):
            case "null":
                return None
            case "boolean":
                return self.dice.happens(_SELDOM if name.lower().startswith(_RARE) else 0.5)
            case "integer":
                return integer(rules, self.dice)
            case "number":
                return number(rules, name, self.dice)
            case "array":
                return self._list(rules, name, depth)
            case "object":
                return self._object(rules, depth)
            case _:
                said = text(
                    rules,
                    name,
                    self.dice,
                    self.sentence,
                    lambda: self._prose(rules),
                    is_brief=self.is_brief,
                    is_lenient=self.is_lenient,
                )
                whole = f"{said}\n\n{self.indicators}"
                is_state = (
                    self.indicators and name.endswith("state") and schemas.fits(whole, rules, self.root)
                )
                return whole if is_state else said

    def _prose(self, rules: Schema) -> str:
        """As many words as the field asks for, or its share of all."""
        said = self.sentence()
        if self.more is None or self.is_brief:
            return said
        words = self.words / max(1, self._texts(self.root))
        asked = str(rules.get("description", ""))
        if wish := length_in(asked) if may_ask_for_length(asked) else None:
            words = wish.words if wish.words is not None else words * wish.scale
        longest = schemas.count_of(rules, "maxLength")
        if longest is not None:
            words = min(words, longest / _LETTERS_A_WORD)
        rest = self.more(words - said.count(" ") - 1)
        return f"{said} {rest}" if rest else said

    def _texts(self, schema: object, name: str = "", depth: int = 0) -> int:
        """How many texts an instance has outside of lists."""
        rules = schemas.as_schema(schema)
        if rules is None or depth > _DEEP:
            return 0
        if "$ref" in rules:
            return self._texts(schemas.target_of(str(rules["$ref"]), self.root), name, depth + 1)
        properties = schemas.named(rules, "properties")
        if properties:
            return sum(self._texts(each, name, depth + 1) for name, each in properties.items())
        return int(is_prose(rules, name))

    def _choice(self, choices: list[object]) -> object:
        if self.heard in choices and is_heard(self.dice):
            return self.heard
        return self.dice.pick(choices or [None])

    def _checked(self, value: object, rules: Schema) -> object:
        if not self.is_lenient and not schemas.fits(value, rules, self.root):
            raise Unsatisfiable("the listed value is excluded elsewhere")
        return value

    def _type(self, rules: Schema, depth: int) -> str:
        kinds = schemas.types_of(rules) or _implied(rules)
        if depth >= _DEEP:
            simple = [kind for kind in kinds if kind not in ("array", "object")]
            if simple:
                return simple[0]
        full = [kind for kind in kinds if kind != "null"]
        if not full or (len(full) < len(kinds) and self.dice.happens(0.15)):
            return "null"
        return self.dice.pick(full)

    def _list(self, rules: Schema, name: str, depth: int) -> list[object]:
        least, most = schemas.count_of(rules, "minItems") or 0, schemas.count_of(rules, "maxItems")
        firsts = schemas.parts(rules, "prefixItems") or schemas.parts(rules, "items")
        rest = (
            rules.get("items", {})
            if not isinstance(rules.get("items"), list)
            else rules.get("additionalItems", {})
        )
        wanted = least
        if not self.is_brief and depth < _DEEP:
            wanted = (
                max(least, len(firsts), 1 + self.dice.below(3))
                if rest is not False
                else max(least, len(firsts))
            )
        if name.lower().startswith(_FAULTS) and self.dice.happens(_FAULTLESS):
            wanted = max(least, len(firsts))
        if most is not None:
            wanted = min(wanted, most)
        contained = schemas.count_of(rules, "minContains") if "minContains" in rules else 1
        wanted = max(wanted, contained or 0) if "contains" in rules else wanted
        if wanted > _MOST_ITEMS:
            raise Unsatisfiable("too many items")
        items = list[object]()
        for at in range(wanted):
            schema = firsts[at] if at < len(firsts) else rest
            if "contains" in rules and at >= len(firsts) and at < len(firsts) + (contained or 0):
                schema = {"allOf": [schema, rules["contains"]]}
            try:
                items.append(
                    self._item(schema, name, depth, items, is_unique=rules.get("uniqueItems") is True)
                )
            except Unsatisfiable:
                if len(items) < least:
                    raise
                break
        return items

    def _item(
        self, schema: object, name: str, depth: int, others: list[object], *, is_unique: bool
    ) -> object:
        writer = self if self.more is None else replace(self, more=None)
        for _ in range(_TRIES * 4 if is_unique else 1):
            item = writer.value(schema, name, depth + 1)
            if not is_unique or not any(schemas.equal(item, other) for other in others):
                return item
        if choices := schemas.parts(schemas.as_schema(schema) or {}, "enum"):
            for item in choices:
                if not any(schemas.equal(item, other) for other in others):
                    return item
        raise Unsatisfiable("no further distinct item")

    def _object(self, rules: Schema, depth: int) -> dict[str, object]:
        properties, patterns = schemas.named(rules, "properties"), schemas.named(rules, "patternProperties")
        required = [str(name) for name in schemas.parts(rules, "required")]
        least, most = schemas.count_of(rules, "minProperties") or 0, schemas.count_of(rules, "maxProperties")
        if least > _MOST_ITEMS:
            raise Unsatisfiable("too many properties")
        needed = schemas.named(rules, "dependentRequired")
        built = dict[str, object]()
        room = max(len(required), most if most is not None else len(properties) + least + len(required))
        optional = [name for name in properties if name not in required]
        for name in [name for name in properties if name in required] + [
            r for r in required if r not in properties
        ]:
            built[name] = self.value(self._property(name, rules, patterns), name, depth + 1)
        for name in optional:
            is_wanted = len(built) < least or (not self.is_brief and depth < _DEEP and self.dice.happens(0.8))
            follows = cast("list[str]", needed.get(name, []))
            if is_wanted and len(built) < room and all(other in built for other in follows):
                try:
                    built[name] = self.value(self._property(name, rules, patterns), name, depth + 1)
                except Unsatisfiable:
                    continue
        for name, follows in needed.items():
            if name in built:
                for other in cast("list[str]", follows):
                    if other not in built:
                        built[other] = self.value(self._property(other, rules, patterns), other, depth + 1)
        self._fill_up(built, least, rules, patterns, depth)
        return {name: built[name] for name in (*properties, *built) if name in built}

    def _fill_up(
        self, built: dict[str, object], least: int, rules: Schema, patterns: Mapping[str, object], depth: int
    ) -> None:
        """Add properties that nobody named, where a minimum asks for more."""
        for tried in range(least * 4 if rules.get("additionalProperties") is not False or patterns else 0):
            if len(built) >= least:
                return
            name = self._new_name(tried, rules, patterns)
            if name not in built:
                built[name] = self.value(self._property(name, rules, patterns), name, depth + 1)
        if len(built) < least:
            raise Unsatisfiable("not enough properties")

    def _new_name(self, number: int, rules: Schema, patterns: Mapping[str, object]) -> str:
        if "propertyNames" in rules:
            return str(
                self.value(schemas.merged({"type": "string"}, self._mapping(rules["propertyNames"])), "name")
            )
        if patterns and rules.get("additionalProperties") is False:
            try:
                return text_matching(self.dice.pick(list(patterns)), self.dice)
            except Unsupported as error:
                raise Unsatisfiable("patternProperties") from error
        return f"{self.dice.pick(WORDS['value'])}_{number + 1}"

    def _property(self, name: str, rules: Schema, patterns: Mapping[str, object]) -> object:
        """Everything that is asked of the property with this name."""
        properties = schemas.named(rules, "properties")
        asked = [properties[name]] if name in properties else []
        asked += [schema for pattern, schema in patterns.items() if re.search(pattern, name)]
        if not asked:
            asked = [rules.get("additionalProperties", {"type": "string"})]
        if len(asked) == 1:
            return {"type": "string"} if asked[0] is True else asked[0]
        return {"allOf": asked}


def _implied(rules: Schema) -> tuple[str, ...]:
    """The type that the other keywords are about."""
    for kind, keywords in (
        ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
        ("array", ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems")),
        ("string", ("pattern", "minLength", "maxLength", "format")),
        ("number", NUMERIC),
    ):
        if any(keyword in rules for keyword in keywords):
            return (kind,)
    return ("string",)


def _weight(schema: object) -> int:
    """How much a branch brings with it; the lightest ends a recursion."""
    rules = schemas.as_schema(schema)
    if rules is None:
        return 1_000_000
    kinds = schemas.types_of(rules)
    heavy = 1000 * ("$ref" in rules) + 100 * (
        "array" in kinds or "object" in kinds or (not kinds and "properties" in rules)
    )
    return heavy + 10 * len(schemas.parts(rules, "required")) + len(rules)
