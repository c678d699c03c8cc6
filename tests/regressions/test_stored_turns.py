"""Group F: turns that lean on what a server stored, and the WebSocket that they come by."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman import DragomanError, LossCode, direction, translate
from dragoman.dialects import Dialect
from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.websocket import WebSocketOptions
from oracles.requests import check
from regressions.dialect_bodies import RESPONSES, offered, to_responses
from regressions.wire import send
from support.directions import Json, ask
from support.gateways import config_for, gate
from support.samples import TEXT, dump, read_error, reply, request, text_stream
from support.sockets import ScriptedServer, answer, stream
from support.stateful import stateful
from support.websockets import HANDSHAKE, speaking

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
OUTPUT: Json = {"type": "function_call_output", "call_id": "call_a", "output": "y"}
HEADERS = {"anthropic-version": "2023-06-01"}


@to_responses
@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_T51_a_turn_that_leans_on_a_stored_one_is_refused_with_clear_words(upstream: str, field: str) -> None:
    """WebSocket turns lose `previous_response_id`: "No tool call found" (router-for-me/CLIProxyAPI#2596,
    Soju06/codex-lb#395). Without the turns before it such a request means something else, so it is not sent."""
    with pytest.raises(DragomanError, match="send the whole conversation as `input`") as caught:
        send(RESPONSES, upstream, input=[OUTPUT], **{field: "resp_1"})
    assert caught.value.failure.status == 400
    assert caught.value.failure.param == field


def test_T51_the_same_goes_through_untouched_to_an_upstream_that_stores() -> None:
    """The field is lost between two sides of one dialect (router-for-me/CLIProxyAPI#4524, Soju06/codex-lb#782)."""
    raw = dump({"model": "m", "previous_response_id": "resp_1", "input": [OUTPUT], "store": True})
    assert translate(direction(RESPONSES, RESPONSES), raw).body == raw


@to_responses
def test_T51_an_output_whose_call_was_lost_is_reported_and_not_passed_on(upstream: str) -> None:
    """ "No tool call found for function call output with call_id" (router-for-me/CLIProxyAPI#2596)."""
    body, translation = send(
        RESPONSES, upstream, input=[OUTPUT, {"role": "user", "content": "go on"}], tools=offered(RESPONSES, "read")
    )
    check(upstream, body, HEADERS)
    assert "call_a" not in json.dumps(body)
    assert translation.losses.counts == {LossCode.ORPHAN_DROPPED: 1}


@to_responses
def test_T51_the_reply_promises_no_stored_response(upstream: str) -> None:
    """A client that is reported `store: true` leans on it in its next turn (Soju06/codex-lb#395)."""
    raw = json.dumps(ask(RESPONSES, store=True, previous_response_id=None)).encode()
    translation = translate(direction(RESPONSES, upstream), raw)
    got = json.loads(translation.reply(dump(reply(Dialect(upstream)))))
    assert (got["store"], got["previous_response_id"]) == (False, None)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("off", "send the whole conversation as `input`"), ("memory", "Previous response with id 'resp_1' not found.")],
)
async def test_T51_the_refusal_reaches_the_client_and_nothing_goes_upstream(kind: Any, words: str) -> None:
    """Likewise on the wire (router-for-me/CLIProxyAPI#4524), without a store and with one."""
    body = request(Dialect.RESPONSES, previous_response_id="resp_1", stream=True)
    async with (
        ScriptedServer(answer(200, b"{}")) as server,
        gate(replace(config_for(server.url, CHAT), state=StateOptions(kind=kind))) as entrance,
    ):
        status, error, _ = await entrance.refusal(Dialect.RESPONSES, body)
        assert (status, error.param, error.type) == (400, "previous_response_id", "invalid_request_error")
        assert words in error.message
        assert not server.requests


@pytest.mark.parametrize("upstream", list(Dialect))
async def test_T51_a_stored_turn_is_continued_over_any_upstream(upstream: Dialect) -> None:
    """An output alone finds its call in the stored response before it (router-for-me/CLIProxyAPI#2596)."""
    tools = offered(RESPONSES, "get_weather")
    async with stateful(upstream) as state:
        first = await state.sdk.responses.create(model="sim-tools", input="Weather?", tools=tools)
        call = next(item for item in first.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain in the north"}
        second = await state.sdk.responses.create(
            model="sim-tools", previous_response_id=first.id, input=[output], tools=tools
        )
        assert "rain in the north" in second.output_text
        assert call.call_id in json.dumps(state.sent())


@pytest.mark.parametrize("upstream", list(Dialect))
async def test_T51_a_turn_over_the_websocket_has_all_turns_before_it(upstream: Dialect) -> None:
    """Turns over a WebSocket carry the new items only (router-for-me/CLIProxyAPI#2596): the upstream gets them all."""
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as entrance,
        speaking(entrance.url) as client,
    ):
        previous = None
        for text in ("one", "two", "three"):
            events = await client.turn(input=text, previous_response_id=previous, store=False)
            previous = events[-1]["response"]["id"]
        body = server.requests[-1].body.decode()
        assert body.count(json.dumps(TEXT, ensure_ascii=False)) == 2
        assert body.index('"one"') < body.index('"two"') < body.index('"three"')
        assert "previous_response_id" not in body


async def test_T51_the_websocket_names_a_lost_turn_as_codex_clients_know_it() -> None:
    """They send the whole conversation again on this code alone (Soju06/codex-lb#782)."""
    async with (
        ScriptedServer(answer(200, b"{}")) as server,
        gate(config_for(server.url, MESSAGES)) as entrance,
        speaking(entrance.url) as client,
    ):
        (error,) = await client.turn(previous_response_id="resp_1", input=[OUTPUT])
        assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
        assert not server.requests


async def test_T51_codex_is_sent_back_to_post_where_the_websocket_is_switched_off() -> None:
    """On a 426 Codex falls back to POST, with the whole conversation (Soju06/codex-lb#395)."""
    off = WebSocketOptions(enabled=False)
    async with (
        ScriptedServer(answer(200, b"{}")) as server,
        gate(config_for(server.url, MESSAGES, websocket=off)) as entrance,
        entrance.session.get(f"{entrance.url}/v1/responses", headers=HANDSHAKE) as response,
    ):
        assert response.status == 426
        assert "POST" in read_error(Dialect.RESPONSES, await response.read()).message
        assert not server.requests
