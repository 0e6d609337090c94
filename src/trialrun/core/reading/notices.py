"""The notice of a study: its own, or its procedure's, and what the characters that it plays call for."""

from collections.abc import Iterator, Mapping

from trialrun.core import paths
from trialrun.core.paths import as_map

Data = Mapping[str, object]
NOTICE = "notice"
"""Key of what people who read a talk should know before."""


def notice_of(document: Data) -> str:
    """What every output of this resolved study has to say."""
    found = [document.get(NOTICE), *_of_characters(document)]
    return " ".join(dict.fromkeys(str(text).strip() for text in found if text))


def _of_characters(document: Data) -> Iterator[object]:
    """The notices of all characters, in the order of their words: they do not depend on the order of levels."""
    parties = list((as_map(document.get("parties")) or {}).values())
    characters = [paths.get(party, ("character",)) for party in parties]
    for factor in (as_map(document.get("factors")) or {}).values():
        for sets in (as_map(paths.get(factor, ("levels",))) or {}).values():
            for dotted, value in (as_map(sets) or {}).items():
                is_character = dotted.startswith("parties.") and dotted.endswith(".character")
                characters.append(value if is_character else paths.get(value, ("character",)))
    notices = [paths.get(character, (NOTICE,)) for character in characters]
    return iter(sorted(str(notice) for notice in notices if notice))
