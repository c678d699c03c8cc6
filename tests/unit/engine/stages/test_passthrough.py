"""Bytes in, bytes out: whole frames only, nothing behind the terminal one, an error where a stream was cut."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect, Limits
from dragoman.canonical.events import Usage
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.messages.stream.observer import MessagesObserver
from dragoman.reply_context import ReplyContext
from dragoman.stages.passthrough import Passthrough
from dragoman.wire.json_edit import JsonStringRewriter
from oracles.grammar import chat, messages
from support.strategies import splits


def chunk(content: str | None = None, finish: str | None = None, **extra: Any) -> bytes:
    delta = {} if content is None else {"content": content}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    payload = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": choices, **extra}
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


ROLE = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
)
HEL, FINISH, DONE = chunk("Hel"), chunk(None, "stop"), b"data: [DONE]\n\n"
WHOLE = ROLE + HEL + FINISH + DONE
CUT = b'data: {"error":{"message":"upstream stream ended before its terminal event"'


def machine(model: str | None = None, limits: Limits | None = None) -> Passthrough:
    renamer = JsonStringRewriter(model, ("model",)) if model is not None else None
    return Passthrough(ChatObserver(), ReplyContext("m", limits=limits or Limits()), renamer)


def play(stage: Passthrough, *pieces: bytes) -> bytes:
    out = b""
    for piece in pieces:
        out += stage.feed(piece)
        if stage.done:
            return out
    return out + stage.finish()


def test_a_whole_stream_is_forwarded_untouched_and_done_with_its_terminal() -> None:
    stage = machine()
    assert stage.feed(WHOLE) == WHOLE
    assert stage.done


def test_T71_only_whole_frames_leave() -> None:
    stage = machine()
    assert stage.feed(ROLE + HEL[:30]) == ROLE
    assert stage.feed(HEL[30:-1]) == b""
    assert stage.feed(HEL[-1:]) == HEL


@pytest.mark.parametrize("size", range(len(ROLE), len(ROLE + HEL + FINISH)))
def test_T22_T23_a_cut_stream_ends_in_an_error_and_not_in_half_a_frame(size: int) -> None:
    whole = ROLE + HEL + FINISH
    out = play(machine(), whole[:size])
    if size >= len(whole) - 2:  # the last frame is there but for its blank line, without which clients ignore it
        assert out == whole
        return
    assert CUT in out
    assert chat.check(out).error is not None


def test_chat_may_end_without_done_and_without_the_usage_chunk() -> None:
    assert play(machine(), ROLE, HEL, FINISH) == ROLE + HEL + FINISH
    usage = chunk(usage={"prompt_tokens": 1, "completion_tokens": 1})
    assert play(machine(), ROLE, HEL, FINISH, usage[:40]) == ROLE + HEL + FINISH
    assert play(machine(), ROLE, HEL, FINISH, usage[:-2]) == ROLE + HEL + FINISH + usage
    assert play(machine(), ROLE, HEL, FINISH, b"data:\n") == ROLE + HEL + FINISH  # no event, and no blank line for one


def test_T27_done_without_a_finish_is_replaced_by_an_error() -> None:
    stage = machine()
    out = play(stage, ROLE + HEL + DONE + FINISH)
    assert out.startswith(ROLE + HEL + CUT)
    assert DONE not in out
    assert stage.done


def test_T26_nothing_behind_the_terminal_frame() -> None:
    assert play(machine(), WHOLE + b": late\n\n" + HEL + DONE) == WHOLE
    error = b'data: {"error":{"message":"no","type":"server_error","param":null,"code":null}}\n\n'
    assert play(machine(), ROLE + error + HEL) == ROLE + error


def test_the_upstreams_own_error_is_not_followed_by_another() -> None:
    error = b'data: {"error":{"message":"no","type":"server_error","param":null,"code":null}}\n\n'
    stage = machine()
    assert play(stage, ROLE + HEL + error) == ROLE + HEL + error
    assert stage.observer.failure is not None
    assert stage.observer.failure.message == "no"


def test_empty_and_foreign_bodies_are_cut_streams() -> None:
    assert play(machine()).startswith(CUT)
    assert play(machine(), b"<html>502</html>\n").startswith(CUT)


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf", b": hi\n\n"])
def test_any_line_end_and_any_split_forward_the_same_bytes(eol: bytes, head: bytes) -> None:
    whole = (head + WHOLE).replace(b"\n", eol)
    for at in range(len(whole) + 1):
        assert play(machine(), whole[:at], whole[at:]) == whole, at
    assert play(machine(), *(whole[at : at + 1] for at in range(len(whole)))) == whole


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf", b": hi\n\n"])
def test_the_model_is_renamed_in_every_chunk_and_nothing_else_changes(eol: bytes, head: bytes) -> None:
    tricky = chunk('"model":"up"', None, native={"model": "up"})
    whole = (head + ROLE + tricky + HEL + FINISH + DONE).replace(b"\n", eol)
    out = play(machine("client"), whole)
    payload = [json.loads(line[6:]) for line in out.replace(b"\xef\xbb\xbf", b"").split(eol) if line[6:7] == b"{"]
    assert [frame["model"] for frame in payload] == ["client"] * 4
    assert payload[1]["native"] == {"model": "up"}
    assert payload[1]["choices"][0]["delta"]["content"] == '"model":"up"'
    assert len(whole) + 4 * (len("client") - len("up")) == len(out)


def test_the_model_is_renamed_in_a_frame_of_several_lines() -> None:
    frame = (
        b'data: {"id":"c",\ndata: "model":"up",\n'
        b'data:"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"stop"}]}\n\n'
    )
    assert play(machine("client"), frame) == frame.replace(b'"up"', b'"client"')


def test_the_model_of_a_messages_stream_stands_in_its_first_event() -> None:
    start = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":"up","role":"assistant",'
    start += b'"content":[],"usage":{"input_tokens":1,"output_tokens":0}}}\n\n'
    stop = b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    stop += b'"usage":{"output_tokens":1}}\n\n'
    stop += b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    stage = Passthrough(MessagesObserver(), ReplyContext("m"), JsonStringRewriter("client", ("message", "model")))
    assert play(stage, start + stop) == start.replace(b'"up"', b'"client"') + stop
    cut = play(Passthrough(MessagesObserver(), ReplyContext("m")), start)
    assert cut.startswith(start)
    assert b"event: error\n" in cut
    assert messages.check(cut[len(start) :]).error is not None


@pytest.mark.parametrize("data", [b"overloaded, try again", b'{"error": {"message": "overlo'])
@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_an_error_event_that_is_not_json_becomes_one_that_is(dialect: Dialect, data: bytes) -> None:
    out = play(Passthrough(CODECS[dialect].observer(), ReplyContext("m")), b"event: error\ndata: " + data + b"\n\n")
    payloads = [json.loads(line[6:]) for line in out.split(b"\n") if line.startswith(b"data: {")]
    assert "overlo" in json.dumps(payloads[-1])


def test_a_frame_beyond_the_limit_ends_in_an_error() -> None:
    for pieces in ([ROLE + HEL + chunk("x" * 400)], [ROLE + HEL, chunk("x" * 400)[:300], b"y"]):
        stage = machine(limits=Limits(sse_frame=250, sse_line=250))
        out = play(stage, *pieces)
        assert out.startswith(ROLE + HEL + b'data: {"error":{"message":"upstream exceeded the limit sse_')
        assert stage.done


def test_usage_is_observed() -> None:
    stage = machine()
    play(stage, ROLE + HEL + FINISH + chunk(usage={"prompt_tokens": 3, "completion_tokens": 4}, choices=[]) + DONE)
    assert stage.observer.usage == Usage(3, None, None, 4)


@given(st.data())
def test_any_split_makes_the_same_bytes(data: st.DataObject) -> None:
    parts = data.draw(
        st.lists(st.sampled_from((ROLE, HEL, FINISH, DONE, b": c\n\n", b"event: x\n", b"\n")), max_size=8)
    )
    whole = b"".join(parts)
    if data.draw(st.booleans()):
        whole = whole.replace(b"\n", b"\r\n")
    whole = whole[: data.draw(st.integers(0, len(whole)))]
    pieces = data.draw(splits(whole))
    assert play(machine("client"), *pieces) == play(machine("client"), whole)


def test_pairs_of_frames_never_mix() -> None:
    for one, two in pairwise((ROLE, HEL, FINISH, DONE)):
        before = b"" if one is ROLE else ROLE
        assert machine().feed(before + one + two[:5]) == before + one


def test_a_long_frame_in_many_pieces_is_not_copied_for_each() -> None:
    stage = Passthrough(ChatObserver(), ReplyContext("m"))
    piece = b"data:" + b" " * 1000 + b"\n"
    assert stage.feed(piece) == b""
    held = stage._held
    for _ in range(399):
        assert stage.feed(piece) == b""
        assert stage._held is held
    assert len(held) == 400 * len(piece)


@pytest.mark.parametrize("frame", [b"\r\r\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\r\n\r", b"\n\n"])
def test_mixed_line_ends_behind_the_last_event_are_forwarded_alike(frame: bytes) -> None:
    """Found by fuzzing: a line feed behind two carriage returns was forwarded if it came with them."""
    data = b"".join(each.removesuffix(b"\n\n") + frame for each in (ROLE, HEL, FINISH, DONE))
    whole = play(machine(), data)
    assert play(machine(), *(data[at : at + 1] for at in range(len(data)))) == whole
    assert chat.check(whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).finish == "stop"
