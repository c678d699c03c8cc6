"""Chat and Messages streams in a form of the server's own, forwarded to clients of the same dialect.

The official SDKs, and clients that join deltas themselves, hold of each what the server meant. They failed, or held a
text without its letters, a call without its arguments, or a reply that looked complete. A right stream passes byte for
byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from openai import APIError

from dragoman import direction
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    USAGE,
    begin,
    block,
    calls,
    chunk,
    delta,
    end,
    event,
    more_call,
    start_call,
    stop,
)
from support.directions import Json, stream_through, translated
from support.sdk_streams import Held, anthropic_messages, joined_chat, joined_messages, openai_chat

Reader = Callable[[bytes], Held]
READERS: dict[str, tuple[Reader, ...]] = {
    CHAT: (openai_chat, joined_chat),
    MESSAGES: (anthropic_messages, joined_messages),
}
OBJECT: Json = {"f": "a"}
ARGUMENTS = json.dumps(OBJECT)
Case = tuple[list[bytes], Held]


def read(dialect: str, frames: Iterable[bytes]) -> tuple[list[Held], bytes]:
    """Return what the clients hold, and the bytes of the stream: the same however it is split."""
    data = b"".join(frames)
    translation = translated(direction(dialect, dialect))
    out = stream_through(translation, [data])
    again = translated(direction(dialect, dialect))
    assert stream_through(again, [data[at : at + 1] for at in range(len(data))]) == out
    assert again.losses.rows == translation.losses.rows
    return [reader(out) for reader in READERS[dialect]], out


# --- Chat -----------------------------------------------------------------------------------------------------------

HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up"}
HI, STOP, CALLS, USED = chunk({"content": "Hi"}), chunk({}, "stop"), chunk({}, "tool_calls"), chunk(None, usage=USAGE)
COUNTS = (9, 3)
TEXT = Held("Hi", [], "stop", COUNTS)
CALL = Held("", [("read", OBJECT)], "tool_calls", COUNTS)
START = start_call(0, "call_a", "read")
WHOLE = start_call(0, "call_a", "read", ARGUMENTS)
LEGACY: Json = {"name": "read", "arguments": ARGUMENTS}


def raw(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def choices(*stated: Any, **more: Any) -> bytes:
    """A chunk with these choices."""
    return raw({**HEAD, "choices": list(stated), **more})


def changed(**members: Any) -> list[bytes]:
    """A right stream of whose chunks each has these members."""
    return [*(raw({**json.loads(frame[6:]), **members}) for frame in (ROLE, HI, STOP, USED)), DONE]


def indexed(**index: Any) -> list[bytes]:
    """A stream whose choice has this index, or none."""
    parts: tuple[Json, ...] = (
        {"delta": {"role": "assistant", "content": ""}},
        {"delta": {"content": "Hi"}},
        {"delta": {}, "finish_reason": "stop"},
    )
    return [*(choices(part | index) for part in parts), USED, DONE]


def ends(*frames: bytes) -> list[bytes]:
    return [*frames, STOP, USED, DONE]


def called(*frames: bytes) -> list[bytes]:
    return [ROLE, *frames, CALLS, USED, DONE]


CHAT_TEXTS: dict[str, Case] = {
    "content as one part": (ends(ROLE, chunk({"content": {"type": "text", "text": "Hi"}})), TEXT),
    "content as parts": (ends(ROLE, chunk({"content": [{"type": "text", "text": "Hi"}]})), TEXT),
    "an index null": (indexed(index=None), TEXT),
    "no index": (indexed(), TEXT),
    "an index of 1": (indexed(index=1), TEXT),
    "an index as text": (indexed(index="0"), TEXT),
    "no index in a later chunk": (ends(ROLE, choices({"delta": {"content": "Hi"}})), TEXT),
    "no role": (ends(HI), TEXT),
    "a role null": (ends(chunk({"role": None, "content": "Hi"})), TEXT),
    "the role model": (ends(chunk({"role": "model", "content": "Hi"})), TEXT),
    "STOP": ([ROLE, HI, chunk({}, "STOP"), USED, DONE], TEXT),
    "another dialect's end_turn": ([ROLE, HI, chunk({}, "end_turn"), USED, DONE], TEXT),
    "created as text": (changed(created="1"), TEXT),
    "created as a fraction": (changed(created=1.5), TEXT),
    "counts beside choices null": ([ROLE, HI, STOP, raw({**HEAD, "choices": None, "usage": USAGE}), DONE], TEXT),
    "counts without choices": ([ROLE, HI, STOP, raw({**HEAD, "usage": USAGE}), DONE], TEXT),
    "counts beside a choice null": ([ROLE, HI, STOP, choices(None, usage=USAGE), DONE], TEXT),
    "counts as text": ([ROLE, HI, STOP, chunk(None, usage={key: str(n) for key, n in USAGE.items()}), DONE], TEXT),
    "counts as fractions": (
        [ROLE, HI, STOP, chunk(None, usage={key: float(n) for key, n in USAGE.items()}), DONE],
        TEXT,
    ),
    "counts below zero": (
        [ROLE, HI, STOP, chunk(None, usage={**USAGE, "prompt_tokens": -9}), DONE],
        TEXT._replace(counts=(0, 3)),
    ),
    "counts in Claude's names": (
        [ROLE, HI, STOP, chunk(None, usage={"input_tokens": 9, "output_tokens": 3}), DONE],
        TEXT,
    ),
    "a delta null": ([ROLE, HI, choices({"index": 0, "delta": None, "finish_reason": "stop"}), USED, DONE], TEXT),
    "no delta": ([ROLE, HI, choices({"index": 0, "finish_reason": "stop"}), USED, DONE], TEXT),
    "a choice null": (ends(ROLE, choices(None), HI), TEXT),
    "a completion's text": (ends(choices({"index": 0, "text": "Hi"})), TEXT),
}
CHAT_CALLS: dict[str, Case] = {
    "a former call beside it": (called(chunk({"tool_calls": [WHOLE], "function_call": LEGACY})), CALL),
    "a former call behind it": (called(calls(WHOLE), chunk({"function_call": LEGACY})), CALL),
    "a former call only": ([ROLE, chunk({"function_call": LEGACY}), chunk({}, "function_call"), USED, DONE], CALL),
    "no index": (called(chunk({"tool_calls": [{**WHOLE, "index": None}]})), CALL),
    "an index of 1": (called(calls(start_call(1, "call_a", "read")), calls(more_call(1, ARGUMENTS))), CALL),
    "no type": (called(calls({"index": 0, "id": "call_a", "function": LEGACY})), CALL),
    "a type null": (called(calls({**WHOLE, "type": None})), CALL),
    "arguments as an object": (called(calls({**START, "function": {"name": "read", "arguments": OBJECT}})), CALL),
    "a fragment null": (called(chunk({"tool_calls": [None, START]}), calls(more_call(0, ARGUMENTS))), CALL),
    "stop behind a call": ([ROLE, calls(WHOLE), STOP, USED, DONE], CALL),
    "TOOL_CALLS": ([ROLE, calls(WHOLE), chunk({}, "TOOL_CALLS"), USED, DONE], CALL),
    "an empty object, an empty chunk": (
        called(calls(START), calls(more_call(0, "{}")), chunk({}), calls(more_call(0, ARGUMENTS))),
        CALL,
    ),
    "an empty object, counts": (
        called(calls(START), calls(more_call(0, "{}")), USED, calls(more_call(0, ARGUMENTS))),
        CALL,
    ),
}

# --- Messages -------------------------------------------------------------------------------------------------------

MESSAGE: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": []}
MESSAGE |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
BLOCK = [block(0, type="text", text=""), delta(0, "text", "Hi"), stop(0)]
LETTERS: Json = {"type": "text_delta", "text": "Hi"}
USE: Json = {"type": "tool_use", "id": "toolu_1", "name": "read"}
JSON_DELTA: Json = {"type": "input_json_delta", "partial_json": ARGUMENTS}
READ = Held("Hi", [], "end_turn", COUNTS)
USED_TOOL = Held("", [("read", OBJECT)], "tool_use", COUNTS)
INPUT = {"input_tokens": 9, "output_tokens": 3}


def started(omit: str = "", **members: Any) -> list[bytes]:
    """A stream whose message has these members, and not the one to omit."""
    message = {key: value for key, value in {**MESSAGE, **members}.items() if key != omit}
    return [event("message_start", message=message), *BLOCK, end("end_turn", **INPUT)]


def blocks(content: Any, *deltas: Any, ending: str = "end_turn", between: bytes = b"") -> list[bytes]:
    """A stream with one block."""
    fragments = [event("content_block_delta", index=0, delta=fragment) for fragment in deltas]
    start = event("content_block_start", index=0, content_block=content)
    return [begin(), start, *fragments[:1], between, *fragments[1:], stop(0), end(ending)]


def ended(**members: Any) -> list[bytes]:
    """A stream whose `message_delta` has these members only."""
    return [begin(), *BLOCK, event("message_delta", **members), event("message_stop")]


ENDED: Json = {"stop_reason": "end_turn", "stop_sequence": None}
PING = event("ping")
EMPTY_FIRST: Json = {"type": "input_json_delta", "partial_json": "{}"}
MESSAGES_TEXTS: dict[str, Case] = {
    "a block without type": (blocks({"text": ""}, LETTERS), READ),
    "a delta without type": (blocks({"type": "text", "text": ""}, {"text": "Hi"}), READ),
    "neither with a type": (blocks({"text": ""}, {"text": "Hi"}), READ),
    "a delta of a type of its own": (blocks({"type": "text", "text": ""}, {"type": "text", "text": "Hi"}), READ),
    "a block without its text": (blocks({"type": "text"}, LETTERS), READ),
    "a block with a text null": (blocks({"type": "text", "text": None}, LETTERS), READ),
    "no counts at the start": (started("usage"), READ),
    "counts null at the start": (started(usage=None), READ),
    "half of the counts at the start": (started(usage={"output_tokens": 1}), READ),
    "counts as text": (started(usage={"input_tokens": "9", "output_tokens": "1"}), READ),
    "counts as fractions": (started(usage={"input_tokens": 9.0, "output_tokens": 1.0}), READ),
    "counts below zero": (started(usage={"input_tokens": -9, "output_tokens": -1}), READ),
    "no role": (started("role"), READ),
    "no content": (started("content"), READ),
    "content null": (started(content=None), READ),
    "no id": (started("id"), READ),
    "no model": (started("model"), READ),
    "no message": ([event("message_start"), *BLOCK, end("end_turn", **INPUT)], READ),
    "no counts at the end": (ended(delta=ENDED), READ._replace(counts=None)),
    "counts null at the end": (ended(delta=ENDED, usage=None), READ._replace(counts=None)),
    "counts in the last event": (
        [begin(), *BLOCK, event("message_delta", delta=ENDED), event("message_stop", usage={"output_tokens": 3})],
        READ,
    ),
    "counts in an event of their own": (
        [begin(), *BLOCK, event("message_delta", usage={"output_tokens": 3}), end("end_turn")],
        READ,
    ),
    "END_TURN": (ended(delta={**ENDED, "stop_reason": "END_TURN"}, usage=INPUT), READ),
    "another dialect's stop": (ended(delta={**ENDED, "stop_reason": "stop"}, usage=INPUT), READ),
    "another dialect's length": (
        ended(delta={**ENDED, "stop_reason": "length"}, usage=INPUT),
        READ._replace(stop="max_tokens"),
    ),
}
MESSAGES_CALLS: dict[str, Case] = {
    "arguments in place of input": (blocks({**USE, "arguments": ARGUMENTS}, ending="tool_use"), USED_TOOL),
    "arguments as an object": (blocks({**USE, "arguments": OBJECT}, ending="tool_use"), USED_TOOL),
    "a block without type": (
        blocks({"id": "toolu_1", "name": "read", "input": {}}, JSON_DELTA, ending="tool_use"),
        USED_TOOL,
    ),
    "a delta without type": (
        blocks({**USE, "input": {}}, {"partial_json": ARGUMENTS}, ending="tool_use"),
        USED_TOOL,
    ),
    "an input null and no deltas": (
        blocks({**USE, "input": None}, ending="tool_use"),
        USED_TOOL._replace(calls=[("read", {})]),
    ),
    "an input that is a text": (blocks({**USE, "input": ARGUMENTS}, ending="tool_use"), USED_TOOL),
    "end_turn behind a call": (blocks({**USE, "input": {}}, JSON_DELTA), USED_TOOL),
    "TOOL_USE": (blocks({**USE, "input": {}}, JSON_DELTA, ending="TOOL_USE"), USED_TOOL),
    "an empty object, a ping": (
        blocks({**USE, "input": {}}, EMPTY_FIRST, JSON_DELTA, ending="tool_use", between=PING),
        USED_TOOL,
    ),
}
CASES = [
    pytest.param(dialect, *case, id=f"{dialect}, {kind}: {name}")
    for dialect, kind, cases in (
        (CHAT, "text", CHAT_TEXTS),
        (CHAT, "call", CHAT_CALLS),
        (MESSAGES, "text", MESSAGES_TEXTS),
        (MESSAGES, "call", MESSAGES_CALLS),
    )
    for name, case in cases.items()
]


@pytest.mark.parametrize(("dialect", "stream", "meant"), CASES)
def test_T28_clients_of_the_same_dialect_read_what_the_server_meant(
    dialect: str, stream: list[bytes], meant: Held
) -> None:
    """Bytes that are forwarded were read by the gateway as they were meant; the SDK raised `'NoneType' object has no
    attribute 'output_tokens'` (NousResearch/hermes-agent#60683, anthropics/anthropic-sdk-python#1806), or iterated over
    `choices: null` (pydantic/pydantic-ai#5165)."""
    held, out = read(dialect, stream)
    for client in held:
        assert client == (meant if meant.counts else meant._replace(counts=client.counts))
    assert out != b"".join(stream)


def test_T28_what_a_server_adds_stays_in_a_chunk_that_lacks_a_member() -> None:
    """A delta null is that of Azure's chunks with the results of a filter (eneo-ai/eneo#126)."""
    frames = [choices({"index": 0, "delta": {"content": "Hi"}}, provider="x"), STOP, USED, DONE]
    _, out = read(CHAT, frames)
    assert b'"provider":"x"' in out
    assert out.endswith(b"".join(frames[1:]))


def test_T28_former_calls_reach_a_client_that_requested_them() -> None:
    """`functions` in place of `tools`: its client reads nothing else."""
    frames = [ROLE, chunk({"function_call": LEGACY}), chunk({}, "function_call"), USED, DONE]
    functions = [{"name": "read", "parameters": {"type": "object", "properties": {}}}]
    assert stream_through(translated(direction(CHAT, CHAT), functions=functions), frames) == b"".join(frames)


def test_T22_a_word_of_another_vendor_for_a_cut_reply_is_one_of_the_clients() -> None:
    """`MAX_TOKENS` was forwarded: OpenAI's SDK raised no error for the cut reply."""
    frames = [ROLE, HI, chunk({}, "MAX_TOKENS"), USED, DONE]
    out = stream_through(translated(direction(CHAT, CHAT)), frames)
    assert joined_chat(out).stop == "length"


RIGHT = {
    "a text": (CHAT, ends(ROLE, HI)),
    "a call": (CHAT, called(calls(START), calls(more_call(0, ARGUMENTS)))),
    "a call without arguments": (CHAT, called(calls(START), calls(more_call(0, "{}")))),
    "a word that is not known": (CHAT, [ROLE, HI, chunk({}, "weird"), USED, DONE]),
    "a block": (MESSAGES, started()),
    "a tool": (MESSAGES, blocks({**USE, "input": {}}, JSON_DELTA, ending="tool_use")),
    "pings": (MESSAGES, [PING, begin(), BLOCK[0], PING, *BLOCK[1:], PING, end("end_turn")]),
    "a reason that is not known": (MESSAGES, ended(delta={**ENDED, "stop_reason": "weird"}, usage=INPUT)),
}


@pytest.mark.parametrize(("dialect", "stream"), RIGHT.values(), ids=RIGHT)
def test_a_right_stream_passes_byte_for_byte(dialect: str, stream: list[bytes]) -> None:
    """Vendors add stop reasons, which newer clients know."""
    assert stream_through(translated(direction(dialect, dialect)), stream) == b"".join(stream)


def test_T24_a_ping_before_the_stop_reason_of_a_cut_call_passes() -> None:
    """The frames behind it were written again."""
    start = [begin(), block(0, **USE, input={}), delta(0, "input_json", '{"f":')]
    frames = [*start, stop(0), PING, end("max_tokens")]
    out = stream_through(translated(direction(MESSAGES, MESSAGES)), frames)
    assert out == b"".join([*start, PING, stop(0), end("max_tokens")])


@pytest.mark.parametrize("delta_", ["Hi", {"content": 5}])
def test_T28_what_has_no_meaning_is_an_error(delta_: Any) -> None:
    """The SDK raised an exception of its own, or showed nothing."""
    out = stream_through(translated(direction(CHAT, CHAT)), ends(ROLE, choices({"index": 0, "delta": delta_})))
    with pytest.raises(APIError, match="upstream sent"):
        openai_chat(out)
