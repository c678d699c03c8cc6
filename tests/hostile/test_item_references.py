"""Attack: a short request that refers to a long stored item, many times; or to many items of one response.

A request of 23 kB had 300 references to an item of 5 MiB, which took 1.5 GB before its length was checked. 2,000
references of 157 kB made the gateway parse one response 2,000 times, 13 s in which nothing else was served.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from dragoman import Limits
from dragoman.dialects import Dialect
from dragoman.threads import Node
from dragoman.threads import node as node_module
from dragoman.threads.item_reference import REFERENCES_MAX
from dragoman.wire import json_loads
from dragoman_server.config.state_options import StateOptions
from support.stateful import Reads, Stateful, stateful
from support.texts import sent_texts

KIB = 1024
LIMIT = 512 * KIB
PATHS = ("responses", "responses/input_tokens", "dragoman/explain", "responses/compact")
MEMORY = StateOptions(kind="memory")


def gateway(limit: int = LIMIT) -> Any:
    return stateful(Dialect.CHAT, MEMORY, limits=Limits(request_body=limit))


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def reference(item_id: str) -> dict[str, Any]:
    return {"type": "item_reference", "id": item_id}


async def post(state: Stateful, path: str, items: list[Any]) -> tuple[int, Any]:
    body = {"model": "sim-text", "input": items, "store": False}
    async with state.gate.session.post(f"{state.gate.url}/v1/{path}", json=body) as reply:
        return reply.status, await reply.json()


async def stored(state: Stateful, *texts: str) -> str:
    """The number that the ids of the items of a new response contain."""
    reply = await state.sdk.responses.create(model="sim-text", input=[user(text) for text in texts])
    return str(reply.id).removeprefix("resp_")


@pytest.mark.parametrize("path", PATHS)
async def test_the_sizes_of_referenced_items_are_added_before_they_are_put_in(path: str) -> None:
    async with gateway() as state:
        base = await stored(state, "x" * 400 * KIB)
        sent = len(state.simulator_requests())
        assert (await post(state, path, [reference(f"msg_{base}_0"), user("?")]))[0] == 200
        items = [reference(f"msg_{base}_0")] * 300
        tracemalloc.start()
        try:
            status, body = await post(state, path, items)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        print(f"{path}: 300 references to 400 KiB, {peak / KIB:.0f} KiB at most")
        assert (status, f"request_body = {LIMIT}" in body["error"]["message"]) == (413, True)
        assert peak < 16 * LIMIT  # orjson reserves twelve times the bytes that it parses
        assert len(state.simulator_requests()) - sent <= 1


@pytest.mark.parametrize("part", ["sent", "received"])
async def test_a_response_is_read_and_parsed_once_for_all_its_items(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each part of it, whatever the number of references: the time is linear."""
    parsed: list[int] = []

    def loads(data: bytes) -> Any:
        parsed.append(len(data))
        return json_loads(data)

    counts = []
    async with gateway(32 * KIB * KIB) as state:
        base = await stored(state, *(f"text {number}" for number in range(400)))
        ids = [f"msg_{base}_{number}" if part == "sent" else f"msg_{base}1" for number in range(400)]
        monkeypatch.setattr(node_module, "loads", loads)
        reads = Reads(state.store)
        for number in (100, 400):
            parsed.clear()
            reads.clear()
            status, _ = await post(state, "responses", [*map(reference, ids[:number])])
            assert status == 200
            assert len(sent_texts(state.sent())) in (1, number)
            counts.append((len(parsed), sum(parsed), reads.nodes))
    print(f"{part}: texts parsed, their bytes, responses read: {counts}")
    assert counts[0] == counts[1]
    assert counts[0][0] == counts[0][2] == 1


async def test_the_number_of_references_is_bounded() -> None:
    async with gateway(32 * KIB * KIB) as state:
        base = await stored(state, "x")
        reads = Reads(state.store)
        status, body = await post(state, "responses", [reference(f"msg_{base}_0")] * (REFERENCES_MAX + 1))
        assert (status, body["error"]["param"], reads.nodes) == (400, "input", 0)
        assert f"at most {REFERENCES_MAX}" in body["error"]["message"]


async def test_a_reference_to_nothing_ends_the_search() -> None:
    async with gateway() as state:
        base = await stored(state, "x")
        reads = Reads(state.store)
        unknown = [reference(f"msg_{number:032x}_0") for number in range(500)]
        status, body = await post(state, "responses", [reference(f"msg_{base}_0"), *unknown])
        assert (status, body["error"]["param"], reads.calls) == (400, "input[1].id", 2)


async def test_the_bytes_of_all_responses_that_are_read_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time is in memory. Each may have a long input in which a short item is."""
    monkeypatch.setattr("dragoman_server.proxy.item_references.READ_MAX", 100 * KIB)
    async with gateway() as state:
        for number in range(5):
            node = Node("", f"resp_{number:032x}", None, 0, b'[{"role":"user","content":"x"}]', b'{"output":[]}')
            await state.store.put(Node(**{**fields(node), "notes": b"{}" + b" " * 40 * KIB}))
        ids = [f"msg_{number:032x}_0" for number in range(5)]
        assert (await post(state, "responses", [*map(reference, ids[:2])]))[0] == 200
        reads = Reads(state.store)
        status, body = await post(state, "responses", [*map(reference, ids)])
        assert (status, body["error"]["param"], reads.nodes) == (400, "input", 3)


def fields(node: Node) -> dict[str, Any]:
    return node._asdict()
