"""A Messages stream as clients put it together: by index, by the last block, and by the one block that is open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from oracles.grammar import sse

Json = dict[str, Any]
Block = tuple[str, str, str]
"""Type, id (empty if it has no id) and content: text, reasoning with its signature, or arguments."""


def _payloads(data: bytes) -> Iterable[Json]:
    return [json.loads(item.data) for item in sse.written(data) if item.data is not None]


def _content(delta: Json) -> str:
    return str(delta.get("text") or delta.get("thinking") or delta.get("partial_json") or delta.get("signature") or "")


def _made(blocks: Iterable[tuple[Json, list[str]]]) -> list[Block]:
    return [(start["type"], start.get("id", ""), "".join(stated)) for start, stated in blocks]


def by_index(data: bytes) -> list[Block]:
    """As the Python and TypeScript SDKs do: each delta goes to the block of its index."""
    blocks: dict[int, tuple[Json, list[str]]] = {}
    for payload in _payloads(data):
        if payload["type"] == "content_block_start":
            blocks[payload["index"]] = payload["content_block"], []
        elif payload["type"] == "content_block_delta":
            blocks[payload["index"]][1].append(_content(payload["delta"]))
    return _made(blocks.values())


def by_last_block(data: bytes) -> list[Block]:
    """As the Go SDK's `Message.Accumulate` does: each delta goes to the last block, whatever its index."""
    blocks: list[tuple[Json, list[str]]] = []
    for payload in _payloads(data):
        if payload["type"] == "content_block_start":
            blocks.append((payload["content_block"], []))
        elif payload["type"] == "content_block_delta":
            blocks[-1][1].append(_content(payload["delta"]))
    return _made(blocks)


def by_open_block(data: bytes) -> list[Block]:
    """As a plain client does that knows one open block: a block is there when its stop comes."""
    done: list[tuple[Json, list[str]]] = []
    current: tuple[Json, list[str]] | None = None
    for payload in _payloads(data):
        if payload["type"] == "content_block_start":
            current = payload["content_block"], []
        elif payload["type"] == "content_block_delta" and current is not None:
            current[1].append(_content(payload["delta"]))
        elif payload["type"] == "content_block_stop" and current is not None:
            done.append(current)
            current = None
    return _made(done)
