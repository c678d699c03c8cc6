"""The facade: one request there, one reply back, as pure functions."""

from __future__ import annotations

import json

import pytest

from dragoman import Dialect, Knobs, Limits, direction, translate
from dragoman.errors import (
    ClientRequestError,
    FailureKind,
    LimitExceeded,
    Unsupported,
    UpstreamProtocolError,
    UpstreamStatusError,
)
from dragoman.translate_request import parse_body
from support import samples
from support.short_requests import BODIES, CHAT, CHAT_REPLY, CROSS, MESSAGES, Json, raw

SAME = [("messages", "messages"), ("chat", "chat")]


@pytest.mark.parametrize(("client", "upstream"), SAME)
def test_passthrough_bytes_are_untouched(client: str, upstream: str) -> None:
    body = b'  { "model" : "client",\n "novelty":1.0, "stream":true, "messages":[ ] , "x":"\\u00e9"}\n'
    translation = translate(direction(client, upstream), body)
    assert translation.body == body
    assert translation.stream
    assert translation.upstream_model == "client"
    assert len(translation.losses) == 0


@pytest.mark.parametrize(("client", "upstream"), SAME)
def test_passthrough_renames_the_model_and_nothing_else(client: str, upstream: str) -> None:
    body = b'{"messages":[{"role":"user","content":"\\"model\\":\\"client\\""}], "model" : "client", "x":{"model":"a"}}'
    translation = translate(direction(client, upstream), body, upstream_model="up/é")
    assert translation.body == body.replace(b'"model" : "client"', b'"model" : "up/\xc3\xa9"')
    assert json.loads(translation.body)["messages"] == json.loads(body)["messages"]
    reply = samples.dump({**samples.reply(Dialect(upstream)), "model": "up/e-0101", "extra": {"model": "x"}})
    assert translation.reply(reply) == reply.replace(b"up/e-0101", b"client")
    kept = translate(direction(client, upstream), body, upstream_model="up", knobs=Knobs(echo_model="upstream"))
    assert kept.reply(reply) == reply


def test_passthrough_with_an_escaped_key_is_written_again() -> None:
    translation = translate(direction("chat", "chat"), b'{"mod\\u0065l":"client","messages":[]}', upstream_model="up")
    assert json.loads(translation.body) == {"model": "up", "messages": []}


def test_passthrough_never_refuses_losses() -> None:
    body = raw({**CHAT, "seed": 1})
    assert translate(direction("chat", "chat"), body, knobs=Knobs(on_loss="reject")).body == body


@pytest.mark.parametrize(("client", "upstream"), CROSS + SAME)
@pytest.mark.parametrize(
    ("change", "path"),
    [({"model": None}, "model"), ({"model": ""}, "model"), ({"model": 5}, "model"), ({"stream": "yes"}, "stream")],
)
def test_errors_name_the_clients_field(client: str, upstream: str, change: Json, path: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        translate(direction(client, upstream), raw({**BODIES[client], **change}))
    failure = caught.value.failure
    assert (failure.kind, failure.status, failure.param) == (FailureKind.INVALID_REQUEST, 400, path)
    assert failure.message.startswith(f"{path}: ")


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_errors_deep_in_the_body_have_their_whole_path(client: str, upstream: str) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "user", "content": [{"type": "text", "text": 5}]}]
    with pytest.raises(ClientRequestError) as caught:
        translate(direction(client, upstream), raw({**BODIES[client], "messages": messages}))
    assert caught.value.failure.param == "messages[1].content[0].text"


def test_strict_mode_refuses_the_first_loss_and_a_reply_is_never_refused() -> None:
    body = raw({**MESSAGES, "top_k": 5})
    recorded = translate(direction("messages", "chat"), body)
    assert [row.code for row in recorded.losses.rows] == ["top_k"]
    with pytest.raises(Unsupported) as caught:
        translate(direction("messages", "chat"), body, knobs=Knobs(on_loss="reject"))
    assert caught.value.failure.param == "top_k"
    kept = translate(direction("chat", "messages"), raw(CHAT), knobs=Knobs(on_loss="reject"))
    refused: Json = {
        "id": "u",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_sequence": None,
    }
    refused |= {"stop_reason": "novel", "usage": {"input_tokens": 1, "output_tokens": 1}}
    kept.reply(raw({**refused, "content": [{"type": "text", "text": "a"}]}))
    assert [row.code for row in kept.losses] == ["cap_added", "stop_unknown"]


def test_a_whole_reply_has_the_clients_shape_name_and_id() -> None:
    reply = json.loads(translate(direction("messages", "chat"), raw(MESSAGES)).reply(raw(CHAT_REPLY)))
    assert (reply["id"], reply["type"], reply["model"]) == ("msg_1", "message", "client")
    assert reply["usage"]["input_tokens"] == 3


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"x"', b"{}"])
def test_a_whole_reply_that_is_none_is_the_upstreams_fault(body: bytes) -> None:
    with pytest.raises(UpstreamProtocolError) as caught:
        translate(direction("messages", "chat"), raw(MESSAGES)).reply(body)
    assert caught.value.failure.status == 502


def test_an_error_body_under_200_is_that_error() -> None:
    body = raw({"error": {"message": "slow down", "type": "rate_limit_error", "code": None, "param": None}})
    with pytest.raises(UpstreamStatusError) as caught:
        translate(direction("messages", "chat"), raw(MESSAGES)).reply(body)
    assert caught.value.failure.kind is FailureKind.RATE_LIMIT


def test_limits_of_bodies() -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_body(b" " * 11, Limits(request_body=10))
    assert caught.value.failure.status == 413
    translation = translate(direction("messages", "chat"), raw(MESSAGES), limits=Limits(reply_body=10))
    with pytest.raises(LimitExceeded) as late:
        translation.reply(b" " * 11)
    assert late.value.failure.status == 502


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'{"a":NaN}', b"\xff"])
def test_bodies_that_are_no_json_object_are_the_clients_fault(body: bytes) -> None:
    with pytest.raises(ClientRequestError):
        parse_body(body)


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_T81_equal_input_makes_equal_bytes(client: str, upstream: str) -> None:
    body = raw(BODIES[client])
    first, second = (translate(direction(client, upstream), body) for _ in range(2))
    assert first.body == second.body
    assert translate(direction(client, upstream), body, payload=json.loads(body)).body == first.body


def test_each_stream_gets_fresh_stages() -> None:
    translation = translate(direction("messages", "chat"), raw({**MESSAGES, "stream": True}))
    one, two = translation.stream_machine(), translation.stream_machine()
    chunk = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    assert one.feed(chunk) == two.feed(chunk)
    assert one.finish() == two.finish()


def test_directions_are_named_and_unknown_ones_refused() -> None:
    assert str(direction("chat", Dialect.MESSAGES)) == "chat→messages"
    assert direction("chat", "chat").passthrough
    with pytest.raises(ValueError, match="nonsense"):
        direction("chat", "nonsense")
