"""Names that follow from content: conditions, trials, calls and texts.

I1. An id depends on what it names and on nothing else: not on the order of levels or factors in the file.
I2. Ids start with a letter, use [a-z0-9_-], and fit, with trial, fork, call and attempt suffix, into 57 characters:
    a provider's `custom_id` has 64, and seven are left for a tag of the study.
I3. Two different things never share an id: 60 bits of hash tell conditions apart, the readable part is only for
    people.
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

ID_LIMIT = 64
_SLUG_LIMIT = 10
_HASH_CHARS = 12
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_CALL_SUFFIX_LIMIT = 13
REPLICATE_LIMIT = 9_999_999


def canonical(value: object) -> bytes:
    """The one byte string for a JSON-like value: keys sorted, no spaces."""
    return msgspec.json.encode(value, order="deterministic")


def digest(value: object, *, size: int = 16) -> str:
    """Hex digest of a JSON-like value."""
    return hashlib.blake2b(canonical(value), digest_size=size).hexdigest()


def text_hash(text: str | bytes) -> str:
    """The name under which a text is stored once."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def condition_id(levels: Mapping[str, str]) -> str:
    """Id of the condition that has these level labels, by factor."""
    in_order = sorted(levels.items())
    slug = _slug("-".join(label for _, label in in_order)) or "all"
    return f"{slug}-{_base32(canonical(in_order))}"


def trial_id(condition: str, replicate: int, *, fork: str = "") -> str:
    """Id of one replicate of a condition; a fork adds its own short tag."""
    if not 0 <= replicate <= REPLICATE_LIMIT:
        raise ValueError(f"replicate {replicate} is outside 0..{REPLICATE_LIMIT}")
    return f"{condition}-r{replicate}" + (f"-{fork}" if fork else "")


def fork_tag(source: str, turn: int, overrides: Mapping[str, object]) -> str:
    """Short tag of a fork, from what makes it different."""
    return "f" + _base32(canonical([source, turn, overrides]))[:5]


def judging_id(rubric: str, *, told: object) -> str:
    """Id of a judging pass: the rubric's name, for people, and a mark of everything that raters are told."""
    return f"{_slug(rubric) or 'rubric'}-{_base32(canonical(told))[:7]}"


def judge_id(source: str, judging: str, model: str, repeat: int, generation: int) -> str:
    """Id of the trial in which a model rates another trial once. It tells nothing about the other one."""
    return f"judge-{_base32(canonical([source, judging, model, repeat, generation]))}"


def mask_of(key: bytes, *names: str | int) -> str:
    """A name that tells nothing, the same for every rater."""
    return "u" + _base32(canonical([key.hex(), *names]))[:9]


def call_id(trial: str, address: str, attempt: int = 1) -> str:
    """Id of one attempt of the call at an address of a trial, fit for a provider's `custom_id`."""
    suffix = "c" + address.replace(".", "-")
    if len(suffix) > _CALL_SUFFIX_LIMIT:
        suffix = "h" + _base32(address.encode())
    return f"{trial}-{suffix}" + (f"-a{attempt}" if attempt > 1 else "")


def custom_id(call: str, tag: str) -> str:
    """What a provider's batch calls a request: the call's id with the tag of its study behind it."""
    return f"{call}-{tag}"


def study_tag(name: str, seed: int) -> str:
    """Short tag of a study, so that two studies with equal conditions never mistake each other's results for theirs."""
    return "s" + _base32(canonical([name, seed]))[:5]


def place_of(address: str) -> tuple[int, ...]:
    """An address as numbers, so that addresses sort in the order of the procedure's code."""
    return tuple(int(part) for part in address.split(".") if part.isdigit())


def _slug(text: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    plain = plain.lstrip("0123456789-")
    return plain[:_SLUG_LIMIT].strip("-")


def _base32(data: bytes) -> str:
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
    return "".join(_ALPHABET[(number >> (5 * i)) & 31] for i in range(_HASH_CHARS))
