"""The line of the log that each request leaves: who asked for what, how it ended and why, in one line and no prompt."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.observability.logs import JsonFormatter
from support.gateways import CHAT, CROSS, MESSAGES, config_for, gate
from support.samples import dump, reply, request, text_stream
from support.sockets import ScriptedServer, Stall, answer, stream


@pytest.fixture(autouse=True)
def noted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without the id that each begins with."""
    noted = [record.getMessage() for record in caplog.records if record.name == "dragoman"]
    assert all(line.startswith("req_") for line in noted)
    return [_timeless(line) for line in noted]


def _timeless(line: str) -> str:
    """Without the id and with `T` for seconds, which differ each time."""
    return re.sub(r"\b(duration|first_event)=[0-9]+\.[0-9]{3}\b", r"\1=T", line.partition(" ")[2])


async def test_a_refused_request_is_reported_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer([]) as server, gate(config_for(server.url, MESSAGES)) as entrance:
        await entrance.refusal(CHAT, b"{}")
        await entrance.refusal(CHAT, model="gpt-x", n=2)
    assert not server.connections
    assert _lines(caplog) == [
        "chat rejected status=400 duration=T: model: is required (a string)",
        "chat gpt-x rejected status=400 duration=T provider=up route=*:"
        " n: only one choice is supported with an upstream of another dialect",
    ]


async def test_an_upstream_that_cannot_be_reached_is_named_with_host_and_port(caplog: pytest.LogCaptureFixture) -> None:
    """In the log only: a client must not learn what is behind the gateway."""
    async with ScriptedServer([]) as server:
        config = config_for(server.url, CHAT)
    async with gate(config) as entrance:
        _, noted, _ = await entrance.refusal(MESSAGES, model="claude-x")
    port = server.url.rpartition(":")[2]
    assert _lines(caplog) == [
        "messages→chat claude-x → claude-x failed status=502 duration=T provider=up route=*:"
        f" cannot connect to the upstream: Connection refused; upstream at 127.0.0.1:{port}"
    ]
    assert port not in noted.message


async def test_a_timeout_names_which(caplog: pytest.LogCaptureFixture) -> None:
    timeouts = Timeouts(first_byte=0.05)
    async with ScriptedServer([Stall()]) as server, gate(config_for(server.url, CHAT, timeouts=timeouts)) as entrance:
        await entrance.refusal(MESSAGES)
    assert _lines(caplog) == [
        "messages→chat m → m failed status=504 duration=T provider=up route=*:"
        " upstream timed out: nothing within 0.05 s (first_byte)"
    ]


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_an_upstream_s_words_are_not_reported_and_its_class_is(
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
    end = "status=429 duration=T provider=up route=*"
    assert first == f"{client}→{upstream} m → m refused with 429 (rate_limit) {end}"
    assert second == f"{client}→{upstream} m → m failed {end}: rate_limit"


async def test_a_stream_that_was_cut_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer(stream(text_stream(CHAT)[:3])) as server, gate(config_for(server.url, CHAT)) as entrance:
        await entrance.stream(MESSAGES)
    assert _lines(caplog) == [
        "messages→chat m → m failed in the stream (stream_truncated) status=200 duration=T first_event=T"
        " tokens_in=~21 tokens_out=~3 provider=up route=*"
    ]


async def test_a_name_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """Nor can the path of a field, or anything else that a client chose."""
    model = "gpt\n2026-11-21 INFO req_1 \x1b[31mforged\u2028é"
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(config_for(server.url, CHAT)) as entrance:
        async with entrance.post(MESSAGES, model=model) as response:
            assert (await response.json())["model"] == model
        await entrance.refusal(MESSAGES, request(MESSAGES, model=model, tools=3))
    completed, rejected = _lines(caplog)
    shown = r"gpt\n2026-11-21 INFO req_1 \x1b[31mforged\u2028\xe9"
    usage = "tokens_in=5 tokens_out=9 "
    assert completed == f"messages→chat {shown} → {shown} completed status=200 duration=T {usage}provider=up route=*"
    end = "status=400 duration=T provider=up route=*"
    assert rejected == f"messages {shown} rejected {end}: tools: expected an array, got an integer"


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [_timeless(record.getMessage()) for record in caplog.records if record.levelno >= logging.WARNING]


async def test_an_upstream_that_cannot_be_reached_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    """So that `--quiet` shows it, too."""
    async with ScriptedServer([]) as server:
        config = config_for(server.url, CHAT)
    async with gate(config) as entrance:
        for _ in range(3):
            await entrance.refusal(MESSAGES)
    (warning,) = _warnings(caplog)
    end = "status=502 duration=T provider=up route=*: cannot connect to the upstream: Connection refused"
    assert warning.startswith(f"messages→chat m → m failed {end}; upstream at 127.0.0.1:")
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
    line = f"{client}→{upstream} m → m refused with 401 (authentication) status=502 duration=T provider=up route=*"
    assert _warnings(caplog) == [line]
    assert _lines(caplog)[1] == line


async def test_a_client_that_is_refused_for_its_key_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT, keys=(Secret("k"),))) as entrance:
        await entrance.refusal(MESSAGES)
    assert not _warnings(caplog)
    assert _lines(caplog) == [
        "messages rejected status=401 duration=T: no API key: send it as x-api-key or as Authorization: Bearer"
    ]


async def test_a_request_leaves_one_line_with_all_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"user-agent": "claude-cli/2.1.329 (external, sdk-cli)"}
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(config_for(server.url, CHAT)) as entrance,
        entrance.post(MESSAGES, model="claude-x", stream=True, top_k=3, headers=headers) as response,
    ):
        await response.read()
    (record,) = [record for record in caplog.records if record.name == "dragoman"]
    assert _timeless(record.getMessage()) == (
        "messages→chat claude-x → claude-x completed status=200 duration=T first_event=T tokens_in=5 tokens_out=9"
        " provider=up route=* client=claude-code; losses: top_k=1"
    )
    noted = json.loads(JsonFormatter().format(record))
    assert 0 < noted.pop("first_event") <= noted.pop("duration") < 60
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", noted.pop("time"))
    assert noted.pop("request_id").startswith("req_")
    assert noted == {
        "level": "info",
        "logger": "dragoman",
        "event": "request",
        "message": "messages→chat claude-x → claude-x completed",
        "ended": "completed",
        "status": 200,
        "client": "messages",
        "upstream": "chat",
        "model": "claude-x",
        "upstream_model": "claude-x",
        "stream": True,
        "tokens_in": 5,
        "tokens_out": 9,
        "provider": "up",
        "route": "*",
        "client_profile": "claude-code",
        "losses": {"top_k": 1},
    }


async def test_debug_lines_report_what_was_sent_and_what_was_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dragoman")
    key = "sk-very-secret-4711"
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT)
        config = replace(config, providers={"up": Provider("up", CHAT, server.url, Secret(key))})
        async with gate(config) as entrance, entrance.post(MESSAGES, top_k=3) as response:
            await response.read()
    understood, answered, completed, lost = _lines(caplog)
    assert re.fullmatch(
        r"messages request of \d+ bytes, client profile none; model m by route \* to up at 127\.0\.0\.1:\d+, \d+ bytes,"
        r" profile compatible",
        understood,
    )
    assert re.fullmatch(r"upstream answered 200 after \d+\.\d{3} s", answered)
    assert " completed " in completed
    assert lost.startswith("loss top_k at top_k: ")
    assert key not in caplog.text
