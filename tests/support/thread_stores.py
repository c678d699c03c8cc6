"""The stores of conversations for tests, on a clock that the test moves."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.threads import MemoryStore, Node, NodeCipher, PostgresStore, RedisStore, SqliteStore, Store, ThreadLimits
from support.stores import Clock

KINDS = (
    *("memory", "sqlite", "sqlite-in-memory", "sqlite-encrypted"),
    *("redis", "redis-encrypted", "postgres", "postgres-encrypted"),
)
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
"""32 bytes in base64."""
_NUMBERS = itertools.count()


def made(kind: str, clock: Clock, folder: Path, limits: ThreadLimits | None = None, url: str = "") -> Store:
    """A store of this kind, which is not open and empty; `url` is that of a Redis or of a database."""
    limits = limits or ThreadLimits()
    if kind == "memory":
        return MemoryStore(limits, clock)
    if kind.startswith("redis"):
        codec = NodeCipher(KEY) if kind == "redis-encrypted" else None
        return RedisStore(url, limits, prefix=f"test-{next(_NUMBERS)}", codec=codec, timeout=30.0, clock=clock)
    if kind.startswith("postgres"):
        codec = NodeCipher(KEY) if kind == "postgres-encrypted" else None
        return PostgresStore(url, limits, schema=f"test-{next(_NUMBERS)}", codec=codec, timeout=30.0, clock=clock)
    path = ":memory:" if kind == "sqlite-in-memory" else str(folder / f"threads-{next(_NUMBERS)}.db")
    codec = NodeCipher(KEY) if kind == "sqlite-encrypted" else None
    return SqliteStore(path, limits, codec=codec, timeout=30.0, clock=clock)


@asynccontextmanager
async def opened(
    kind: str, clock: Clock, folder: Path, limits: ThreadLimits | None = None, url: str = ""
) -> AsyncIterator[Store]:
    """An open store of this kind, which is empty; `url` is that of a Redis or of a database."""
    store = made(kind, clock, folder, limits, url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def server_url(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of the fixture `redis` or `postgres`, which a kind needs; empty for others."""
    if kind.startswith("postgres"):
        return str(request.getfixturevalue("postgres").url)
    return str(request.getfixturevalue("redis").url) if kind.startswith("redis") else ""


def user(text: str) -> dict[str, Any]:
    """An item with a text of the user."""
    return {"type": "message", "role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    """An item with a text of the assistant."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{text}", "role": "assistant", "status": "completed", "content": [part]}


def node(owner: str, node_id: str, parent: str | None = None, text: str = "") -> Node:
    """A response whose input and output are one text each."""
    text = text or node_id
    reply = {"id": node_id, "output": [assistant(text.upper())]}
    return Node(owner, node_id, parent, 1_795_000_000, json.dumps([user(text)]).encode(), json.dumps(reply).encode())


def ids(nodes: list[Node] | None) -> list[str] | None:
    """The ids of nodes."""
    return [each.id for each in nodes] if nodes is not None else None
