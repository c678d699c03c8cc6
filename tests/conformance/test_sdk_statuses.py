"""Error statuses before the first byte: each becomes the SDK's own exception class, in every direction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import anthropic
import openai
import pytest
import pytest_asyncio

from conformance.rounds import DIALECTS
from conformance.served import RETRY_AFTER, Served, Upstream, everything_to, model_at, serving, speaking
from conformance.speaker import Ask, Speaker
from dragoman_server.config.provider import Auth
from dragoman_server.config.schema import Config

pytestmark = pytest.mark.asyncio(loop_scope="module")

ReportedError = tuple[int, str, str, str | None]
"""Status, exception, `type` and `code`."""

CLAUDE: dict[int, ReportedError] = {
    400: (400, "BadRequestError", "invalid_request_error", None),
    401: (401, "AuthenticationError", "authentication_error", None),
    402: (402, "PaymentRequiredError", "billing_error", None),
    403: (403, "PermissionDeniedError", "permission_error", None),
    404: (404, "NotFoundError", "not_found_error", None),
    413: (413, "ContentTooLargeError", "request_too_large", None),
    429: (429, "RateLimitError", "rate_limit_error", None),
    500: (500, "InternalServerError", "api_error", None),
    503: (529, "OverloadedError", "overloaded_error", None),
    529: (529, "OverloadedError", "overloaded_error", None),
}
"""Upstream status → what a Messages client is reported (mapping §10.2)."""

GPT: dict[int, ReportedError] = {
    400: (400, "BadRequestError", "invalid_request_error", None),
    401: (401, "AuthenticationError", "invalid_request_error", "invalid_api_key"),
    402: (402, "APIStatusError", "insufficient_quota", "insufficient_quota"),
    403: (403, "PermissionDeniedError", "permission_error", None),
    404: (404, "NotFoundError", "invalid_request_error", "model_not_found"),
    413: (413, "APIStatusError", "invalid_request_error", None),
    429: (429, "RateLimitError", "rate_limit_error", "rate_limit_exceeded"),
    500: (500, "InternalServerError", "server_error", None),
    503: (503, "InternalServerError", "service_unavailable_error", "server_is_overloaded"),
    529: (503, "InternalServerError", "service_unavailable_error", "server_is_overloaded"),
}
"""Upstream status → what a client of OpenAI's is reported (mapping §10.1)."""

OPENAIS: dict[int, ReportedError] = {
    402: (402, "APIStatusError", "insufficient_quota", "billing_not_active"),
    413: (413, "APIStatusError", "invalid_request_error", "request_too_large"),
}
"""Where an OpenAI upstream has a code that an Anthropic one has not: it is kept between OpenAI's two dialects."""

SPENT = (402, "APIStatusError", "billing_error", "billing_not_active")
"""The simulated OpenAI's own words, passed through; across, the type is the one that its SDKs know best."""

WAITS = (429, 503, 529)
KEYS = (401, 403)
"""Statuses about the key, which is the gateway's own unless it is passed through."""


def expected(client: str, upstream: str, status: int) -> ReportedError:
    """The exception of an SDK for an upstream's status about the client's own request and its own key."""
    if client == "messages":
        if (upstream, status) == ("messages", 503):
            # Anthropic sends no 503: what the simulator states then is passed through.
            return 503, "ServiceUnavailableError", "api_error", None
        return CLAUDE[status]
    noted = GPT[status] if upstream == "messages" else OPENAIS.get(status, GPT[status])
    if client == upstream:
        return SPENT if status == 402 else (status, *noted[1:])
    return noted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speakers(live: Served) -> AsyncIterator[dict[str, Speaker]]:
    async with speaking(live.url) as speakers:
        yield speakers


@pytest.mark.parametrize("status", CLAUDE)
@pytest.mark.parametrize("upstream", DIALECTS, ids=lambda upstream: f"over-{upstream}")
@pytest.mark.parametrize("client", DIALECTS)
async def test_each_sdk_sees_its_own_exceptions(
    live: Served, speakers: dict[str, Speaker], client: str, upstream: str, streamed: bool, status: int
) -> None:
    live.requests.clear()
    speaker, model = speakers[client], model_at(upstream, f"sim-error-{status}")
    received = await (speaker.stream(model, Ask()) if streamed else speaker.whole(model, Ask()))
    trouble = received.trouble
    assert trouble is not None
    noted = expected(client, upstream, status)
    if status in KEYS:
        type_and_code = ("api_error", None) if client == "messages" else ("server_error", "upstream_credential")
        noted = (502, "InternalServerError", *type_and_code)
    assert (trouble.status, trouble.raised, trouble.type, trouble.code) == noted
    assert (trouble.request_id or "").startswith("req_sim")
    assert (f"simulated-{upstream}" in trouble.message) == (status in KEYS)
    # T-78: without it Claude Code retries for ever.
    assert trouble.retry_after == (str(RETRY_AFTER) if status in WAITS else None)
    assert len(live.requests) == 1


@pytest.mark.parametrize("status", KEYS)
@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.parametrize("client", DIALECTS)
async def test_a_key_that_is_passed_through_is_the_clients(
    client: str, upstream: Upstream, streamed: bool, status: int
) -> None:
    config = everything_to(upstream, f"sim-error-{status}")
    theirs = {name: replace(provider, auth=Auth.PASSTHROUGH) for name, provider in config.providers.items()}
    async with serving(Config(theirs, config.routes)) as served, speaking(served.url) as speakers:
        received = await (speakers[client].stream("m", Ask()) if streamed else speakers[client].whole("m", Ask()))
    trouble = received.trouble
    assert trouble is not None
    assert (trouble.status, trouble.raised, trouble.type, trouble.code) == expected(client, upstream, status)


@pytest.mark.parametrize("upstream", ["chat", "responses"])
async def test_a_spent_quota_is_no_rate_limit(speakers: dict[str, Speaker], upstream: str) -> None:
    """Retrying would never help: 402 for Claude's clients; OpenAI's have a code for it."""
    model = model_at(upstream, "sim-error-429-quota")
    by_claude = (await speakers["messages"].stream(model, Ask())).trouble
    assert by_claude is not None
    assert (by_claude.raised, by_claude.type) == ("PaymentRequiredError", "billing_error")
    for client in ("chat", "responses"):
        by_gpt = (await speakers[client].stream(model, Ask())).trouble
        assert by_gpt is not None
        assert (by_gpt.raised, by_gpt.code) == ("RateLimitError", "insufficient_quota")


async def test_a_spent_quota_is_not_to_be_retried(live: Served, speakers: dict[str, Speaker]) -> None:
    async with anthropic.AsyncAnthropic(base_url=live.url, api_key="key", max_retries=0) as claude:
        with pytest.raises(anthropic.PaymentRequiredError) as caught:
            await claude.messages.create(
                model="chat/sim-error-429-quota", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
    assert caught.value.response.headers["x-should-retry"] == "false"


async def test_a_model_no_one_has(live: Served, speakers: dict[str, Speaker]) -> None:
    """The gateway's own errors are in the client's form too."""
    by_claude = (await speakers["messages"].whole("x" * 600, Ask())).trouble
    assert by_claude is not None
    assert (by_claude.raised, by_claude.type) == ("NotFoundError", "not_found_error")
    for client in ("chat", "responses"):
        by_gpt = (await speakers[client].whole("x" * 600, Ask())).trouble
        assert by_gpt is not None
        assert (by_gpt.raised, by_gpt.code) == ("NotFoundError", "model_not_found")
    async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="key", max_retries=0) as gpt:
        with pytest.raises(openai.BadRequestError, match="model"):
            await gpt.responses.create(model="", input="Hi")
