"""What a rehearsed party answers to a request: a speech, one of the options it was given, or data that fit a schema."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import msgspec

from trialrun.core.calls import Call, Message
from trialrun.core.errors import RequestRefused
from trialrun.providers.rehearsal import stances
from trialrun.providers.rehearsal.choices import Options, may_offer, options_in, said_before
from trialrun.providers.rehearsal.dice import Dice
from trialrun.providers.rehearsal.hearing import aloud, number_in, topics_in
from trialrun.providers.rehearsal.indicators import moved
from trialrun.providers.rehearsal.instances import Writer
from trialrun.providers.rehearsal.roles import Length, Part, length_in, may_ask_for_length, part_of
from trialrun.providers.rehearsal.schemas import Unsatisfiable
from trialrun.providers.rehearsal.speech import further, reason, repertoire_of, sentence, speech

_KEEPS_ANSWER = 0.65
"""How often a party stays with its earlier answer when it is asked again."""
_AGREES_WITH_ITSELF = 0.8
"""How often a judge gives the same verdict on the same text: real judges are neither coins nor clocks."""
_KEY = re.compile(r"\"([A-Za-z_][\w ]{0,40})\"\s*:")


def answer_to(call: Call, dice: Dice, *, usual_words: float, room_bytes: int) -> str:
    """The full answer to the call; the caller cuts it at the limit."""
    messages = call.request.messages
    part, last, turns = _scene(call, messages)
    if part.role == "judge" and dice.happens(_AGREES_WITH_ITSELF):
        dice = Dice(hashlib.blake2b(last.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    spoken = aloud(last)
    topics = topics_in(spoken) if spoken else ()
    wish = (length_in(last) if may_ask_for_length(last) else None) or part.length
    words = _wished(wish, usual_words, part)
    if call.request.schema is not None:
        heard = stances.heard_in(last) if part.role == "judge" else ""
        indicators = moved(last, dice) if part.role == "narrator" else ""
        return _data(
            call.request.schema,
            part,
            dice,
            topics,
            # Draws of its own: however much is said about it, a judge's verdict is the same.
            aside=Dice(b"further" + call.key + call.request.fingerprint.encode()),
            words=words,
            room_bytes=room_bytes,
            heard=heard,
            indicators=indicators,
        )
    if (part.wants_json or "JSON" in last) and (keys := _keys_asked_for(messages)):
        return _by_example(keys, part, dice, topics)
    side = stances.side_of(messages, dice) if call.purpose == "answer" else ""
    if not side and (options := _options(messages, spoken)):
        return _choice(options, messages, part, dice, topics)
    number = number_in(spoken) if part.role in ("negotiator", "student") else None
    is_opening = not last.strip()
    said = speech(part, dice, topics=topics, number=number, words=words, turns=turns, is_opening=is_opening)
    return f"{side} {said}" if side else said


def _scene(call: Call, messages: Sequence[Message]) -> tuple[Part, str, int]:
    """The part, the last thing that somebody else said, and how often the party itself has spoken."""
    first = messages[0] if messages else Message("user", "")
    part = part_of(call.party, call.purpose, first.text)
    last = messages[-1].text if messages and messages[-1].role == "user" else ""
    return part, last, sum(message.role == "assistant" for message in messages)


def _wished(wish: Length | None, usual_words: float, part: Part) -> float:

    if wish is None:
        return usual_words * repertoire_of(part.role).length
    return (
        wish.words if wish.words is not None else usual_words * repertoire_of(part.role).length * wish.scale
    )


def _options(messages: Sequence[Message], last: str) -> Options | None:
    """The options of the last message, or of the question with which it all began when that one is pressed further."""
    options = options_in(last) if may_offer(last) else None
    if options or len(messages) < 3:
        return options
    question = next(message.text for message in messages if message.role == "user" or message is messages[-1])
    return (
        options_in(question)
        if may_offer(question) and _was_answered(options_in(question), messages)
        else None
    )


def _was_answered(options: Options | None, messages: Sequence[Message]) -> bool:
    return options is not None and bool(_earlier(options, messages))


def _earlier(options: Options, messages: Sequence[Message]) -> str | None:
    """The option that the party named when it last spoke."""
    spoken = next((message.text for message in reversed(messages) if message.role == "assistant"), "")
    return said_before(options, spoken) if spoken else None


def _choice(
    options: Options, messages: Sequence[Message], part: Part, dice: Dice, topics: Sequence[str]
) -> str:
    label = dice.pick(options.labels)
    earlier = _earlier(options, messages)
    if earlier is not None and dice.happens(_KEEPS_ANSWER):
        label = earlier
    if options.is_bare:
        return label
    return f"{label}. {reason(part.role, dice, topics)}"


def _data(
    schema: dict[str, object],
    part: Part,
    dice: Dice,
    topics: Sequence[str],
    *,
    aside: Dice,
    words: float,
    room_bytes: int,
    heard: str,
    indicators: str,
) -> str:
    """An instance as compact JSON: with texts as long as speeches, or a sentence each, or brief where that is too long,
    or of the right shape at least.
    """
    data, again = b"{}", dice.copy()
    for is_long, is_brief, is_lenient in (
        (True, False, False),
        (False, False, False),
        (False, True, False),
        (False, True, True),
    ):
        if not is_long and not is_brief:
            dice = again  # fewer words for the same verdict
        writer = Writer(
            root=schema,
            dice=dice,
            heard=heard,
            sentence=partial(sentence, part.role, dice, topics),
            more=partial(further, part.role, aside, topics) if is_long else None,
            words=words,
            is_brief=is_brief,
            is_lenient=is_lenient,
            indicators=indicators,
        )
        try:
            data = msgspec.json.encode(writer.value(schema))
        except Unsatisfiable:
            continue
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError, re.error) as error:
            raise RequestRefused(
                f"the schema cannot be read: {error} (rehearsed)",
                status=400,
                fix="check the JSON Schema of the request",
            ) from error
        if len(data) <= room_bytes or is_brief:
            break
    return data.decode()


def _keys_asked_for(messages: Sequence[Message]) -> Mapping[str, str]:
    """The keys of an example object in the prompt, each with what stands after it."""
    for message in (messages[-1], messages[0]):
        start = message.text.find("{")
        if start >= 0:
            found = list(_KEY.finditer(message.text, start))
            ends = [match.start() for match in found[1:]] + [len(message.text)]
            keys = {
                match[1]: message.text[match.end() : min(end, match.end() + 120)]
                for match, end in zip(found, ends, strict=True)
            }
            if keys:
                return keys
    return {}


def _by_example(keys: Mapping[str, str], part: Part, dice: Dice, topics: Sequence[str]) -> str:
    built = {key: _like(example.strip(), part, dice, topics) for key, example in keys.items()}
    return msgspec.json.encode(built).decode()


def _like(example: str, part: Part, dice: Dice, topics: Sequence[str]) -> object:
    """A value of the kind that stands in the example."""
    bare = example.lstrip("<\"' ")
    if re.match(r"-?\d+\.\d|float\b", bare):
        return round(dice.fraction(), 2)
    if re.match(r"-?\d|int(eger)?\b|number\b", bare):
        bounds = (
            [int(digits) for digits in re.findall(r"\d+", bare)[:2]]
            if re.match(r"\d+\s*(-|–|to)\s*\d", bare)
            else [1, 10]
        )
        return min(bounds) + dice.below(abs(bounds[-1] - bounds[0]) + 1)
    if re.match(r"(true|false|bool)", bare):
        return dice.happens(0.5)
    said = sentence(part.role, dice, topics)
    if example.startswith("["):
        return [said]
    if example.startswith("{"):
        return cast("dict[str, object]", {})
    choices = [choice.strip(" \"'<>}\n,") for choice in bare.split("|")]
    if len(choices) > 1 and all(0 < len(choice) <= 40 for choice in choices):
        return dice.pick(choices)
    return said
