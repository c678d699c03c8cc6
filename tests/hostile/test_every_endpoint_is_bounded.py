"""The table of routes: what an endpoint does for a body, or for stored state, grows with its size and not faster.

Work is counted and not timed: calls of functions, in every thread of the process, and the bytes of JSON that are read
and written. The client is in the same process and is counted too; its work is linear. Memory is the peak while one
request is handled.
"""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from dragoman import Dialect
from dragoman.gateway import DEFAULT_LIMITS
from dragoman_server.config.state_options import StateOptions
from oracles.simulator import strict_simulator
from support.gateways import Gate, config_for, gate, served
from support.stateful import MEMORY, with_state

SMALL = 200
MOST = 5.0
"""Times the work for four times as much. A quadratic path takes up to sixteen times."""
BODY = 1 << 18
"""The limit of a request's body, in bytes."""
PEAK = 30 * BODY
"""Bytes that a request may need at once: its body, its objects, the translation, and what is sent and stored of it. The
client and the simulator are in the same process and have their own."""
WORD = "word " * 8


EXPECTED = frozenset((200, 400, 413))
"""Statuses: some cases ask for more than the API allows, or than fits."""


# --- counting ---------------------------------------------------------------------------------------------------------


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the work into the list's only number: that of this thread, and of those that are started within."""
    total = [0]

    def call(_: object, kind: str, __: object) -> None:
        if kind in ("call", "c_call"):
            total[0] += 1

    def loads(data: Any, read: Callable[[Any], Any] = orjson.loads) -> Any:
        total[0] += len(data) // 16
        return read(data)

    def dumps(*args: Any, write: Callable[..., bytes] = orjson.dumps, **options: Any) -> bytes:
        data = write(*args, **options)
        total[0] += len(data) // 16
        return data

    with patch.context() as patched:
        patched.setattr(orjson, "loads", loads)
        patched.setattr(orjson, "dumps", dumps)
        threading.setprofile(call)
        sys.setprofile(call)
        try:
            yield total
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


# --- a gateway with state of a size -----------------------------------------------------------------------------------


@dataclass(slots=True)
class World:
    """A gateway, and the ids of what is stored in it.

    `size` is the number of items of a body, `kept` that of a chain of responses and of a conversation.
    """

    gate: Gate
    size: int
    kept: int
    text: str
    ids: dict[str, str] = field(default_factory=dict)
    items_of: list[str] = field(default_factory=list)
    """The ids of the items of the stored response."""

    def items(self, most: int | None = None) -> list[Any]:
        """Return messages of a Responses request."""
        return [
            message(self.text, "user" if at % 2 else "assistant") for at in range(min(self.size, most or self.size))
        ]

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return its answer, which must be no defect."""
        data = body if isinstance(body, aiohttp.FormData) or body is None else io.BytesIO(json.dumps(body).encode())
        headers = {"content-type": "application/json"} if isinstance(data, io.BytesIO) else {}
        url = self.gate.url + path
        async with self.gate.session.request(method, url, data=data, headers=headers) as response:
            raw = await response.read()
            assert response.status in EXPECTED, (method, path, response.status, raw[:300])
            return json.loads(raw) if response.content_type == "application/json" else raw

    async def fill(self) -> None:
        """Store a response, a chain of responses and a conversation, as large as the gateway lets them become."""
        created = await self.send("POST", "/v1/responses", {"model": "sim-text", "input": self.items()})
        self.ids["response"] = response_id = created["id"]
        page: Any = {"has_more": True}
        while page["has_more"]:
            after = f"&after={self.items_of[-1]}" if self.items_of else ""
            page = await self.send("GET", f"/v1/responses/{response_id}/input_items?limit=100{after}")
            self.items_of += [item["id"] for item in page["data"]]
        conversation = (await self.send("POST", "/v1/conversations", {}))["id"]
        self.ids["conversation"] = conversation
        for _ in range(self.kept // 10):
            body = {"model": "sim-text", "input": self.items(10), "previous_response_id": self.ids.get("chain")}
            answer = await self.send("POST", "/v1/responses", body)
            self.ids["chain"] = answer.get("id") or self.ids["chain"]
            answer = await self.send("POST", f"/v1/conversations/{conversation}/items", {"items": self.items(10)})
            if "data" in answer:
                self.ids["member"] = answer["data"][0]["id"]

    def inputs(self) -> Iterator[dict[str, Any]]:
        """Return the fields of requests of the Responses API: each way to refer to a conversation."""
        yield {"input": self.items()}
        yield {"input": [{"type": "item_reference", "id": item} for item in self.items_of]}
        yield {"input": [{"type": "item_reference", "id": self.items_of[0]}] * self.kept}
        yield {"input": "Hi", "previous_response_id": self.ids["chain"]}
        yield {"input": "Hi", "previous_response_id": self.ids["response"]}
        yield {"input": "Hi", "conversation": self.ids["conversation"]}


def message(text: str, role: str) -> Any:
    """Return a message of the Responses API."""
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


@asynccontextmanager
async def world(
    size: int, state: StateOptions, *, kept: int | None = None, body: int = 1 << 24, text: str = WORD
) -> AsyncIterator[World]:
    """A gateway with all endpoints, in front of the simulator."""
    async with served(strict_simulator()) as (url, _):
        config = with_state(config_for(f"{url}/v1", Dialect.CHAT), state)
        limits = replace(DEFAULT_LIMITS, request_body=body)
        config = replace(config, server=replace(config.server, ui=True, limits=limits))
        async with gate(config) as entrance:
            made = World(entrance, size, size if kept is None else kept, text)
            await made.fill()
            yield made


# --- the endpoints ----------------------------------------------------------------------------------------------------

Case = Callable[[World], Awaitable[None]]


def posted(*paths: str, **fields: Any) -> Case:
    """A request with `size` messages."""

    async def send(it: World) -> None:
        key = "messages" if "messages" in fields else "input"
        rows: Any = [{"role": "user" if at % 2 else "assistant", "content": it.text} for at in range(it.size)]
        for path in paths:
            await it.send("POST", path, {"model": "sim-text", **fields, key: rows})

    return send


def response(path: str) -> Case:
    """A request of the Responses API: with items, references to items, an earlier response, or a conversation."""

    async def send(it: World) -> None:
        for fields in it.inputs():
            await it.send("POST", path, {"model": "sim-text", **fields})

    return send


def forwarded(path: str, **fields: Any) -> Case:
    """A forwarded JSON request with `size` texts."""

    async def send(it: World) -> None:
        await it.send("POST", path, {"model": "sim-text", **fields, "input": [it.text] * it.size})

    return send


def form(path: str) -> Case:
    """A forwarded form with a file."""

    async def send(it: World) -> None:
        fields = aiohttp.FormData({"model": "sim-text"})
        fields.add_field("file", it.text.encode() * it.size, filename="a.wav", content_type="audio/wav")
        await it.send("POST", path, fields)

    return send


def stored(method: str, path: str, body: Any = None) -> Case:
    """A request for stored state. `{x}` in the path is the id of an x."""

    async def send(it: World) -> None:
        await it.send(method, path.format(**it.ids), body)

    return send


async def create_conversation(it: World) -> None:
    """With as many items as the API allows in one request, or more."""
    await it.send("POST", "/v1/conversations", {"items": it.items()})


async def add_items(it: World) -> None:
    """To a conversation that has `size` items."""
    await it.send("POST", f"/v1/conversations/{it.ids['conversation']}/items", {"items": it.items(10)})


async def websocket(it: World) -> None:
    """A warm-up with all items, and one that continues it."""
    async with it.gate.session.ws_connect(it.gate.url + "/v1/responses", max_msg_size=0) as socket:
        previous = None
        for fields in ({"input": it.items()}, {"input": "Hi"}):
            frame = {"type": "response.create", "model": "sim-text", "generate": False, **fields}
            await socket.send_str(json.dumps({**frame, "previous_response_id": previous}))
            while (event := json.loads((await socket.receive(timeout=60)).data))["type"] != "response.completed":
                assert event["type"] != "error", event
            previous = event["response"]["id"]


CHAT: dict[str, Any] = {"messages": []}
CASES: dict[str, Case] = {
    "POST /v1/chat/completions": posted("/v1/chat/completions", **CHAT),
    "POST /v1/messages": posted("/v1/messages", max_tokens=9, **CHAT),
    "POST /v1/messages/count_tokens": posted("/v1/messages/count_tokens", **CHAT),
    "POST /v1/responses": response("/v1/responses"),
    "POST /v1/responses/input_tokens": response("/v1/responses/input_tokens"),
    "POST /v1/responses/compact": response("/v1/responses/compact"),
    "POST /v1/dragoman/explain": response("/v1/dragoman/explain"),
    "POST /ui/api/explain": posted("/ui/api/explain", **CHAT),
    "POST /ui/api/send/chat/completions": posted("/ui/api/send/chat/completions", **CHAT),
    "POST /ui/api/send/messages": posted("/ui/api/send/messages", max_tokens=9, **CHAT),
    "POST /ui/api/send/responses": posted("/ui/api/send/responses"),
    **{f"POST /v1/{name}": forwarded(f"/v1/{name}", prompt="x", query="x", documents=["x"], voice="x") for name in (
        "audio/speech", "completions", "embeddings", "images/generations", "moderations", "rerank")},
    **{f"POST /v1/{name}": form(f"/v1/{name}") for name in (
        "audio/transcriptions", "audio/translations", "images/edits", "images/variations")},
    "GET /v1/responses": websocket,
    "GET /v1/responses/{id}": stored("GET", "/v1/responses/{response}"),
    "GET /v1/responses/{id}/input_items": stored("GET", "/v1/responses/{chain}/input_items?limit=100&order=asc"),
    "POST /v1/responses/{id}/cancel": stored("POST", "/v1/responses/{response}/cancel"),
    "GET /v1/dragoman/conversations/{id}/tree": stored("GET", "/v1/dragoman/conversations/{chain}/tree"),
    "POST /v1/conversations": create_conversation,
    "GET /v1/conversations/{id}": stored("GET", "/v1/conversations/{conversation}"),
    "POST /v1/conversations/{id}": stored("POST", "/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    "GET /v1/conversations/{id}/items": stored("GET", "/v1/conversations/{conversation}/items?limit=100"),
    "POST /v1/conversations/{id}/items": add_items,
    "GET /v1/conversations/{id}/items/{item_id}": stored("GET", "/v1/conversations/{conversation}/items/{member}"),
    "DELETE /v1/conversations/{id}/items/{item_id}": stored(
        "DELETE", "/v1/conversations/{conversation}/items/{member}"),
    "DELETE /v1/conversations/{id}": stored("DELETE", "/v1/conversations/{conversation}"),
    "DELETE /v1/responses/{id}": stored("DELETE", "/v1/responses/{response}"),
}  # fmt: skip
"""The endpoints that read a body or stored state, by method and path. Those that delete come last."""
PAGED = frozenset({
    "GET /v1/conversations/{id}", "POST /v1/conversations/{id}", "GET /v1/conversations/{id}/items",
    "GET /v1/conversations/{id}/items/{item_id}",
})  # fmt: skip
"""Those that return a part of a conversation, whose size does not depend on the whole."""
WITHOUT = re.compile(
    r"(GET|HEAD) (|/health|/ready|/metrics|/v1/models(/\{name\})?|/ui|/ui/.*|/v1/dragoman/(captures|receipts|status).*)"
    r"|POST /ui/api/record|\* /\{path\}|\* /v1/(conversations|responses)(/\{rest\})?"
)
"""Those that read neither, or that a test of their own covers."""


async def table(it: World) -> list[str]:
    """Return the methods and paths of all routes, each in one form."""
    router = it.gate.runner.app.router
    rows = {f"{route.method} {route.resource.canonical}" for route in router.routes() if route.resource is not None}
    return sorted({re.sub(r"(?<=.)/$", "", row.replace("//v1", "/v1").replace("/v1//", "/v1/")) for row in rows})


async def test_every_endpoint_is_in_a_table() -> None:
    async with world(10, MEMORY) as it:
        rows = await table(it)
        unknown = [row for row in rows if row not in CASES and not WITHOUT.fullmatch(row)]
        assert not unknown, "add a case for each, or state why there is none"
        assert not set(CASES) - set(rows)
        assert len(rows) > 50


NUMBER = count()


def state_options(kind: str, folder: Path) -> StateOptions:
    """Stored responses in memory, or in a file of their own."""
    return MEMORY if kind == "memory" else StateOptions(kind="sqlite", path=str(folder / f"{next(NUMBER)}.db"))


KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@pytest.mark.whole
@KINDS
async def test_four_times_as_much_is_four_times_the_work(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works: list[dict[str, int]] = []
    for size in (SMALL, 4 * SMALL):
        with counted(monkeypatch) as total:
            async with world(size, state_options(kind, tmp_path)) as it:
                for name, case in CASES.items():  # once, for what is imported or made at the first use
                    if not name.startswith("DELETE"):
                        await case(it)
                work = {}
                for name, case in CASES.items():
                    total[0] = 0
                    await case(it)
                    work[name] = total[0]
                works.append(work)
    small, large = works
    rows = {name: (small[name], large[name], large[name] / small[name]) for name in CASES}
    print(*(f"{row[2]:6.2f} {row[0]:9} {row[1]:9}  {name}" for name, row in rows.items()), sep="\n")
    assert {name: row for name, row in rows.items() if row[2] > MOST} == {}


@KINDS
async def test_a_request_needs_a_bounded_memory(kind: str, tmp_path: Path) -> None:
    """With as much stored as fits, in items of a sixteenth of the limit."""
    peaks: dict[str, int] = {}
    async with world(14, state_options(kind, tmp_path), kept=200, body=BODY, text="x" * (BODY // 16)) as it:
        await CASES["POST /v1/responses/compact"](it)  # imports what most others do not
        for name, case in CASES.items():
            tracemalloc.start()
            try:
                await case(it)
                peaks[name] = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    print(*(f"{peak / BODY:6.1f} × the limit of a body  {name}" for name, peak in peaks.items()), sep="\n")
    assert {name: peak for name, peak in peaks.items() if peak > PEAK} == {}
