"""What the commands call a provider, what the registry calls it, and how its lines are written."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from trialrun.core.errors import UsageError
from trialrun.core.near import pick

Form = Literal["openai", "anthropic", "gemini"]
"""The three ways in which a line of requests is written."""
SERVICES: Mapping[str, str] = MappingProxyType(
    {
        "openai": "openai",
        "claude": "anthropic",
        "anthropic": "anthropic",
        "gemini": "google",
        "google": "google",
        "vertex": "vertex",
        "deepinfra": "deepinfra",
        "groq": "groq",
        "mistral": "mistral",
        "together": "together",
        "xai": "xai",
    }
)
"""The word of a user -> the provider of the registry."""
_FORMS: Mapping[str, Form] = MappingProxyType(
    {"anthropic": "anthropic", "google": "gemini", "vertex": "gemini"}
)
_FAMILIES = (("gpt", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"), ("claude", "claude"))
_MODELS: Mapping[str, str] = MappingProxyType(
    {
        "claude-haiku-3.5": "claude-3-5-haiku-latest",
        "claude-opus-4": "claude-opus-4-0",
        "claude-sonnet-4": "claude-sonnet-4-0",
        "gemini-2-5-flash": "gemini-2.5-flash",
        "gemini-2-5-pro": "gemini-2.5-pro",
    }
)
"""Short names in use -> what the provider's API knows."""


def provider_of(service: str) -> str:
    """The registry's name of a service."""
    known = SERVICES.get(service.lower())
    if known is None:
        raise UsageError(f"there are no batches of `{service}`", fix=pick(service, SERVICES))
    return known


def form_of(service: str) -> Form:
    """How the lines of a service are written."""
    return _FORMS.get(provider_of(service), "openai")


def model_of(service: str, model: str) -> str:
    """The model as the provider's API knows it, without the provider."""
    head, slash, rest = model.partition("/")
    bare = rest if slash and SERVICES.get(head.lower()) == provider_of(service) else model
    return _MODELS.get(bare, bare)


def full_name(service: str, model: str) -> str:
    """`provider/model`, as prices and the registry take it."""
    return f"{provider_of(service)}/{model_of(service, model)}"


def service_for(model: str) -> str:
    """The service of a model that was named without one."""
    head, slash, _ = model.partition("/")
    if slash and head.lower() in SERVICES:
        return head.lower()
    if model.lower().startswith("gemini"):
        return "gemini"
    found = next((service for start, service in _FAMILIES if model.lower().startswith(start)), "")
    if not found:
        raise UsageError(f"whose model is `{model}`?", fix="say `--provider`, or write `provider/model`")
    return found
