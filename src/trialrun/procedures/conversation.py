"""Two parties talk in turns: a model, a human or a script on either side.

A turn is one utterance of each. The talk ends after `max_turns`, when a party says one of the `end_words` (as its
whole utterance or its last line, never as a part of a sentence), or when a script has no line left; the reason is
part of the outcome.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from trialrun.core.calls import Message, Reply
from trialrun.core.ports import Lab, Outcome
from trialrun.core.reading.catalogue import FIRST_PARTY, PartyFacts, ProcedureFacts, SettingFacts
from trialrun.core.study import Party, Trial
from trialrun.procedures.judging import judge_all

FACTS = ProcedureFacts(
    help="Two parties talk in turns; judges look at the whole talk at the end.",
    settings={
        "max_turns": SettingFacts(
            default=10, kind="int", minimum=1, help="A turn is one utterance of each party."
        ),
        "first": SettingFacts(
            default=FIRST_PARTY,
            kind="party",
            help="Who speaks first; the first party of the file if not given.",
        ),
        "opening": SettingFacts(
            default="The conversation begins. You speak first.",
            kind="text",
            help="What the first speaker is told to begin with; not part of the transcript.",
        ),
        "end_words": SettingFacts(
            default=["[END]"],
            kind="texts",
            help="A party that says one of these alone, or as its last line, ends it.",
        ),
        "remind_turns": SettingFacts(
            default=0,
            kind="int",
            minimum=0,
            help="In so many last turns the first speaker is told how many are left.",
        ),
    },
    parties=PartyFacts(minimum=2, maximum=2),
    variables=("partner", "max_turns"),
)
VERSION = "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Two parties alternate."""

    async def run(self, trial: Trial, lab: Lab) -> Outcome:
        settings = trial.settings
        first, second = _order(trial.parties, settings.get("first"))
        end_words = tuple(cast(Sequence[str], settings["end_words"]))
        max_turns = cast(int, settings["max_turns"])
        remind = cast(int, settings["remind_turns"])
        end_reason = "max_turns"
        while end_reason == "max_turns" and lab.turn < max_turns:
            async with lab.next_turn() as turn:
                left = max_turns - turn + 1
                note = f"\n\n(Turns left, this one included: {left}.)" if left <= remind else ""
                opening = str(settings["opening"])
                for speaker, partner, hint in ((first, second, note), (second, first, "")):
                    # Rendered anew in each turn: a fork changes a party from its turn on.
                    system = lab.render(speaker.name, partner=partner.name, max_turns=max_turns)
                    ended = await _speak(
                        lab, speaker, system=system, opening=opening, hint=hint, end_words=end_words
                    )
                    if ended:
                        end_reason = ended
                        break
        await judge_all(lab, trial.judges)
        return Outcome(values={"turns": lab.turn}, end_reason=end_reason)


async def _speak(
    lab: Lab, speaker: Party, *, system: str, opening: str, hint: str, end_words: tuple[str, ...]
) -> str:
    """One utterance. Returns why the conversation ends, or an empty text."""
    said: str | Reply
    if speaker.kind == "script":
        spoken = sum(utterance.party == speaker.name for utterance in lab.transcript)
        if spoken == len(speaker.lines):
            return f"script_ended:{speaker.name}"
        said = speaker.lines[spoken]
    elif speaker.kind == "human":
        heard = lab.transcript[-1].text if lab.transcript else opening
        said = await lab.ask_human(heard + hint, party=speaker.name)
    else:
        said = await lab.ask(speaker.name, _messages(lab, speaker.name, opening, hint), system=system)
    words, is_end = without_end(str(said), end_words)
    if words:
        lab.say(speaker.name, said if words == str(said) else words)
    return f"ended_by:{speaker.name}" if is_end else ""


def _messages(lab: Lab, party: str, opening: str, hint: str) -> list[Message]:
    """What the party has heard, beginning and ending with somebody else's words, as every provider wants it."""
    messages = lab.heard_by(party)
    if not messages or messages[0].role == "assistant":
        messages.insert(0, Message("user", opening))
    if hint:
        messages[-1] = Message("user", messages[-1].text + hint)
    return messages


def without_end(text: str, end_words: tuple[str, ...]) -> tuple[str, bool]:
    """The utterance without an end word that stands alone in its last line, and whether there was one."""
    lines = text.strip().splitlines()
    if lines and lines[-1].strip() in end_words:
        return "\n".join(lines[:-1]).strip(), True
    return text, False


def _order(parties: Mapping[str, Party], first: object) -> tuple[Party, Party]:
    names = list(parties)
    if first is not None:
        names.sort(key=lambda name: name != first)
    return parties[names[0]], parties[names[1]]
