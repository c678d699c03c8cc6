"""A failure before the first event keeps a real status in the client's envelope, and the headers for retries."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Auth
from support.gateways import ALL, CHAT, CROSS, MESSAGES, config_for, gate, with_limits
from support.samples import dump, error_frame, messages_frame, reply, sign_of_life, text_stream
from support.sockets import (
    LAST_CHUNK,
    Abort,
    Close,
    Pause,
    ScriptedServer,
    Send,
    Stall,
    Step,
    answer,
    chunk,
    head,
    sse_head,
    stream,
)

BOTH_LOOPS = True
BROKEN = {CHAT: "server_error", MESSAGES: "api_error"}
LATE = {CHAT: "server_error", MESSAGES: "timeout_error"}
REQUEST_ID = {CHAT: "x-request-id", MESSAGES: "request-id"}
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
CROSSING = pytest.mark.parametrize(("client", "upstream"), CROSS)


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that answers no handshake: its queue of connections is full and no one takes them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(listener.getsockname())
            waiting.append(filler)
        try:
            yield listener.getsockname()[1]
        finally:
            for filler in waiting:
                filler.close()


@DIRECTIONS
@STREAMED
async def test_a_refused_connection_is_502(client: Dialect, upstream: Dialect, streamed: bool) -> None:
    async with ScriptedServer([Stall()]) as server:
        url = server.url
    async with gate(config_for(url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client, stream=streamed)
    assert (status, noted.type) == (502, BROKEN[client])
    assert "connect" in noted.message


@DIRECTIONS
async def test_a_connection_that_is_never_made_is_504(client: Dialect, upstream: Dialect) -> None:
    with deaf_port() as port:
        timeouts = Timeouts(connect=0.1)
        async with gate(config_for(f"http://127.0.0.1:{port}", upstream, timeouts=timeouts)) as entrance:
            status, noted, _ = await entrance.refusal(client, stream=True)
    assert (status, noted.type) == (504, LATE[client])
    assert "(connect)" in noted.message


SILENT: dict[str, Any] = {
    "no head": [Stall()],
    "no body": [Send(sse_head()), Stall()],
    "half a frame": [Send(sse_head() + chunk(b"data: {")), Stall()],
}


@DIRECTIONS
@STREAMED
@pytest.mark.parametrize("silence", ["no head", "no body"])
async def test_a_reply_that_never_begins_is_504(
    client: Dialect, upstream: Dialect, streamed: bool, silence: str
) -> None:
    async with ScriptedServer(SILENT[silence]) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(first_byte=0.1))
        async with gate(config) as entrance:
            status, noted, _ = await entrance.refusal(client, stream=streamed)
            await asyncio.wait_for(server.hung_up.wait(), 30)
    assert (status, noted.type) == (504, LATE[client])
    assert "(first_byte)" in noted.message


@CROSSING
async def test_signs_of_life_are_no_first_event(client: Dialect, upstream: Dialect) -> None:
    """A queueing server that pings and then refuses must still give a real status (mapping §9.8)."""
    late = [sign_of_life(upstream)] * 3 + [error_frame(upstream)]
    async with ScriptedServer(stream(late, pause=0.01)) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client, stream=True)
    assert status == (529 if client is MESSAGES else 503)
    assert "too much" in noted.message


@DIRECTIONS
async def test_signs_of_life_alone_do_not_put_off_the_first_byte_timer(client: Dialect, upstream: Dialect) -> None:
    """A server that only ever pings must not hold its client for ever, nor fill the gateway's memory."""
    endless = stream([b": still here\n\n"] * 400, pause=0.01)
    timeouts = Timeouts(first_byte=0.3)
    async with (
        ScriptedServer(endless) as server,
        gate(config_for(server.url, upstream, timeouts=timeouts)) as entrance,
    ):
        status, noted, _ = await entrance.refusal(client, stream=True)
        await asyncio.wait_for(server.hung_up.wait(), 30)
    assert (status, noted.type) == (504, LATE[client])
    assert "(first_byte)" in noted.message


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
async def test_bytes_that_wait_for_the_first_event_are_bounded(dialect: Dialect) -> None:
    endless = stream([b": still here\n\n"] * 50)
    async with (
        ScriptedServer(endless) as server,
        gate(with_limits(config_for(server.url, dialect), sse_frame=200)) as entrance,
    ):
        status, noted, _ = await entrance.refusal(dialect, stream=True)
    assert (status, noted.type) == (502, BROKEN[dialect])
    assert "sse_frame = 200" in noted.message


@DIRECTIONS
@STREAMED
@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_connection_that_breaks_before_the_head_is_502(
    client: Dialect, upstream: Dialect, streamed: bool, ending: str
) -> None:
    breaking: Step = Abort() if ending == "reset" else Close()
    async with ScriptedServer([breaking]) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client, stream=streamed)
    assert (status, noted.type) == (502, BROKEN[client])


@DIRECTIONS
async def test_a_whole_reply_that_breaks_is_502(client: Dialect, upstream: Dialect) -> None:
    cut: list[Step] = [
        Send(head(200, [("content-type", "application/json"), ("content-length", "999")]) + b'{"id":'),
        Close(),
    ]
    async with ScriptedServer(cut) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client)
    assert (status, noted.type) == (502, BROKEN[client])


@DIRECTIONS
@STREAMED
async def test_a_refusal_that_is_cut_keeps_its_status(client: Dialect, upstream: Dialect, streamed: bool) -> None:
    headers = [("content-type", "application/json"), ("content-length", "999"), ("retry-after", "3")]
    cut: list[Step] = [Send(head(429, headers) + b'{"error":'), Close()]
    async with ScriptedServer(cut) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, answered = await entrance.refusal(client, stream=streamed)
    assert (status, noted.type, answered["retry-after"]) == (429, "rate_limit_error", "3")


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
async def test_what_passes_through_is_watched(dialect: Dialect, caplog: pytest.LogCaptureFixture) -> None:
    good = text_stream(dialect)
    async with (
        ScriptedServer(stream([*good[:-1], b"data: garbage\n\n", good[-1]])) as server,
        gate(config_for(server.url, dialect)) as entrance,
    ):
        with caplog.at_level("WARNING", "dragoman"):
            await entrance.stream(dialect)
    assert "upstream broke its grammar: a frame that is not JSON" in caplog.text


EMPTY: dict[str, Any] = {
    "no frame": stream([]),
    "comments only": stream([b": hi\n\n", b": ho\n\n"]),
    "reset": [Send(sse_head()), Pause(0.02), Abort()],
    "no chunk": [Send(sse_head()), Close()],
    "length 0": [Send(head(200, [("content-type", "text/event-stream"), ("content-length", "0")]))],
}


@DIRECTIONS
@pytest.mark.parametrize("empty", [name for name in EMPTY if name != "comments only"])
async def test_an_empty_stream_is_502(client: Dialect, upstream: Dialect, empty: str) -> None:
    async with ScriptedServer(EMPTY[empty]) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client, stream=True)
    assert (status, noted.type) == (502, BROKEN[client])


@CROSSING
@pytest.mark.parametrize(
    "frames",
    [EMPTY["comments only"], stream([b"data: garbage\n\n"]), stream([b"data: [1]\n\n"]), stream([b"data: [DONE]\n\n"])],
    ids=["comments", "no JSON", "no object", "DONE"],
)
async def test_a_stream_that_is_none_is_502(client: Dialect, upstream: Dialect, frames: Any) -> None:
    async with ScriptedServer(frames) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client, stream=True)
    assert (status, noted.type) == (502, BROKEN[client])


@CROSSING
async def test_an_error_as_first_event_keeps_its_status(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(stream([error_frame(upstream)])) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        status, noted, _ = await entrance.refusal(client, stream=True)
    assert (status, noted.type) == (
        (529, "overloaded_error") if client is MESSAGES else (503, "service_unavailable_error")
    )
    assert "too much" in noted.message


@DIRECTIONS
@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "text/plain", "application/octet-stream"])
async def test_a_page_instead_of_a_stream_is_502(client: Dialect, upstream: Dialect, kind: str) -> None:
    """A proxy's page under status 200, with blank lines in it that look like ends of frames."""
    page = b"<html>\n\n<title>Please log in</title>\n\n</html>\n\n"
    async with (
        ScriptedServer(answer(200, page, content_type=kind)) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        status, noted, _ = await entrance.refusal(client, stream=True)
    assert (status, noted.type) == (502, BROKEN[client])


@CROSSING
@STREAMED
async def test_a_json_error_under_status_200_is_an_error(client: Dialect, upstream: Dialect, streamed: bool) -> None:
    body = dump({"error": {"message": "Rate limited", "type": "rate_limit_error", "code": "rate_limit_exceeded"}})
    async with ScriptedServer(answer(200, body)) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client, stream=streamed)
    assert (status, noted.type) == (429, "rate_limit_error")
    assert "Rate limited" in noted.message


@CROSSING
@pytest.mark.parametrize("body", [b"", b"<html><title>Hello</title></html>", b"[]", b'"text"', b"{"])
async def test_a_whole_reply_that_is_none_is_502(client: Dialect, upstream: Dialect, body: bytes) -> None:
    async with ScriptedServer(answer(200, body)) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, _ = await entrance.refusal(client)
    assert (status, noted.type) == (502, BROKEN[client])


STATUSES = [
    (400, "invalid_request_error", 400, "invalid_request_error", 400),
    (401, "authentication_error", 401, "invalid_request_error", 401),
    (403, "permission_error", 403, "permission_error", 403),
    (404, "not_found_error", 404, "invalid_request_error", 404),
    (413, "request_too_large", 413, "invalid_request_error", 413),
    (429, "rate_limit_error", 429, "rate_limit_error", 429),
    (500, "api_error", 500, "server_error", 500),
    (503, "overloaded_error", 529, "service_unavailable_error", 503),
    (504, "timeout_error", 504, "server_error", 504),
]


@CROSSING
@STREAMED
@pytest.mark.parametrize("form", ["json", "html", "empty"])
async def test_error_statuses_are_translated(client: Dialect, upstream: Dialect, streamed: bool, form: str) -> None:
    """mapping §10.1, §10.2, whatever the body is."""
    envelope: dict[str, Any] = {"error": {"message": "because", "type": "odd", "param": None, "code": None}}
    bodies = {
        "json": (dump(envelope), "application/json"),
        "html": (b"<html><head><title>because</title></head></html>", "text/html"),
        "empty": (b"", "text/plain"),
    }
    body, kind = bodies[form]
    scripts = [answer(status, body, content_type=kind) for status, *_ in STATUSES]
    async with ScriptedServer(*scripts) as server:
        config = config_for(server.url, upstream)
        # With a key of the configuration a 401 and a 403 are not of the client's.
        config = replace(config, providers={"up": replace(config.providers["up"], auth=Auth.PASSTHROUGH)})
        async with gate(config) as entrance:
            for sent, to_messages, messages_status, to_chat, chat_status in STATUSES:
                status, noted, _ = await entrance.refusal(client, stream=streamed)
                expected = (messages_status, to_messages) if client is MESSAGES else (chat_status, to_chat)
                assert (status, noted.type) == expected, sent
                # Without a prefix: agents compare the beginning of some messages.
                empty = f"upstream answered status {sent} without a message"
                assert noted.message == (empty if form == "empty" else "because")
                assert noted.param is None


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
@STREAMED
async def test_error_statuses_pass_through_untouched(dialect: Dialect, streamed: bool) -> None:
    body = b'{ "error" : {"message":"b\\u00e9cause"} , "x":1}'
    headers = [("retry-after", "7"), (REQUEST_ID[dialect], "req_up")]
    async with (
        ScriptedServer(answer(418, body, headers=headers)) as server,
        gate(config_for(server.url, dialect)) as entrance,
        entrance.post(dialect, stream=streamed) as response,
    ):
        assert response.status == 418
        assert await response.read() == body
        assert response.headers["retry-after"] == "7"
        assert response.headers[REQUEST_ID[dialect]] == "req_up"


NOW = 1_800_000_000.0
LIMITS = {
    CHAT: [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "6m0s"),
    ],
    MESSAGES: [
        ("anthropic-ratelimit-requests-limit", "60"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2027-01-15T08:06:00Z"),
    ],
}


@DIRECTIONS
@pytest.mark.parametrize("outcome", ["429", "whole", "stream"])
async def test_T78_retry_and_rate_limit_headers_are_translated(
    client: Dialect, upstream: Dialect, outcome: str
) -> None:
    """NOW is 2027-01-15T08:00:00Z. Nothing but the known headers passes."""
    retry = [("retry-after", "3"), ("retry-after-ms", "2500"), ("x-should-retry", "true")]
    private = [("set-cookie", "a=b"), ("server", "secret/1.0"), ("x-upstream-node", "n7")]
    headers = [*retry, *LIMITS[upstream], (REQUEST_ID[upstream], "req_up"), *private]
    error = dump({"error": {"message": "slow", "type": "rate_limit_error", "code": "rate_limit_exceeded"}})
    scripts: dict[str, list[Step]] = {
        "429": answer(429, error, headers=headers),
        "whole": answer(200, dump(reply(upstream)), headers=headers),
        "stream": [
            Send(sse_head(extra=headers)),
            *(Send(chunk(frame)) for frame in text_stream(upstream)),
            Send(LAST_CHUNK),
        ],
    }
    async with (
        ScriptedServer(scripts[outcome]) as server,
        gate(config_for(server.url, upstream), now=lambda: NOW) as entrance,
        entrance.post(client, stream=outcome == "stream") as response,
    ):
        assert response.status == (429 if outcome == "429" else 200)
        got = response.headers
        body = await response.read()
    assert [got[name] for name, _ in retry] == [value for _, value in retry]
    assert {name: got.get(name) for name, _ in LIMITS[client]} == dict(LIMITS[client])
    assert got[REQUEST_ID[client]] == "req_up"
    assert not any(name in got for name, _ in private if name != "server")
    assert got.get("server") != "secret/1.0"
    if client is not upstream:
        assert not any(name in got for name, _ in LIMITS[upstream])
        assert REQUEST_ID[upstream] not in got
        if client is MESSAGES and outcome == "429":
            assert json.loads(body)["request_id"] == "req_up"


@DIRECTIONS
async def test_without_an_upstream_id_the_gateways_own_is_reported(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(upstream)))) as server,
        gate(config_for(server.url, upstream), new_id=lambda: "req_own") as entrance,
        entrance.post(client) as response,
    ):
        assert response.headers[REQUEST_ID[client]] == "req_own"


@CROSSING
async def test_a_redirect_is_not_followed(client: Dialect, upstream: Dialect) -> None:
    """The key would go along to wherever it leads."""
    async with ScriptedServer(answer(200, b"{}")) as other:
        moved = answer(307, b"", headers=[("location", f"{other.url}/v1/messages")])
        async with ScriptedServer(moved) as server, gate(config_for(server.url, upstream)) as entrance:
            status, _, _ = await entrance.refusal(client)
        assert status == 502
        assert not other.requests


async def test_a_messages_stream_that_begins_with_a_ping_is_a_stream() -> None:
    frames = text_stream(MESSAGES)
    async with (
        ScriptedServer(stream([messages_frame("ping"), *frames])) as server,
        gate(config_for(server.url, MESSAGES)) as entrance,
    ):
        assert b"Gr" in await entrance.stream(CHAT)
