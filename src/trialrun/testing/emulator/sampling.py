"""Refuses the settings that a model does not take, by the table of families that the adapters use."""

from typing import Literal

from trialrun.providers.quirks import family_of, settings_of
from trialrun.testing.emulator.asked import Asked, refused


def check_settings(asked: Asked, protocol: Literal["openai-chat", "openai-responses", "anthropic"]) -> None:
    """Raises Refusal for the first setting that the family of the model refuses."""
    dropped = settings_of(asked.request, family_of(protocol, asked.model)).dropped
    for name in dropped:
        value = {"temperature": asked.temperature, "top_p": asked.top_p}.get(name)
        if protocol == "anthropic":
            raise refused(f"{name}: not supported by this model", param=name)
        if value == 1:
            continue  # the default may be said
        if value is None:
            raise refused(
                f"Unsupported parameter: '{name}' is not supported with this model.",
                param=name,
                code="unsupported_parameter",
            )
        raise refused(
            f"Unsupported value: '{name}' does not support {value} with this model. "
            "Only the default (1) value is supported.",
            param=name,
            code="unsupported_value",
        )
