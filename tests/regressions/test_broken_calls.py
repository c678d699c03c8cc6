"""A call that is not whole is never closed, in any direction: a client runs a call when it ends.

The end of a call is the event behind which a client's SDK parses its arguments: `content_block_stop`, the `done` events
of Responses, the `finish_reason` of Chat.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction
from oracles.grammar import Call
from regressions import wire
from regressions.repaired import restored
from regressions.test_odd_calls import _stream, streamed
from regressions.wire import CHAT, MESSAGES, block, calls, delta, events_of, more_call, start_call, stop
from support import responses_frames as emitted
from support.directions import Json, ask, stream_through, translated
from support.responses_samples import numbered

RESPONSES = "responses"
BROKEN = ["{", '{"f":"a"', '{"f":"a"}}', "[1]", '{"f":"a"}{"f":"b"}', '{"f":nul}']


def _ends(client: str, out: bytes) -> list[str]:
    """The events of a client's stream behind which it runs a call."""
    if client == CHAT:
        return [str(one["choices"][0]["finish_reason"]) for one in events_of(out) if _is_finished(one)]
    ends = {"content_block_stop", "response.function_call_arguments.done", "response.output_item.done"}
    return [event["type"] for event in events_of(out) if event["type"] in ends]


def _is_finished(chunk: Json) -> bool:
    return bool(chunk.get("choices")) and chunk["choices"][0].get("finish_reason") is not None


@streamed
@pytest.mark.parametrize("arguments", BROKEN)
def test_T22_a_call_with_broken_arguments_is_not_closed_before_the_error(
    client: str, upstream: str, arguments: str
) -> None:
    """The end of the call reached the client, and then the error: the SDK had parsed it."""
    held, _, out = restored(client, upstream, *_stream(upstream, [arguments]))
    assert held.error is not None
    assert _ends(client, out) == []


@streamed
def test_T22_a_broken_call_before_another_block_is_not_closed(client: str, upstream: str) -> None:
    """Another block behind it shows that the reply was not cut in the call."""
    half = '{"f":'
    frames: list[bytes]
    if upstream == CHAT:
        one, two = start_call(0, "call_a", "read", half), start_call(1, "call_b", "read", "{}")
        frames = [wire.ROLE, calls(one), calls(two), wire.chunk({}, "tool_calls"), wire.DONE]
    elif upstream == MESSAGES:
        text = (block(1, type="text", text=""), delta(1, "text", "Hi"), stop(1))
        frames = [wire.begin(), wire.tool(0, "call_a", "read"), delta(0, "input_json", half), stop(0), *text]
        frames.append(wire.end("tool_use"))
    else:
        one, two = emitted.call("call_a", "read", half), emitted.call("call_b", "read", "{}")
        events = [emitted.created(), emitted.added(0, **{**one, "arguments": ""}), emitted.done(0, **one)]
        events += [emitted.added(1, **{**two, "arguments": ""}), emitted.done(1, **two)]
        end = {"type": "response.completed", "response": emitted.response("completed", [one, two])}
        frames = list(numbered(*events, end))
    held, _, out = restored(client, upstream, *frames)
    assert held.error is not None
    assert all(call.arguments != half or not _ends(client, out) for call in held.calls)


@streamed
@pytest.mark.parametrize("arguments", ["", '{"f":"a"'])
def test_T22_a_reply_that_was_cut_in_a_call_reports_the_cut(client: str, upstream: str, arguments: str) -> None:
    """Anthropic ends the block of a call that reached the limit, and Responses servers mark it as done."""
    stream = b"".join(_stream(upstream, [arguments] if arguments else []))
    changes = {
        CHAT: [(b'"finish_reason": "tool_calls"', b'"finish_reason": "length"')],
        MESSAGES: [(b'"stop_reason": "tool_use"', b'"stop_reason": "max_tokens"')],
        RESPONSES: [
            (b"response.completed", b"response.incomplete"),
            (b'"status": "completed", "output"', b'"status": "incomplete", "output"'),
            (b'"usage": {', b'"incomplete_details": {"reason": "max_output_tokens"}, "usage": {'),
        ],
    }
    for whole, cut in changes[upstream]:
        assert whole in stream
        stream = stream.replace(whole, cut)
    out = stream_through(translated(direction(client, upstream)), [stream])
    assert {CHAT: b'"length"', MESSAGES: b'"max_tokens"', RESPONSES: b'"response.incomplete"'}[client] in out


def test_T22_fragments_of_a_forwarded_call_are_kept_in_runs() -> None:
    """Frames that fit a template are not parsed: their arguments count all the same."""
    pieces = [f'{{"f":"{"a" * n}"' if n == 0 else f',"k{n}":{n}' for n in range(40)]
    for closing, ended in (("}", True), ("", False)):
        frames = [wire.ROLE, calls(start_call(0, "call_a", "read")), *(calls(more_call(0, piece)) for piece in pieces)]
        frames += [calls(more_call(0, closing))] if closing else []
        frames += [wire.chunk({}, "tool_calls"), wire.chunk(None, usage=wire.USAGE), wire.DONE]
        out = stream_through(translated(direction(CHAT, CHAT)), frames)
        assert (b'"tool_calls"}' in out or b'"finish_reason": "tool_calls"' in out) is ended
        if ended:
            assert out == b"".join(frames)


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
def test_T22_an_empty_object_after_a_text_is_held_until_the_next_fragment(dialect: str) -> None:
    """The frames of the text, and the held one, look like those that follow: they must not pass by it."""
    stream = _stream(dialect, ["{}", '{"f":', '"a"}'])
    if dialect == CHAT:
        stream[1:1] = [wire.chunk({"content": text}) for text in "abcd"]
    else:
        text = [block(0, type="text", text=""), *(delta(0, "text", text) for text in "abcd"), stop(0)]
        call = [wire.tool(1, "call_a", "read"), *(delta(1, "input_json", piece) for piece in ("{}", '{"f":', '"a"}'))]
        stream = [wire.begin(), *text, *call, stop(1), wire.end("tool_use")]
    held, _, _ = restored(dialect, dialect, *stream)
    assert held.error is None
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]


ODD_WHOLE = [("null", "{}"), ('"{\\"f\\":\\"a\\"}"', '{"f":"a"}')]


@pytest.mark.parametrize(("sent", "meant"), ODD_WHOLE)
@pytest.mark.parametrize("before", [[], [start_call(0, "call_0", "read", '{"f":1}')]])
def test_T22_a_forwarded_call_that_is_odd_from_its_first_frame_on(before: list[Any], sent: str, meant: str) -> None:
    """The frame was not forwarded, so its id and name have to be written."""
    frame = calls(*before, start_call(len(before), "call_a", "read", sent))
    held, _, _ = restored(CHAT, CHAT, wire.ROLE, frame, wire.chunk({}, "tool_calls"), wire.DONE)
    assert held.error is None
    assert held.calls[-1] == Call("call_a", "read", meant)


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
def test_T22_calls_without_arguments_before_an_odd_one(dialect: str) -> None:
    """Each is held until the next frame, which may be held too."""
    names = ["call_a", "call_b", "call_c"]
    frames: list[bytes]
    if dialect == CHAT:
        starts = [calls(start_call(number, name, "read", "{}")) for number, name in enumerate(names)]
        frames = [wire.ROLE, *starts, calls(more_call(2, '{"f":1}')), wire.chunk({}, "tool_calls"), wire.DONE]
    else:
        frames = [wire.begin()]
        for number, name in enumerate(names):
            pieces = ["{}", '{"f":1}'] if name == "call_c" else ["{}"]
            frames += [wire.tool(number, name, "read"), *(delta(number, "input_json", piece) for piece in pieces)]
            frames.append(stop(number))
        frames.append(wire.end("tool_use"))
    held, _, _ = restored(dialect, dialect, *frames)
    assert held.error is None
    assert held.calls == [Call(name, "read", '{"f":1}' if name == "call_c" else "{}") for name in names]


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
def test_T22_an_empty_object_within_arguments_is_not_the_first(dialect: str) -> None:
    """Nothing is held for it, and what follows it is kept for a later odd frame."""
    pieces = ['{"a":', "{}", ',"b":', "1}"]
    stream = _stream(dialect, pieces)
    if dialect == CHAT:
        odd = [calls(start_call(1, "call_b", "read")), calls(more_call(1, "null"))]
        stream[-3:-3] = odd
    else:
        stream[-1:-1] = [wire.tool(1, "call_b", "read"), delta(1, "input_json", "null"), stop(1)]
    held, _, _ = restored(dialect, dialect, *stream)
    assert held.error is None
    assert held.calls == [Call("call_a", "read", "".join(pieces)), Call("call_b", "read", "{}")]


def test_several_replies_in_one_are_forwarded() -> None:
    """A client that requests several choices reads them by their index."""
    body: dict[str, Any] = ask(CHAT, n=2)
    frames = [wire.chunk({"content": text}).replace(b'"index": 0', b'"index": %d' % n) for n, text in enumerate("ab")]
    frames += [wire.chunk({}, "stop").replace(b'"index": 0', b'"index": %d' % n) for n in range(2)]
    frames += [wire.chunk(None, usage=wire.USAGE), wire.DONE]
    assert stream_through(translated(direction(CHAT, CHAT), body), frames) == b"".join(frames)
    assert json.loads(translated(direction(CHAT, CHAT), body).body)["n"] == 2
