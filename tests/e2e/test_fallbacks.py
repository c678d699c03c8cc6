"""Routes with several providers over real sockets: a fallback before the first event and never after it."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config, Server
from support.exposed import read_exposition, total
from support.gateways import CHAT, MESSAGES, Gate, gate
from support.samples import dump, error_frame, reply, text_stream
from support.sockets import Abort, Close, ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
RETRYABLE = (408, 409, 425, 429, 500, 502, 503, 504, 529)


def config_of(*upstreams: tuple[str, Dialect], retries: RetryOptions | None = None, **route: Any) -> Config:
    """Providers `up1`, `up2`, … that are tried in this order."""
    providers = {f"up{n}": Provider(f"up{n}", dialect, url) for n, (url, dialect) in enumerate(upstreams, 1)}
    targets = tuple(RouteTarget(name) for name in providers)
    return Config(
        providers=providers,
        routes=[Route("*", targets=targets, **route)],
        server=Server(timeouts=Timeouts()),
        retries=retries or RetryOptions(backoff=0.01, backoff_max=0.02),
    )


def works(dialect: Dialect, streamed: bool) -> list[Step]:
    return stream(text_stream(dialect)) if streamed else answer(200, dump(reply(dialect)))


def error(status: int, *headers: tuple[str, str]) -> list[Step]:
    return answer(status, dump({"type": "error", "error": {"type": "api_error", "message": "no"}}), headers=headers)


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def ask(entrance: Gate, client: Dialect, streamed: bool, **fields: Any) -> bytes:
    """The body of a reply that must be good."""
    async with entrance.post(client, stream=streamed, **fields) as response:
        body: bytes = await response.read()
        assert response.status == 200, body
    assert b"error" not in body
    return body


async def receipt_of(entrance: Gate, **fields: Any) -> dict[str, Any]:
    async with entrance.post(MESSAGES, **fields) as response:
        await response.read()
        request_id = response.headers["x-dragoman-request-id"]
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
        found: dict[str, Any] = json.loads(await response.read())
        return found


@STREAMED
@pytest.mark.parametrize("status", RETRYABLE)
async def test_a_retryable_status_leads_to_the_next_provider(status: int, streamed: bool) -> None:
    """The second provider has another dialect: it gets the client's own request in its own terms."""
    async with ScriptedServer(error(status)) as first, ScriptedServer(works(CHAT, streamed)) as second:
        async with gate(config_of((first.url, MESSAGES), (second.url, CHAT))) as entrance:
            await ask(entrance, MESSAGES, streamed, system="be brief")
        assert len(first.requests) == len(second.requests) == 1
        assert first.requests[0].target.startswith("/v1/messages")
        assert second.requests[0].target == "/v1/chat/completions"
        sent = json.loads(second.requests[0].body)
        assert sent["messages"][0] == {"role": "system", "content": "be brief"}
        assert json.loads(first.requests[0].body)["system"] == "be brief"


@STREAMED
@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_request_that_is_wrong_is_sent_once(status: int, streamed: bool) -> None:
    async with ScriptedServer(error(status)) as first, ScriptedServer(works(CHAT, streamed)) as second:
        async with gate(config_of((first.url, MESSAGES), (second.url, CHAT))) as entrance:
            assert (await entrance.refusal(MESSAGES, stream=streamed))[0] == status
        assert (len(first.requests), len(second.requests)) == (1, 0)


BEFORE_THE_FIRST_EVENT: dict[str, Sequence[Step]] = {
    "no response": [Close()],
    "reset": [Abort()],
    "head only": [Send(sse_head()), Close()],
    "part of a frame": [Send(sse_head() + chunk(b"event: mess")), Abort()],
    "nothing": [Send(sse_head() + b"0\r\n\r\n")],
    "error event": [Send(sse_head() + chunk(error_frame(MESSAGES))), Send(b"0\r\n\r\n")],
}


@pytest.mark.parametrize("cut", BEFORE_THE_FIRST_EVENT)
@pytest.mark.parametrize("client", [CHAT, MESSAGES], ids=["translated", "same dialect"])
async def test_a_stream_that_ends_before_its_first_event_is_begun_elsewhere(client: Dialect, cut: str) -> None:
    async with (
        ScriptedServer(BEFORE_THE_FIRST_EVENT[cut]) as first,
        ScriptedServer(works(MESSAGES, streamed=True)) as second,
    ):
        async with gate(config_of((first.url, MESSAGES), (second.url, MESSAGES))) as entrance:
            await ask(entrance, client, streamed=True)
        assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("client", [CHAT, MESSAGES], ids=["translated", "same dialect"])
@pytest.mark.parametrize("frames", [1, 3, 4])
async def test_a_stream_that_has_begun_is_never_begun_again(client: Dialect, frames: int) -> None:
    begun = stream(text_stream(MESSAGES)[:frames], end=False)
    async with (
        ScriptedServer([*begun, Abort()]) as first,
        ScriptedServer(works(MESSAGES, streamed=True)) as second,
    ):
        async with gate(config_of((first.url, MESSAGES), (second.url, MESSAGES))) as entrance:
            async with entrance.post(client, stream=True) as response:
                body = await response.read()
            assert response.status == 200
            assert b"error" in body
        assert (len(first.requests), len(second.requests)) == (1, 0)


@STREAMED
async def test_a_provider_that_cannot_be_reached(streamed: bool) -> None:
    async with ScriptedServer(works(CHAT, streamed)) as second:
        away = f"http://127.0.0.1:{unused_port()}"
        async with gate(config_of((away, MESSAGES), (second.url, CHAT))) as entrance:
            await ask(entrance, MESSAGES, streamed)
        assert len(second.requests) == 1


async def test_a_provider_that_does_not_answer_in_time() -> None:
    async with ScriptedServer([Stall()]) as first, ScriptedServer(works(CHAT, streamed=True)) as second:
        config = config_of((first.url, MESSAGES), (second.url, CHAT))
        config = replace(config, server=Server(timeouts=Timeouts(first_byte=0.2)))
        async with gate(config) as entrance:
            await ask(entrance, MESSAGES, streamed=True)
        assert len(second.requests) == 1


@STREAMED
@pytest.mark.parametrize("first", [error(503), [Send(sse_head()), Close()], [Abort()]], ids=["503", "cut", "reset"])
async def test_over_the_other_transport(first: list[Step], streamed: bool) -> None:
    async with ScriptedServer(first) as one, ScriptedServer(works(CHAT, streamed)) as two:
        config = config_of((one.url, MESSAGES), (two.url, CHAT))
        async with gate(replace(config, server=Server(transport="aiohttp"))) as entrance:
            await ask(entrance, MESSAGES, streamed)
        assert (len(one.requests), len(two.requests)) == (1, 1)


async def test_a_whole_reply_that_is_cut_is_requested_elsewhere() -> None:
    half = answer(200, dump(reply(MESSAGES)))[0]
    assert isinstance(half, Send)
    async with (
        ScriptedServer([Send(half.data[:-9]), Abort()]) as first,
        ScriptedServer(works(CHAT, streamed=False)) as second,
    ):
        async with gate(config_of((first.url, MESSAGES), (second.url, CHAT))) as entrance:
            await ask(entrance, MESSAGES, streamed=False)
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_the_last_error_reaches_the_client_with_its_headers() -> None:
    async with ScriptedServer(error(503)) as first, ScriptedServer(error(529, ("retry-after", "7"))) as second:
        async with gate(config_of((first.url, MESSAGES), (second.url, MESSAGES), attempts=2)) as entrance:
            status, _, headers = await entrance.refusal(MESSAGES, stream=True)
        assert (status, headers["retry-after"]) == (529, "7")
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_the_receipt_and_the_metrics_have_every_attempt() -> None:
    async with (
        ScriptedServer(error(503)) as first,
        ScriptedServer(works(CHAT, streamed=True)) as second,
        gate(config_of((first.url, MESSAGES), (second.url, CHAT), upstream_model="m2")) as entrance,
    ):
        receipt = await receipt_of(entrance, stream=True)
        async with entrance.session.get(f"{entrance.url}/metrics") as page:
            samples = read_exposition(await page.read())
    assert receipt["provider"] == "up2"
    rows = [(row["provider"], row["upstream_model"], row["outcome"], row["status"]) for row in receipt["attempts"]]
    assert rows == [("up1", "m2", "unavailable", 503), ("up2", "m2", "answered", None)]
    attempts = "dragoman_upstream_attempts_total"
    assert total(samples, attempts, provider="up1", outcome="unavailable") == 1
    assert total(samples, attempts, provider="up2", outcome="answered") == 1
    assert total(samples, attempts) == 2


async def test_a_target_has_a_model_of_its_own() -> None:
    async with ScriptedServer(error(500)) as first, ScriptedServer(works(CHAT, streamed=False)) as second:
        config = config_of((first.url, MESSAGES), (second.url, CHAT))
        targets = (RouteTarget("up1", "big-*"), RouteTarget("up2", "small"))
        config = replace(config, routes=[Route("a-*", targets=targets)])
        async with gate(config) as entrance:
            await ask(entrance, MESSAGES, streamed=False, model="a-x")
        assert json.loads(first.requests[0].body)["model"] == "big-x"
        assert json.loads(second.requests[0].body)["model"] == "small"


async def test_a_reply_that_began_with_pings_can_still_fall_back() -> None:
    """With `early_reply` the headers go out before any upstream has answered: no event has reached the client yet."""
    async with (
        ScriptedServer([Stall()]) as first,
        ScriptedServer(works(CHAT, streamed=True)) as second,
    ):
        config = config_of((first.url, MESSAGES), (second.url, CHAT))
        config = replace(config, server=Server(timeouts=Timeouts(first_byte=0.4, early_reply=0.05)))
        async with gate(config) as entrance:
            body = await ask(entrance, MESSAGES, streamed=True)
        assert body.startswith(b"event: ping")
        assert len(second.requests) == 1


async def test_a_provider_that_cannot_express_the_request_is_left_out() -> None:
    """The first one fails, the second one's dialect has no such field, and `on_loss` forbids to drop it."""
    async with (
        ScriptedServer(error(500)) as first,
        ScriptedServer(works(CHAT, streamed=False)) as second,
        ScriptedServer(works(MESSAGES, streamed=False)) as third,
    ):
        config = config_of(
            (first.url, MESSAGES), (second.url, CHAT), (third.url, MESSAGES), knobs={"on_loss": "reject"}
        )
        async with gate(config) as entrance:
            await ask(entrance, MESSAGES, streamed=False, top_k=3)
        assert [len(server.requests) for server in (first, second, third)] == [1, 0, 1]
