"""From the live adapter of an account to its batches, and why some providers have none."""

from collections.abc import Mapping
from types import MappingProxyType

from trialrun.core.batches import BatchRoute
from trialrun.core.errors import UsageError
from trialrun.core.ports import Provider
from trialrun.providers.anthropic import Anthropic
from trialrun.providers.batches.anthropic import AnthropicBatches
from trialrun.providers.batches.gemini import GeminiBatches
from trialrun.providers.batches.mistral import MistralBatches
from trialrun.providers.batches.openai import OFFERS, OpenAIBatches
from trialrun.providers.batches.together import TogetherBatches
from trialrun.providers.batches.vertex import VertexBatches
from trialrun.providers.batches.xai import XaiBatches
from trialrun.providers.gemini import Gemini
from trialrun.providers.openai_chat import OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses
from trialrun.providers.vertex import Vertex

BUCKET = "VERTEX_BATCH_BUCKET"
STORAGE_URL = "VERTEX_STORAGE_BASE_URL"
WITHOUT: Mapping[str, str] = MappingProxyType(
    {
        "deepseek": "DeepSeek has no batch API",
        "fireworks": "the batches of Fireworks are jobs over datasets, which Trialrun does not speak",
        "goodfire": "Goodfire has no batch API",
        "llamacpp": "a server on this machine answers at once",
        "lmstudio": "a server on this machine answers at once",
        "local": "a model on this machine answers at once",
        "ollama": "a server on this machine answers at once",
        "openrouter": "the batches of OpenRouter have a shape of their own, which Trialrun does not speak",
        "rehearsal": "the rehearsal answers at once",
        "vllm": "a server on this machine answers at once",
    }
)
"""Providers that take no batches here, and why."""


def batch_route(name: str, account: Provider, model: str, settings: Mapping[str, str]) -> BatchRoute:
    """The batches of this account; raises UsageError, with the fix, if there are none."""
    match account:
        case Vertex():
            return _vertex(account, model, settings)
        case Gemini():
            return GeminiBatches(account)
        case Anthropic():
            return AnthropicBatches(account)
        case OpenAIResponses():
            return OpenAIBatches(account, path="/v1/responses", offer=OFFERS.get(name))
        case OpenAIChat() if name == "mistral":
            return MistralBatches(account)
        case OpenAIChat() if name == "together":
            return TogetherBatches(account)
        case OpenAIChat() if name == "xai":
            return XaiBatches(account)
        case OpenAIChat():
            return OpenAIBatches(account, offer=OFFERS.get(name))
        case _:
            raise without_batches(name, model)


def _vertex(account: Vertex, model: str, settings: Mapping[str, str]) -> BatchRoute:
    folder = settings.get(BUCKET, "").strip()
    if not folder:
        raise UsageError(
            "the batches of Vertex AI need a bucket",
            where=model,
            fix=f"set `{BUCKET}` to a place that Vertex AI and you may write to: `gs://bucket/prefix`",
        )
    return VertexBatches(account, folder=folder, storage_url=settings.get(STORAGE_URL, "").strip())


def without_batches(name: str, model: str) -> UsageError:
    """Why a provider's models are not for the batch lane."""
    return UsageError(
        f"`{name}` takes no batches: {WITHOUT.get(name, WITHOUT['rehearsal'])}",
        where=model,
        fix="run this study with `--lane live`, or use a model of another provider",
    )
