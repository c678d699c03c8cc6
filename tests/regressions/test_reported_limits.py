"""Group H: what an upstream states of its limits, and how long to wait."""

from __future__ import annotations

import anthropic
import openai
import pytest

from dragoman.dialects import Dialect
from regressions.live import CHAT, GENERATE, MESSAGES, RESPONSES, ask, every_direction
from support.gateways import Gate, config_for, gate
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z"""
OPENAI = {"x-ratelimit-limit-tokens": "90000", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}
ANTHROPIC = {
    "anthropic-ratelimit-tokens-limit": "90000",
    "anthropic-ratelimit-tokens-remaining": "0",
    "anthropic-ratelimit-tokens-reset": "2027-01-15T08:06:00Z",
}
LIMITS: dict[Dialect, dict[str, str]] = {CHAT: OPENAI, MESSAGES: ANTHROPIC, RESPONSES: OPENAI, GENERATE: {}}
"""The headers in which an upstream states its limits. Google states nothing."""
WAIT = {"retry-after": "7", "retry-after-ms": "6500", "x-should-retry": "true"}
REFUSAL = dump({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down", "code": None}})


@every_direction
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_T78_a_refusal_states_how_long_to_wait(client: Dialect, upstream: Dialect, status: int) -> None:
    """`retry-after` and `anthropic-ratelimit-*` are dropped on a 429: Claude Code retries for ever
    (BerriAI/litellm#37754, api7/aisix#144)."""
    script = answer(status, REFUSAL, headers=[*WAIT.items(), *LIMITS[upstream].items()])
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream), now=lambda: NOW) as entrance,
        ask(entrance, client) as response,
    ):
        assert response.status >= 400
        got = {name: response.headers.get(name) for name in WAIT | LIMITS[client]}
        assert b"slow down" in await response.read()
    assert got == WAIT | (LIMITS[client] if LIMITS[upstream] else dict.fromkeys(LIMITS[client]))


async def _asked_by_sdk(entrance: Gate, client: Dialect, retries: int) -> None:
    if client is MESSAGES:
        async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=retries) as theirs:
            await theirs.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
        return
    async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=retries) as others:
        if client is CHAT:
            await others.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
        else:
            await others.responses.create(model="m", input="Hi")


@pytest.mark.few
@every_direction
async def test_T78_the_vendors_own_clients_wait_and_try_again(client: Dialect, upstream: Dialect) -> None:
    """Likewise with the SDKs (majiayu000/litellm-rs#833): a client that must wait a millisecond comes back, and
    who does not try again learns why."""
    soon = answer(429, REFUSAL, headers=[("retry-after-ms", "1")])
    async with (
        ScriptedServer(soon, answer(200, dump(reply(upstream))), soon) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        await _asked_by_sdk(entrance, client, retries=1)
        assert len(server.requests) == 2
        kinds: tuple[type[Exception], ...] = (anthropic.RateLimitError, openai.RateLimitError)
        with pytest.raises(kinds, match="slow down") as caught:
            await _asked_by_sdk(entrance, client, retries=0)
    error = caught.value
    assert isinstance(error, anthropic.RateLimitError | openai.RateLimitError)
    assert error.response.headers["retry-after-ms"] == "1"


@every_direction
async def test_T78_a_refusal_that_may_not_be_tried_again_is_reported(client: Dialect, upstream: Dialect) -> None:
    """The reverse of BerriAI/litellm#37754: `x-should-retry: false` must arrive as well, and no wait is made up."""
    script = answer(429, REFUSAL, headers=[("x-should-retry", "false")])
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream)) as entrance,
        ask(entrance, client) as response,
    ):
        assert response.headers["x-should-retry"] == "false"
        assert not {"retry-after", "retry-after-ms", *LIMITS[client]} & {name.lower() for name in response.headers}
