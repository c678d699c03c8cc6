"""Recorded sessions of Claude Code and Codex of two turns, played against a gateway.

The first request is as recorded. The second one has the client's recorded result and whatever follows it, behind the
gateway's reply to the first one: its reasoning, signatures, call and call id.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oracles.grammar import messages, responses
from support.gateways import Gate
from support.paths import FIXTURES

Json = dict[str, Any]
_CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_REPLY_ITEMS = ("reasoning", *_CALLS)


@dataclass(frozen=True)
class Session:
    """A client's session; `name` is that of its fixtures without the number."""

    name: str
    path: str
    kept: Callable[[str], list[Json]]
    second: Callable[[Json, list[Json]], Json]

    def recorded(self, turn: int) -> tuple[Json, dict[str, str], str]:
        """Body, headers and query of a recorded request."""
        request = json.loads((FIXTURES / f"{self.name}_{turn}.json").read_text("utf-8"))["request"]
        known = ("anthropic-version", "anthropic-beta", "user-agent", "originator")
        headers = {name.lower(): value for name, value in request["headers"].items() if name.lower() in known}
        return copy.deepcopy(request["body"]), headers, request["query"]


@dataclass(frozen=True)
class Played:
    """A session that was played: the statuses, the texts of the replies, what was kept of the first one, and the codes
    of all losses."""

    statuses: list[int]
    replies: list[str]
    kept: list[Json]
    lost: set[str]


async def play(session: Session, gate: Gate) -> Played:
    """Play both turns. A turn that is refused ends the session."""
    body, headers, query = session.recorded(1)
    statuses: list[int] = []
    replies: list[str] = []
    kept: list[Json] = []
    for turn in (1, 2):
        if turn == 2:
            recorded, headers, query = session.recorded(2)
            body = session.second(recorded, kept)
        async with gate.session.post(f"{gate.url}{session.path}?{query}", json=body, headers=headers) as response:
            statuses.append(response.status)
            replies.append(await response.text())
        if statuses[-1] != 200:
            break
        if turn == 1:
            kept = session.kept(replies[0])
    receipts = [json.loads(receipt.json()) for receipt in gate.gateway.receipts.newest()]
    return Played(statuses, replies, kept, {row["code"] for receipt in receipts for row in receipt["losses"]})


def _events(stream: str) -> list[Json]:
    return [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]


def _claude_kept(stream: str) -> list[Json]:
    """The content blocks of a stream."""
    messages.check(stream.encode())
    found: list[Json] = []
    arguments: dict[int, str] = {}
    for event in _events(stream):
        if event["type"] == "content_block_start":
            found.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = found[event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                arguments[event["index"]] = arguments.get(event["index"], "") + delta["partial_json"]
            else:
                key = delta["type"].removesuffix("_delta")
                block[key] = block.get(key, "") + delta[key]
    for index, text in arguments.items():
        found[index]["input"] = json.loads(text or "{}")
    return found


def _claude_second(body: Json, kept: list[Json]) -> Json:
    (call,) = (block for block in kept if block["type"] == "tool_use")
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = kept
        elif message["role"] == "user":
            for block in message["content"]:
                if block["type"] == "tool_result":
                    block["tool_use_id"] = call["id"]
    return body


def _codex_kept(stream: str) -> list[Json]:
    """The output items of a stream."""
    responses.check(stream.encode())
    return [event["item"] for event in _events(stream) if event["type"] == "response.output_item.done"]


def _codex_second(body: Json, kept: list[Json]) -> Json:
    (call,) = (item for item in kept if item["type"] in _CALLS)
    items: list[Json] = []
    for item in body["input"]:
        if item["type"] in _CALLS.values():
            items += [*kept, item | {"type": _CALLS[call["type"]], "call_id": call["call_id"]}]
        elif item["type"] not in _REPLY_ITEMS and item.get("role") != "assistant":
            items.append(item)
    return body | {"input": items}


def _claude(name: str) -> Session:
    return Session(f"claude-code_{name}", "/v1/messages", _claude_kept, _claude_second)


def _codex(name: str) -> Session:
    return Session(f"codex_{name}", "/v1/responses", _codex_kept, _codex_second)


SESSIONS: tuple[Session, ...] = (
    _claude("tool"),
    _claude("tool_sonnet-5"),
    _claude("tool_sonnet-4-5"),
    _claude("tool_3-5-haiku"),
    _codex("tool"),
    _codex("patch-tool"),
    _codex("lite-tool"),
)
"""Sessions of different shapes: late and early instructions, adaptive thinking and budgets, and the tools of Codex."""
