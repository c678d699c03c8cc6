"""One reply as each dialect's server states it, and one conversation as each dialect's client sends it.

A part of a reply or a turn is `("text", words)`, `("reasoning", words)` or `("call", id, name, arguments)`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from oracles.grammar import Call
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    begin,
    block,
    calls,
    chat_reply,
    chunk,
    delta,
    end,
    more_call,
    start_call,
    stop,
    tool,
)
from support import responses_frames as emitted
from support.directions import Json
from support.responses_samples import numbered

RESPONSES, GENERATE = "responses", "generate"
Part = tuple[str, ...]

NEW = [(RESPONSES, CHAT), (RESPONSES, MESSAGES), (CHAT, RESPONSES), (MESSAGES, RESPONSES)]
"""(client, upstream) of the cross directions that Responses is a side of."""
EVERY = [(client, upstream) for client in (CHAT, MESSAGES, RESPONSES) for upstream in (CHAT, MESSAGES, RESPONSES)]

new_directions = pytest.mark.parametrize(("client", "upstream"), NEW)
every_direction = pytest.mark.parametrize(("client", "upstream"), EVERY)
to_responses = pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
"""Responses clients of the other upstreams."""
from_responses = pytest.mark.parametrize("client", [CHAT, MESSAGES])
"""Other clients of Responses upstreams."""

SCHEMA: Json = {"type": "object", "properties": {"f": {"type": "string"}}}


def call_part(call: Call) -> Part:
    """A call as a part."""
    return "call", call.id, call.name, call.arguments


def halves(text: str) -> list[str]:
    """A text in two fragments."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]


# --- streams ----------------------------------------------------------------------------------------------------------


def assistant_turn(upstream: str, *parts: Part, usage: Json | None = None) -> list[bytes]:
    """A whole stream of the parts, one after the other, each in two fragments."""
    frames = begins(upstream)
    for number, part in enumerate(parts):
        frames += starts(upstream, number, parts)
        for text in halves(part[-1]):
            frames += writes(upstream, number, parts, text)
        frames += ends(upstream, number, parts)
    return frames + finished(upstream, *parts, usage=usage)


def interleaved(upstream: str, *parts: Part) -> list[bytes]:
    """Return the same with all parts open at once; the fragments go round them, the last part first."""
    order = range(len(parts))
    frames = begins(upstream)
    for number in order:
        frames += starts(upstream, number, parts)
    for half in (0, 1):
        for number in reversed(order):
            frames += writes(upstream, number, parts, halves(parts[number][-1])[half])
    for number in order:
        frames += ends(upstream, number, parts)
    return frames + finished(upstream, *parts)


def begins(upstream: str) -> list[bytes]:
    """Return what a stream starts with."""
    if upstream == GENERATE:
        return []
    if upstream == RESPONSES:
        return numbered(emitted.created())
    return [begin() if upstream == MESSAGES else ROLE]


def starts(upstream: str, number: int, parts: Sequence[Part]) -> list[bytes]:
    """The start of one part (Chat reports the start of a call only, Gemini none)."""
    kind, *rest = parts[number]
    if upstream == GENERATE:
        return []
    if upstream == CHAT:
        return [calls(start_call(_rank(number, parts), rest[0], rest[1]))] if kind == "call" else []
    if upstream == MESSAGES:
        if kind == "call":
            return [tool(number, rest[0], rest[1])]
        return [block(number, **({"type": "text", "text": ""} if kind == "text" else _REASONING))]
    if kind == "text":
        return numbered(*emitted.opens(number))
    item = item_of((kind, *rest[:-1], ""), number) | {"status": "in_progress"}
    return numbered(emitted.added(number, **item))


def writes(upstream: str, number: int, parts: Sequence[Part], text: str) -> list[bytes]:
    """One fragment of a part (a call of Gemini's has none)."""
    kind = parts[number][0]
    if upstream == GENERATE:
        return [] if kind == "call" else [generated([generated_part((kind, text))])]
    if upstream == CHAT:
        if kind == "call":
            return [calls(more_call(_rank(number, parts), text))]
        return [chunk({"content" if kind == "text" else "reasoning_content": text})]
    if upstream == MESSAGES:
        return [delta(number, {"call": "input_json", "text": "text"}.get(kind, "thinking"), text)]
    if kind == "text":
        return numbered(*emitted.writes(number, text))
    if kind == "call":
        return numbered(emitted.at(number, "function_call_arguments.delta", delta=text))
    return numbered(emitted.at(number, "reasoning_text.delta", delta=text))


def ends(upstream: str, number: int, parts: Sequence[Part]) -> list[bytes]:
    """The end of one part (Chat reports none); a call of Gemini's is whole there."""
    if upstream == GENERATE:
        return [generated([generated_part(parts[number])])] if parts[number][0] == "call" else []
    if upstream == CHAT:
        return []
    if upstream == MESSAGES:
        return [stop(number)]
    part = parts[number]
    if part[0] == "text":
        return numbered(*emitted.closes(number, part[-1]))
    name = "function_call_arguments.done" if part[0] == "call" else "reasoning_text.done"
    key = "arguments" if part[0] == "call" else "text"
    return numbered(emitted.at(number, name, **{key: part[-1]}), emitted.done(number, **item_of(part, number)))


def finished(upstream: str, *parts: Part, usage: Json | None = None) -> list[bytes]:
    """The end of a stream that has stated the parts."""
    called = any(part[0] == "call" for part in parts)
    if upstream == GENERATE:
        return [generated([{"text": ""}], "STOP", usage)]
    if upstream == CHAT:
        counted = usage or {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        return [chunk({}, "tool_calls" if called else "stop"), chunk(None, usage=counted), DONE]
    if upstream == MESSAGES:
        return [end("tool_use" if called else "end_turn", **(usage or {}))]
    items = [item_of(part, number) for number, part in enumerate(parts)]
    return numbered(emitted.ended(*items, usage=usage))


def item_of(part: Part, number: int = 0) -> Json:
    """A part as a finished output item of Responses."""
    kind, *rest = part
    if kind == "call":
        return emitted.call(*rest) | {"id": f"i{number}"}
    if kind == "text":
        return emitted.message(emitted.text_part(rest[0])) | {"id": f"i{number}"}
    return emitted.reasoned(*filter(None, rest)) | {"id": f"i{number}"}


def _rank(number: int, parts: Sequence[Part]) -> int:
    return sum(part[0] == "call" for part in parts[:number])


_REASONING: Json = {"type": "thinking", "thinking": "", "signature": ""}


def broken_off(upstream: str) -> list[bytes]:
    """A stream that stops in the middle of a text."""
    parts = [("text", "Hi there")]
    return [*begins(upstream), *starts(upstream, 0, parts), *writes(upstream, 0, parts, "Hi")]


# --- whole replies ----------------------------------------------------------------------------------------------------


def replied(upstream: str, *parts: Part, usage: Json | None = None) -> Json:
    """A whole reply of the parts."""
    called = any(part[0] == "call" for part in parts)
    if upstream == GENERATE:
        return generated_reply([generated_part(part) for part in parts], "STOP", usage)
    if upstream == RESPONSES:
        items = [item_of(part, number) for number, part in enumerate(parts)]
        return emitted.response("completed", items, usage=emitted.USAGE if usage is None else usage)
    if upstream == MESSAGES:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_sequence": None}
        counted = usage or {"input_tokens": 9, "output_tokens": 3}
        reason = "tool_use" if called else "end_turn"
        return {**head, "content": [block_of(part) for part in parts], "stop_reason": reason, "usage": counted}
    message = chat_message(parts)
    return chat_reply("tool_calls" if called else "stop", usage=usage, **message)


def generated_part(part: Part) -> Json:
    """A part as one of Gemini's."""
    kind, *rest = part
    if kind == "call":
        return {"functionCall": {"id": rest[0], "name": rest[1], "args": json.loads(rest[2])}}
    return {"text": rest[0], **({"thought": True} if kind == "reasoning" else {})}


def generated_reply(parts: Sequence[Json], finish: str | None = None, usage: Json | None = None) -> Json:
    """A response of Gemini's, which a chunk of a stream is too."""
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    counted = usage or {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": counted, "modelVersion": "up", "responseId": "r1"}


def generated(parts: Sequence[Json], finish: str | None = None, usage: Json | None = None) -> bytes:
    """A chunk of a stream of Gemini's."""
    return b"data: " + json.dumps(generated_reply(parts, finish, usage)).encode() + b"\r\n\r\n"


def block_of(part: Part) -> Json:
    """A part as a content block of Messages."""
    kind, *rest = part
    if kind == "call":
        return {"type": "tool_use", "id": rest[0], "name": rest[1], "input": json.loads(rest[2])}
    if kind == "text":
        return {"type": "text", "text": rest[0]}
    return {"type": "thinking", "thinking": rest[0], "signature": ""}


def chat_message(parts: Sequence[Part]) -> Json:
    """The parts as an assistant message of Chat, without its role."""
    message: Json = {"content": "".join(part[1] for part in parts if part[0] == "text") or None}
    reasoned = "".join(part[1] for part in parts if part[0] == "reasoning")
    made = [start_call(0, *part[1:]) for part in parts if part[0] == "call"]
    for call in made:
        del call["index"]
    return message | ({"reasoning_content": reasoned} if reasoned else {}) | ({"tool_calls": made} if made else {})


# --- conversations ----------------------------------------------------------------------------------------------------


def conversation(client: str, *turns: str | Part | Sequence[Part]) -> Json:
    """A history as fields of a request: a string is the user's, `("result", id, text)` a result, a list the
    assistant's."""
    out: list[Any] = []
    for turn in turns:
        if isinstance(turn, str):
            out.append({"role": "user", "content": turn})
        elif isinstance(turn, list):
            out += _assistant(client, turn)
        else:
            out.append(_result(client, str(turn[1]), str(turn[2])))
    return {"input" if client == RESPONSES else "messages": out}


def _assistant(client: str, parts: Sequence[Part]) -> list[Json]:
    if client == CHAT:
        return [{"role": "assistant", **chat_message(parts)}]
    if client == MESSAGES:
        return [{"role": "assistant", "content": [block_of(part) for part in parts]}]
    items = [item_of(part) for part in parts]
    for item in items:
        del item["id"]
    return items


def _result(client: str, call_id: str, text: str) -> Json:
    if client == CHAT:
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    if client == MESSAGES:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]}
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def offered(client: str, *names: str, schema: Json | None = None) -> list[Json]:
    """Tools of these names as a client declares them."""
    form = SCHEMA if schema is None else schema
    if client == CHAT:
        return [{"type": "function", "function": {"name": name, "parameters": form}} for name in names]
    if client == MESSAGES:
        return [{"name": name, "input_schema": form} for name in names]
    return [{"type": "function", "name": name, "parameters": form} for name in names]


def sent_tools(upstream: str, body: Json) -> list[Json]:
    """The tools of a sent body, each as its function: name, description, schema."""
    if upstream == CHAT:
        return [offer["function"] for offer in body.get("tools", [])]
    return list(body.get("tools", []))
