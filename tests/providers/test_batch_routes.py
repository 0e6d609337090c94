"""Which providers take batches, and what a study is told about those that do not."""

from collections.abc import Mapping

import pytest

from tests.providers.batch_far_end import call
from trialrun.core.errors import AuthRefused, UsageError
from trialrun.providers.batches.routes import WITHOUT
from trialrun.providers.registry import ENDPOINTS, Providers
from trialrun.testing.clock import ManualClock

SETTINGS: Mapping[str, str] = {
    **{name: "sk-1" for endpoint in ENDPOINTS.values() for name in endpoint.keys},
    "GOOGLE_CLOUD_PROJECT": "p-1",
    "VERTEX_ACCESS_TOKEN": "t",
    "VERTEX_BATCH_BUCKET": "gs://b/studies",
    "MYLAB_BASE_URL": "http://127.0.0.1:9/v1",
}


def providers(**changes: str) -> Providers:
    return Providers("live", settings={**SETTINGS, **changes}, clock=ManualClock())


@pytest.mark.parametrize("name", sorted({*ENDPOINTS, "local", "mylab", "rehearsal"}))
async def test_every_provider_takes_batches_or_says_why_not(name: str):
    made = providers()
    model = f"{name}/some-model"
    try:
        if name in WITHOUT:
            with pytest.raises(UsageError, match="takes no batches") as caught:
                made.batch_route_of(model)
            assert caught.value.where == model
            assert "--lane live" in caught.value.fix
        else:
            route = made.batch_route_of(model)
            assert route.provider is made.provider_of(model)
            assert route.endpoint_of(call(model=model))
            assert route.limits.requests >= 1000
    finally:
        await made.close()


async def test_a_rehearsal_takes_no_batches_and_a_missing_key_is_missing_here_too():
    rehearsing = Providers("rehearsal", settings={}, clock=ManualClock())
    with pytest.raises(UsageError, match="answers at once"):
        rehearsing.batch_route_of("openai/gpt-5-mini")
    with pytest.raises(AuthRefused):
        providers(OPENAI_API_KEY="").batch_route_of("openai/gpt-5-mini")
