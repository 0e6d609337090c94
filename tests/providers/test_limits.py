"""Limits in the headers of every provider, in the one form that the pacer reads."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.table import call_of
from trialrun.core.calls import RawReply
from trialrun.core.errors import Throttled
from trialrun.gateway.allowance import Allowance, seconds
from trialrun.providers.keys import Keys
from trialrun.providers.limits import kept_headers, retry_after_s
from trialrun.providers.openai_chat import OpenAIChat


def in_seconds(span: float) -> str:
    return (datetime.now(tz=UTC) + timedelta(seconds=span)).isoformat().replace("+00:00", "Z")


def test_openai_is_kept_as_it_is_and_nothing_else_is_kept() -> None:
    headers = {
        "X-RateLimit-Remaining-Requests": "0",
        "x-ratelimit-reset-requests": "6m0s",
        "Retry-After": "3",
        "Set-Cookie": "__cf_bm=secret",
        "Authorization": "Bearer k",
        "Content-Type": "application/json",
    }
    assert kept_headers(headers) == {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "6m0s",
        "retry-after": "3",
        "content-type": "application/json",
    }


def test_anthropic_counts_in_three_ways_and_the_scarcest_stands_for_tokens() -> None:
    kept = kept_headers(
        {
            "anthropic-ratelimit-requests-limit": "1000",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": in_seconds(12),
            "anthropic-ratelimit-tokens-remaining": "96000",
            "anthropic-ratelimit-tokens-reset": in_seconds(1),
            "anthropic-ratelimit-input-tokens-remaining": "80000",
            "anthropic-ratelimit-output-tokens-limit": "16000",
            "anthropic-ratelimit-output-tokens-remaining": "10",
            "anthropic-ratelimit-output-tokens-reset": in_seconds(40),
        }
    )
    assert kept["x-ratelimit-remaining-requests"] == "0"
    assert kept["x-ratelimit-limit-requests"] == "1000"
    assert 11 <= seconds(kept["x-ratelimit-reset-requests"]) <= 12
    assert kept["x-ratelimit-remaining-tokens"] == "10"
    assert kept["x-ratelimit-limit-tokens"] == "16000"
    assert 39 <= seconds(kept["x-ratelimit-reset-tokens"]) <= 40


def test_openrouter_counts_requests_and_names_a_moment_in_milliseconds() -> None:
    kept = kept_headers({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int((time() + 20) * 1000))})
    assert kept["x-ratelimit-remaining-requests"] == "0"
    assert 18 <= seconds(kept["x-ratelimit-reset-requests"]) <= 20


@pytest.mark.parametrize("skew_s", [0, 1, -7200, 7200])
def test_a_moment_is_one_of_the_server_s_clock(skew_s: float) -> None:
    there = datetime.now(tz=UTC) + timedelta(seconds=skew_s)
    date = format_datetime(there, usegmt=True)
    moment = (there + timedelta(seconds=30)).isoformat().replace("+00:00", "Z")
    anthropic = kept_headers(
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": moment,
            "Date": date,
        }
    )
    millis = str(int((there.timestamp() + 30) * 1000))
    openrouter = kept_headers({"Date": date, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": millis})
    for kept in (anthropic, openrouter):
        assert 28 <= seconds(kept["x-ratelimit-reset-requests"]) <= 31.5


@pytest.mark.parametrize("skew_s", [0, 7200])
def test_a_window_that_is_used_up_shuts_the_lane_until_its_end(skew_s: float) -> None:
    there = time() + skew_s
    headers = {
        "Date": format_datetime(datetime.fromtimestamp(there, tz=UTC), usegmt=True),
        "X-RateLimit-Limit": "20",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(int((there + 40) * 1000)),
    }
    lane = Allowance(100.0)
    lane.succeeded(kept_headers(headers), 100.0, 101.0)
    wait = lane.enter(100, 101.0)
    assert wait is not None
    assert 38 <= wait <= 41.5, "all twenty come back together, not one after the other"
    refused = RawReply(body=b'{"error": {"message": "x"}}', status=429, headers=kept_headers(headers))
    with pytest.raises(Throttled) as caught:
        OpenAIChat("openrouter", base_url="http://x").checked(
            refused, call_of("plain", {"samples": "x/y"}), Keys()
        )
    assert caught.value.retry_after_s is not None
    assert 38 <= caught.value.retry_after_s <= 41.5


@pytest.mark.parametrize("moment", ["", "soon", "2026-13-01T00:00:00Z", "1e99"])
def test_a_moment_that_cannot_be_read_is_left_out(moment: str) -> None:
    kept = kept_headers(
        {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": moment}
    )
    assert kept["x-ratelimit-remaining-requests"] == "0"
    assert "x-ratelimit-reset-requests" not in kept


@pytest.mark.parametrize("skew_s", [0, 1, -7200, 7200])
def test_a_date_to_come_again_is_one_of_the_server_s_clock(skew_s: float) -> None:
    there = datetime.now(tz=UTC) + timedelta(seconds=skew_s)
    kept = kept_headers(
        {
            "Date": format_datetime(there, usegmt=True),
            "Retry-After": format_datetime(there + timedelta(seconds=30), usegmt=True),
        }
    )
    asked = retry_after_s(kept)
    assert asked is not None
    assert 28 <= asked <= 31.5


_NAMES = st.sampled_from(
    [
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-requests",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
        "retry-after",
        "retry-after-ms",
        "date",
    ]
)
_ODD = st.sampled_from(["\u00b2", "1.2.3", "nan", "-inf", "1e400", "9" * 5000, "99999-01-01", "\u0663"])


@given(st.dictionaries(_NAMES, st.text(max_size=20) | _ODD))
def test_no_header_breaks_the_reading_of_a_reply(headers: dict[str, str]) -> None:
    kept_headers(headers)
    retry_after_s(headers)
