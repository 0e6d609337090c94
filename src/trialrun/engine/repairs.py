"""The one further call that a structured reply gets when it cannot be used: it shows the model what was wrong.

A repair is a call like any other: held, paced, settled and recorded, at an address of its own below that of the call
that it repairs, with the purpose `repair`. It follows from what is recorded, so a replay comes to the same.
"""

import msgspec

from trialrun.core.calls import Message, Request

PURPOSE = "repair"
_SUFFIX = ".r"


def repair_address(address: str) -> str:
    """Where the repair of the call at an address stands."""
    return address + _SUFFIX


def repair_of(request: Request, text: str, problem: str) -> Request:
    """The request with its unusable answer, and why it is that."""
    said = (
        Message("assistant", text.strip() or "(no answer)"),
        Message(
            "user",
            f"Your answer could not be used: {problem}\n\n"
            "Answer again, in full, with JSON that fits the schema, and write nothing before or after it.",
        ),
    )
    return msgspec.structs.replace(request, messages=(*request.messages, *said))
