"""Error statuses before the first byte: each becomes the SDK's own exception class, in every direction."""

from __future__ import annotations

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from conformance.judges import ask_claude, ask_gpt
from conformance.served import RETRY_AFTER, Served, Upstream, model_at

CLAUDE: dict[int, tuple[int, type[anthropic.APIStatusError], str]] = {
    400: (400, anthropic.BadRequestError, "invalid_request_error"),
    401: (401, anthropic.AuthenticationError, "authentication_error"),
    402: (402, anthropic.PaymentRequiredError, "billing_error"),
    403: (403, anthropic.PermissionDeniedError, "permission_error"),
    404: (404, anthropic.NotFoundError, "not_found_error"),
    413: (413, anthropic.ContentTooLargeError, "request_too_large"),
    429: (429, anthropic.RateLimitError, "rate_limit_error"),
    500: (500, anthropic.InternalServerError, "api_error"),
    503: (529, anthropic.OverloadedError, "overloaded_error"),
    529: (529, anthropic.OverloadedError, "overloaded_error"),
}
"""Upstream status → status, exception and `error.type` for a Messages client (mapping §10.2)."""

GPT: dict[int, tuple[int, type[openai.APIStatusError], str, str | None]] = {
    400: (400, openai.BadRequestError, "invalid_request_error", None),
    401: (401, openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
    402: (402, openai.APIStatusError, "insufficient_quota", "insufficient_quota"),
    403: (403, openai.PermissionDeniedError, "permission_error", None),
    404: (404, openai.NotFoundError, "invalid_request_error", "model_not_found"),
    413: (413, openai.APIStatusError, "invalid_request_error", None),
    429: (429, openai.RateLimitError, "rate_limit_error", "rate_limit_exceeded"),
    500: (500, openai.InternalServerError, "server_error", None),
    529: (503, openai.InternalServerError, "service_unavailable_error", "server_is_overloaded"),
}
"""Upstream status → status, exception, `type` and `code` for a Chat client (mapping §10.1). Anthropic sends no 503."""

WAITS = (429, 503, 529)


@pytest.mark.parametrize("status", CLAUDE)
async def test_claude_sees_its_own_exceptions(
    claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool, status: int
) -> None:
    want, exception, kind = CLAUDE[status]
    if upstream == "messages" and status == 503:  # passed through; the simulator's own word for it
        want, exception, kind = 503, anthropic.ServiceUnavailableError, "api_error"
    with pytest.raises(exception) as caught:
        await ask_claude(claude, streamed=streamed, model=model_at(upstream, f"sim-error-{status}"))
    error = caught.value
    assert type(error) is exception
    assert (error.status_code, error.type) == (want, kind)
    assert error.request_id is not None
    assert error.request_id.startswith("req_sim")
    assert error.api_message
    assert error.api_message.startswith("simulated-chat: ") is (upstream == "chat")
    # T-78: without it Claude Code retries for ever.
    assert error.response.headers.get("retry-after") == (str(RETRY_AFTER) if status in WAITS else None)
    assert len(served.requests) == 1


@pytest.mark.parametrize("status", [*GPT, 503])
async def test_gpt_sees_its_own_exceptions(
    gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool, status: int
) -> None:
    want, exception, kind, code = GPT.get(status) or GPT[529]
    if upstream == "chat":  # passed through: OpenAI's own words
        want = status
        kind, code = {402: ("billing_error", "billing_not_active"), 413: (kind, "request_too_large")}.get(
            status, (kind, code)
        )
    with pytest.raises(exception) as caught:
        await ask_gpt(gpt, streamed=streamed, model=model_at(upstream, f"sim-error-{status}"))
    error = caught.value
    assert type(error) is exception
    assert (error.status_code, error.type, error.code, error.param) == (want, kind, code, None)
    assert error.request_id is not None
    assert error.request_id.startswith("req_sim")
    assert ("simulated-messages: " in error.message) is (upstream == "messages")
    assert error.response.headers.get("retry-after") == (str(RETRY_AFTER) if status in WAITS else None)
    assert len(served.requests) == 1


async def test_a_prompt_that_is_too_long(claude: AsyncAnthropic, gpt: AsyncOpenAI, upstream: Upstream) -> None:
    """Claude Code compacts on the words `prompt is too long`, OpenAI's clients on the code (mapping §10)."""
    with pytest.raises(anthropic.BadRequestError) as by_claude:
        await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-error-400-context"))
    assert (by_claude.value.api_message or "").startswith("prompt is too long")
    with pytest.raises(openai.BadRequestError) as by_gpt:
        await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-error-400-context"))
    assert by_gpt.value.code == "context_length_exceeded"


async def test_a_spent_quota_is_no_rate_limit(claude: AsyncAnthropic, gpt: AsyncOpenAI) -> None:
    """Retrying would never help: 402 for Claude's clients; OpenAI's have a code for it."""
    with pytest.raises(anthropic.PaymentRequiredError) as by_claude:
        await ask_claude(claude, streamed=True, model="chat/sim-error-429-quota")
    assert by_claude.value.type == "billing_error"
    assert by_claude.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.RateLimitError) as by_gpt:
        await ask_gpt(gpt, streamed=True, model="chat/sim-error-429-quota")
    assert by_gpt.value.code == "insufficient_quota"


async def test_a_model_nobody_has(claude: AsyncAnthropic, gpt: AsyncOpenAI) -> None:
    """The gateway's own errors are in the client's form too."""
    with pytest.raises(anthropic.BadRequestError, match="model"):
        await ask_claude(claude, streamed=False, model="")
    with pytest.raises(openai.NotFoundError) as caught:
        await ask_gpt(gpt, streamed=False, model="x" * 600)
    assert caught.value.code == "model_not_found"
