"""Replies of vendors over Chat Completions: those of the simulator, with the differences of each host."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import orjson

from dragoman_server.simulator import render_chat
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.reply import SimulatedReply, bare_frame
from dragoman_server.simulator.steps import Scenario
from vendors.hosts import Host

_REASONING = "reasoning_content"
_SHORT_ID = 9
_ONLY_OPENAI = ("refusal", "annotations", "obfuscation", "service_tier", "logprobs")


def frames(host: Host, scenario: Scenario, reply: SimulatedReply) -> list[bytes]:
    """The frames of a stream."""
    usage = render_chat.usage_of(scenario, reply)
    rendered = render_chat.frames(scenario, reply)
    return [*_frames(host, rendered, usage)]


def whole_reply(host: Host, scenario: Scenario, reply: SimulatedReply) -> Json:
    """A reply that is not streamed."""
    _, whole = render_chat.whole_reply(scenario, reply)
    for choice in whole["choices"]:
        choice["message"] = _message(host, choice["message"])
    return _plain(whole)


def _frames(host: Host, rendered: list[bytes], usage: Json) -> Iterator[bytes]:
    for frame in rendered:
        data = frame.removeprefix(b"data: ").strip()
        if data == b"[DONE]":
            yield frame
            continue
        chunk = _plain(orjson.loads(data))
        for choice in chunk["choices"]:
            choice["delta"] = _message(host, choice["delta"])
            if choice.get("finish_reason") and host.usage_at_end:
                chunk["usage"] = usage
        if chunk["choices"] or not host.usage_at_end:
            yield bare_frame(chunk)


def _plain(reply: Json) -> Json:
    """The reply without what only OpenAI sends."""
    found = {key: value for key, value in reply.items() if key not in _ONLY_OPENAI}
    for choice in found["choices"]:
        choice.pop("logprobs", None)
    return found


def _message(host: Host, message: Json) -> Json:
    """A message or a delta in the host's form."""
    found = {key: value for key, value in message.items() if key not in _ONLY_OPENAI}
    text = found.pop(_REASONING, None)
    if text is not None and host.reasoning not in ("", "content"):
        found[host.reasoning] = text
    elif text is not None and host.reasoning:
        thinking: list[Any] = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]
        if answer := found.get("content"):
            thinking.append({"type": "text", "text": answer})
        found["content"] = thinking
    if host.call_ids:
        for call in found.get("tool_calls") or ():
            if "id" in call:
                call["id"] = short_id(call["id"])
    return found


def short_id(given: str) -> str:
    """A call id of nine letters and digits, as Mistral's are."""
    return blake2b(given.encode(), digest_size=8).hexdigest()[:_SHORT_ID]
