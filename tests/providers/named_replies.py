"""What a reply of each named server looks like, as its own documentation and its users' reports show it."""

from typing import Any

Body = dict[str, Any]
TEXT = "A long pause, then: yes."
DATA = '{"score": 4}'


def whole(model: str, message: Body, usage: Body, *, choice: Body | None = None, **more: Any) -> Body:
    """A reply as they all begin it."""
    return {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": model,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                **(choice or {}),
                "message": {"role": "assistant", **message},
            }
        ],
        "usage": usage,
        **more,
    }


def counts(tokens_in: int, tokens_out: int, **more: Any) -> Body:
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        **more,
    }


def openrouter_reply(body: Body, text: str) -> Body:
    message = {
        "content": text,
        "refusal": None,
        "reasoning": "I should be brief.",
        "reasoning_details": [{"type": "reasoning.text", "text": "I should be brief.", "index": 0}],
    }
    usage = counts(
        60,
        20,
        prompt_tokens_details={"cached_tokens": 10, "cache_write_tokens": 5, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": 8, "image_tokens": 0},
        cost=0.00093215,
        is_byok=False,
        cost_details={"upstream_inference_cost": None, "upstream_inference_prompt_cost": 0.0004},
    )
    choice = {"logprobs": None, "native_finish_reason": "STOP"}
    return whole(body["model"], message, usage, choice=choice, provider="Cerebras", system_fingerprint=None)


def xai_reply(body: Body, text: str) -> Body:
    usage = counts(
        60,
        20,
        prompt_tokens_details={"text_tokens": 60, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 10},
        completion_tokens_details={"reasoning_tokens": 300, "accepted_prediction_tokens": 0},
        num_sources_used=0,
        cost_in_usd_ticks=37_756_000,
    )
    usage["total_tokens"] = 380  # reasoning stands beside the completion
    message = {"content": text, "reasoning_content": "Hm.", "refusal": None}
    return whole("grok-4-0709", message, usage, system_fingerprint="fp_84ff176447")


def mistral_reply(body: Body, text: str) -> Body:
    chunks = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "I should be brief."}]},
        {"type": "text", "text": text},
    ]
    return whole(body["model"], {"content": chunks, "tool_calls": None, "prefix": False}, counts(60, 20))


def groq_reply(body: Body, text: str) -> Body:
    usage = counts(60, 20, queue_time=0.051, prompt_time=0.004, completion_time=0.092, total_time=0.096)
    return whole(
        body["model"],
        {"content": text, "reasoning": "I should be brief."},
        usage,
        choice={"logprobs": None},
        usage_breakdown=None,
        system_fingerprint="fp_80501ff3a1",
        x_groq={"id": "req_01k8qpmkyzexq9x36pcf0nxkca"},
        service_tier="on_demand",
    )


def together_reply(body: Body, text: str) -> Body:
    message = {"content": text, "tool_calls": [], "reasoning": "I should be brief."}
    choice = {"finish_reason": "eos", "seed": 8_472_019_283, "logprobs": None}
    return whole(body["model"], message, counts(60, 20, cached_tokens=0), choice=choice, prompt=[])


def goodfire_reply(body: Body, text: str) -> Body:
    features = [{"label": "warmth", "index": 41_637, "activation": 3.25}]
    return whole(body["model"], {"content": text, "features": features}, counts(60, 20), nonce=7)


def ollama_reply(body: Body, text: str) -> Body:
    return whole(
        body["model"],
        {"content": text, "reasoning": "I should be brief."},
        counts(60, 20),
        system_fingerprint="fp_ollama",
    )


def vllm_reply(body: Body, text: str) -> Body:
    message = {
        "content": text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "tool_calls": [],
        "reasoning": "I should be brief.",
        "reasoning_content": "I should be brief.",
    }
    choice = {"logprobs": None, "stop_reason": None, "token_ids": None}
    nothing = dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "kv_transfer_params", "service_tier"))
    return whole(body["model"], message, counts(60, 20, prompt_tokens_details=None), choice=choice, **nothing)


def llamacpp_reply(body: Body, text: str) -> Body:
    timings = {"cache_n": 10, "prompt_n": 50, "prompt_ms": 31.5, "predicted_n": 20, "predicted_ms": 180.2}
    usage = counts(60, 20, prompt_tokens_details={"cached_tokens": 10})
    return whole(
        body["model"],
        {"content": text, "reasoning_content": "I should be brief."},
        usage,
        timings=timings,
        system_fingerprint="b11429-5c0eb5e",
    )


def lmstudio_reply(body: Body, text: str) -> Body:
    message = {"content": text, "reasoning_content": "", "tool_calls": []}
    more = {"stats": {}, "system_fingerprint": body["model"]}
    return whole(body["model"], message, counts(60, 20), choice={"logprobs": None}, **more)


def deepseek_reply(body: Body, text: str) -> Body:
    usage = counts(
        60,
        20,
        prompt_tokens_details={"cached_tokens": 10},
        completion_tokens_details={"reasoning_tokens": 8},
        prompt_cache_hit_tokens=10,
        prompt_cache_miss_tokens=50,
    )
    message = {"content": text, "reasoning_content": "I should be brief."}
    return whole(body["model"], message, usage, choice={"logprobs": None}, system_fingerprint="fp_3a5770e1b4")


def fireworks_reply(body: Body, text: str) -> Body:
    usage = counts(60, 20, prompt_tokens_details={"cached_tokens": 10})
    return whole(body["model"], {"content": text, "reasoning_content": "I should be brief."}, usage)


def deepinfra_reply(body: Body, text: str) -> Body:
    message = {"content": text, "reasoning_content": None, "name": None, "tool_calls": None}
    return whole(body["model"], message, counts(60, 20, estimated_cost=8.1e-05, prompt_tokens_details=None))
