"""The line of the log that each request leaves: who asked for what, how it ended and why, in one line and no prompt."""

from __future__ import annotations

import logging

import pytest

from dragoman.aio.upstream import Timeouts
from dragoman.protocols import Dialect
from dragoman_server.providers import Secret
from support.gateways import CHAT, CROSS, MESSAGES, config_for, gate
from support.samples import dump, reply, request, text_stream
from support.sockets import ScriptedServer, Stall, answer, stream


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without the id that each begins with."""
    told = [record.getMessage() for record in caplog.records if record.name == "dragoman"]
    assert all(line.startswith("req_") for line in told)
    return [line.partition(" ")[2] for line in told]


async def test_a_refused_request_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer([]) as server, gate(config_for(server.url, MESSAGES)) as entrance:
        await entrance.refusal(CHAT, b"{}")
        await entrance.refusal(CHAT, model="gpt-x", n=2)
    assert not server.connections
    assert _lines(caplog) == [
        "chat rejected: 400 model: is required (a string)",
        "chat gpt-x rejected: 400 n: only one choice can be had from an upstream of another dialect",
    ]


async def test_an_upstream_that_cannot_be_reached_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer([]) as server:
        config = config_for(server.url, CHAT)
    async with gate(config) as entrance:
        await entrance.refusal(MESSAGES, model="claude-x")
    assert _lines(caplog) == [
        "messages→chat claude-x → claude-x failed: 502 cannot connect to the upstream: Connection refused (provider up)"
    ]


async def test_a_timeout_says_which(caplog: pytest.LogCaptureFixture) -> None:
    timeouts = Timeouts(first_byte=0.05)
    async with ScriptedServer([Stall()]) as server, gate(config_for(server.url, CHAT, timeouts=timeouts)) as entrance:
        await entrance.refusal(MESSAGES)
    assert _lines(caplog) == [
        "messages→chat m → m failed: 504 upstream timed out: nothing within 0.05 s (first_byte) (provider up)"
    ]


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_an_upstream_s_words_are_not_told_and_its_class_is(
    client: Dialect, upstream: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    words = dump(
        {"type": "error", "error": {"type": "rate_limit_error", "message": "slower, SECRET", "code": "SE CRET"}}
    )
    async with (
        ScriptedServer(answer(429, words), answer(200, words)) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        await entrance.refusal(client)
        await entrance.refusal(client)
    first, second = _lines(caplog)
    assert first == f"{client}→{upstream} m → m refused with 429 (rate_limit)"
    assert second == f"{client}→{upstream} m → m failed: 429 rate_limit (provider up)"


async def test_a_stream_that_was_cut_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer(stream(text_stream(CHAT)[:3])) as server, gate(config_for(server.url, CHAT)) as entrance:
        await entrance.stream(MESSAGES)
    assert _lines(caplog) == ["messages→chat m → m failed in the stream (stream_truncated)"]


async def test_a_name_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """Nor can the path of a field, or anything else that a client chose."""
    model = "gpt\n2026-11-21 INFO req_1 \x1b[31mforged\u2028é"
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        async with entrance.post(MESSAGES, model=model) as response:
            assert (await response.json())["model"] == model
        await entrance.refusal(MESSAGES, request(MESSAGES, model=model, tools=3))
    completed, rejected = _lines(caplog)
    shown = r"gpt\n2026-11-21 INFO req_1 \x1b[31mforged\u2028\xe9"
    assert completed == f"messages→chat {shown} → {shown} completed"
    assert rejected == f"messages {shown} rejected: 400 tools: expected an array, got an integer"


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [line.partition(" ")[2] for line in told]


async def test_an_upstream_that_cannot_be_reached_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    """So that `--quiet` shows it, too."""
    async with ScriptedServer([]) as server:
        config = config_for(server.url, CHAT)
    async with gate(config) as entrance:
        for _ in range(3):
            await entrance.refusal(MESSAGES)
    assert _warnings(caplog) == [
        "messages→chat m → m failed: 502 cannot connect to the upstream: Connection refused (provider up)"
    ]
    assert len(_lines(caplog)) == 3


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_an_upstream_that_refuses_our_key_is_a_warning_once(
    client: Dialect, upstream: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    words = dump({"type": "error", "error": {"type": "authentication_error", "message": "wrong: SECRET"}})
    async with (
        ScriptedServer(answer(401, words), answer(401, words)) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        await entrance.refusal(client)
        await entrance.refusal(client)
    assert _warnings(caplog) == [f"{client}→{upstream} m → m refused with 401 (authentication) (provider up)"]
    assert _lines(caplog)[1] == f"{client}→{upstream} m → m refused with 401 (authentication)"


async def test_a_client_that_is_refused_for_its_key_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT, keys=(Secret("k"),))) as entrance:
        await entrance.refusal(MESSAGES)
    assert not _warnings(caplog)
    assert _lines(caplog) == ["messages rejected: 401 no API key: send it as x-api-key or as Authorization: Bearer"]
