"""Group C: the reason of an error reaches the client, in whatever form a server sends it (streams §9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction
from dragoman.dialects.errors.fields import reports_error
from dragoman.errors import UpstreamStatusError
from regressions.dialect_bodies import EVERY, RESPONSES, assistant_turn, begins, every_direction, starts, writes
from regressions.wire import CHAT, MESSAGES, events_of
from support.directions import translated

REASON = "slow down, please"
NESTED = {"error": {"message": REASON, "type": "rate_limit_error", "code": 429}}
FLAT = {"code": "rate_limit_exceeded", "message": REASON}
PRETTY = json.dumps(NESTED, indent=2).encode()
HI = ("text", "Hi there")


def data(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def packed(text: str) -> bytes:
    """An error whose message holds another one, which is JSON."""
    return data({"error": {"message": text, "type": "server_error", "code": 500}})


FORMS: dict[str, bytes] = {
    "bare": json.dumps(NESTED).encode(),
    "bare, a line end": json.dumps(NESTED).encode() + b"\n",
    "bare, a blank line": json.dumps(NESTED).encode() + b"\n\n",
    "bare, CRLF": json.dumps(NESTED).encode() + b"\r\n",
    "bare on several lines": PRETTY + b"\n",
    "bare on several lines, a blank line": PRETTY + b"\n\n",
    "bare array": json.dumps([NESTED]).encode() + b"\n",
    "bare array on several lines": json.dumps([NESTED], indent=2).encode(),
    "bare and flat": json.dumps(FLAT).encode() + b"\n",
    "array": data([NESTED]),
    "array, no blank line": data([NESTED])[:-2],
    "flat": data(FLAT),
    "flat with a number": data({"code": 429, "msg": REASON}),
    "named error, flat": b"event: error\n" + data(FLAT),
    "named error, flat, no space": b"event:error\ndata:" + json.dumps(FLAT).encode() + b"\n\n",
    "named error, no blank line": b"event: error\n" + data(FLAT)[:-2],
    "named error, message and status": b"event: error\n" + data({"status": 429, "message": REASON}),
    "JSON in the message": packed(json.dumps(NESTED)),
    "JSON behind words": packed("Provider returned error: " + json.dumps(NESTED)),
    "JSON between words": packed("429 [" + json.dumps(NESTED) + "] (try later)"),
    "JSON in JSON in the message": packed(json.dumps({"error": {"message": json.dumps(NESTED)}})),
}
CHOICES = {
    "in the choice": {"message": REASON, "code": 429},
    "in the choice, raw": {"message": "Provider returned error", "code": 429, "metadata": {"raw": json.dumps(NESTED)}},
}


def beginning(upstream: str) -> bytes:
    return b"".join([*begins(upstream), *starts(upstream, 0, [HI]), *writes(upstream, 0, [HI], "Hi")])


def play(client: str, upstream: str, stream: bytes, size: int = 0) -> tuple[bytes, Any]:
    """The client's bytes for an upstream's stream in pieces of `size` bytes, and the machine."""
    machine = translated(direction(client, upstream)).stream_machine()
    out = b""
    for at in range(0, len(stream), size or len(stream)):
        out += machine.feed(stream[at : at + (size or len(stream))])
        if machine.done:
            break
    return out + machine.finish(), machine


def reason_in(client: str, out: bytes) -> tuple[str, str]:
    """Class and message of the last event, which is an error that the client's SDK reads."""
    last = events_of(out)[-1]
    if client == CHAT:
        return last["error"]["type"], last["error"]["message"]
    if client == MESSAGES:
        assert b"event: error\ndata: " in out
        assert last["type"] == "error"
        return last["error"]["type"], last["error"]["message"]
    assert last["type"] == "response.failed"
    return last["response"]["error"]["code"], last["response"]["error"]["message"]


CLASS = {CHAT: "rate_limit_error", MESSAGES: "rate_limit_error", RESPONSES: "rate_limit_exceeded"}


@pytest.mark.parametrize("form", FORMS)
@every_direction
def test_T22_the_reason_of_any_form_reaches_the_client(client: str, upstream: str, form: str) -> None:
    """The client saw "ended before its terminal event" instead of the reason."""
    stream = beginning(upstream) + FORMS[form]
    out, machine = play(client, upstream, stream)
    kind, message = reason_in(client, out)
    assert (kind, REASON in message, "{" in message) == (CLASS[client], True, False)
    assert machine.failure is not None
    assert machine.failure.status == 429
    assert b"before its terminal event" not in out
    for size in (1, 7):
        assert play(client, upstream, stream, size)[0] == out


@pytest.mark.parametrize("form", FORMS)
@every_direction
def test_T22_an_error_in_place_of_a_stream_is_one(client: str, upstream: str, form: str) -> None:
    """An error without a stream was an empty or broken one."""
    out, machine = play(client, upstream, FORMS[form])
    assert REASON in reason_in(client, out)[1]
    assert machine.failure.status == 429
    if client == RESPONSES:  # the SDK accepts no other first event
        assert events_of(out)[0]["type"] == "response.created"


@pytest.mark.parametrize("finish", [None, "error", "stop"])
@pytest.mark.parametrize("form", CHOICES)
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_T22_an_error_in_a_choice_is_one(client: str, form: str, finish: str | None) -> None:
    """The reply ended as if it was complete."""
    choice = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "finish_reason": finish,
        "error": CHOICES[form],
    }
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]}
    out, machine = play(client, CHAT, beginning(CHAT) + data(chunk) + b"data: [DONE]\n\n")
    kind, message = reason_in(client, out)
    assert (kind, REASON in message) == (CLASS[client], True)
    assert machine.failure.status == 429
    assert b"[DONE]" not in out


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_T22_an_error_in_the_choice_of_a_whole_reply_is_one(client: str) -> None:
    """The reply was empty."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "error": CHOICES["in the choice"]}
    body = json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode()
    with pytest.raises(UpstreamStatusError) as raised:
        translated(direction(client, CHAT)).reply(body)
    assert (raised.value.failure.status, raised.value.failure.message) == (429, REASON)


@pytest.mark.parametrize("body", [[NESTED], [NESTED, NESTED], FLAT, {"error_code": 429, "error_message": REASON}])
@every_direction
def test_T22_an_error_under_a_success_status_has_its_own(client: str, upstream: str, body: Any) -> None:
    """An array of errors was "not a JSON object"."""
    for read in (translated(direction(client, upstream)).reply, translated(direction(client, upstream)).replay):
        with pytest.raises(UpstreamStatusError) as raised:
            read(json.dumps(body).encode())
        assert REASON in raised.value.failure.message
        if body != FORMS and "error_code" not in body:
            assert raised.value.failure.status == 429


@every_direction
def test_T24_bare_json_that_is_no_error_is_ignored_as_the_standard_states(client: str, upstream: str) -> None:
    """A progress line must not end a stream."""
    frames = assistant_turn(upstream, HI)
    for line in (b'{"progress":1}\n\n', b'{"message":"one moment"}\n', b"[1,2]\n\n", b"{}\n", b"{not JSON\n\n"):
        out, machine = play(client, upstream, frames[0] + frames[1] + line + b"".join(frames[2:]))
        assert machine.failure is None, line
        assert out


@pytest.mark.parametrize(
    "payload",
    [None, 7, "x", [], {}, [{}], {"message": "x"}, {"status": "queued", "message": "x"}, {"code": 0, "message": "ok"},
     {"code": 200, "msg": "ok"}, {"type": "notice", "message": "x"}, {"message": {"content": "x"}, "type": "error"}],
)  # fmt: skip
def test_T24_what_only_resembles_an_error_is_none(payload: Any) -> None:
    """A progress object must not end a stream."""
    assert not reports_error(payload)


def test_every_direction_is_played() -> None:
    assert len(EVERY) == 9
