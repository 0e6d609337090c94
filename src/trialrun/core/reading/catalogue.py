"""What a procedure tells the study file about itself: its settings, its parties, what its templates may name.

A built-in procedure exports one `ProcedureFacts`; the parser checks a file against it. A procedure from a file of the
user has none, and its settings are free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from trialrun.core.reading.objection import Objection

FIRST_PARTY = "<first party>"
"""Default of a setting of kind `party`: the party that the file names first. It is written into the study, because
the order of a map means nothing anywhere else."""

SettingKind = Literal[
    "any", "int", "number", "text", "flag", "texts", "party", "parties", "map", "list", "entry", "folder"
]
"""`text` may be a file (see the study file's reference); `party` is the name of one of the study's parties; `entry` is
a text or a map, as a file of entries holds them; `folder` is the name of a folder, whose files become a map of data
(`core.reading.folders`)."""

Data = Mapping[str, object]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingFacts:
    """One key under `settings`."""

    default: object = None
    """None: the setting is left out unless the file gives it."""
    kind: SettingKind = "any"
    help: str = ""
    choices: tuple[str | int | float | bool, ...] = ()
    """If not empty: the only values that are taken."""
    minimum: float | None = None
    maximum: float | None = None
    is_required: bool = False
    keys: "Mapping[str, SettingFacts]" = field(default_factory=lambda: MappingProxyType({}))
    """If not empty: the keys that a map here may have, and nothing else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodFacts:
    """One way in which a party may act, where its procedure offers several."""

    help: str = ""
    needs: Literal["", "model", "script"] = "model"
    """What the party must have to act in this way."""
    character: str = ""
    """The kind of character that it plays; empty: it plays none."""
    styles: tuple[str, ...] = ()
    calls: tuple[int, int] = (1, 1)
    """Fewest and most calls for one utterance, repairs of replies that do not fit their schema aside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyFacts:
    """Who takes part in a procedure."""

    minimum: int = 0
    maximum: int | None = None
    required: tuple[str, ...] = ()
    """Names that must be there, spelled exactly so."""
    methods: Mapping[str, Mapping[str, MethodFacts]] = field(default_factory=lambda: MappingProxyType({}))
    """Party → the methods that it may have, by name; a party that is not here has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What the settings of one study say about the rest of it, where they say much: a scenario names its actors."""

    parties: Mapping[str, Data] = field(default_factory=lambda: MappingProxyType({}))
    """Parties that they describe. What the study file itself says of a party goes before, key by key."""
    measures: tuple[str, ...] = ()
    """What is measured because of them; the study's measures, if it names none."""
    better: Mapping[str, Better] = field(default_factory=lambda: MappingProxyType({}))
    """Measures of which it is known which end is the good one."""
    objections: tuple[Objection, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcedureFacts:
    """What the parser has to know about one procedure."""

    help: str = ""
    settings: Mapping[str, SettingFacts] = field(default_factory=lambda: MappingProxyType({}))
    parties: PartyFacts = field(default_factory=PartyFacts)
    variables: tuple[str, ...] = ()
    """What templates may name beside the party's own values, because the procedure fills it in."""
    measures: tuple[str, ...] = ()
    """Measures that the procedure itself records; `*.name` once per party."""
    notice: str = ""
    """What every output of such a study says, unless the study says something of its own."""
    contents: Callable[[Data], Contents] | None = None
    """Reads the part of a study that reaches a trial, for procedures whose settings describe parties and measures."""
    are_settings_free: bool = False
    """True for a procedure that nobody described: any setting is taken as it is."""


UNDESCRIBED = ProcedureFacts(are_settings_free=True)
"""What is known about a procedure from a file of the user."""
