"""Attack: a conversation that grows without bound, and short requests that each read all of it.

Ten requests stored 240 MiB in one conversation. A `GET` of 108 bytes for its metadata then took 940 MB and 1.6 s in
which nothing else was served, and six at once 1.2 GB.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Limits
from dragoman.dialects import Dialect
from dragoman.threads import Node, conversation_node
from dragoman.wire import json_dumps, json_loads
from dragoman_server.proxy.stored_history import LONG_READ, LONG_READS
from support.stateful import Reads, Stateful, state_options, stateful

pytestmark = pytest.mark.turns  # a row fills a store

KIB = 1024
LIMIT = 512 * KIB
STORES = pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "postgresql"])
ROOT = f"conv_{0:032x}"


@asynccontextmanager
async def gateway(kind: str, folder: Path, limit: int = LIMIT, **options: Any) -> AsyncIterator[Stateful]:
    with state_options(kind, folder, **options) as made:
        async with stateful(Dialect.CHAT, made, limits=Limits(request_body=limit)) as state:
            yield state


async def call(state: Stateful, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with state.gate.session.request(method, f"{state.gate.url}/v1/{path}", json=body) as reply:
        return reply.status, await reply.json()


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def response(number: int, parent: str | None, size: int, items: int = 1) -> Node:
    """A stored response whose input has so many bytes."""
    node_id = f"resp_{number:032x}"
    output = [{"type": "message", "id": f"msg_{number:032x}1", "role": "assistant", "content": []}]
    reply = {"id": node_id, "object": "response", "model": "m", "status": "completed", "output": output}
    given = [user("x" * (size // items)) for _ in range(items)]
    return Node("", node_id, parent, 0, json_dumps(given), json_dumps(reply))


async def long_conversation(state: Stateful, number: int, size: int) -> None:
    """Store a conversation of so many responses with inputs of so many bytes, as earlier versions let it grow."""
    await state.store.put(conversation_node("", ROOT, 0, {"metadata": {"a": "b"}}))
    for each in range(1, number + 1):
        await state.store.put(response(each, ROOT, size))


async def long_path(state: Stateful, number: int, size: int) -> str:
    """Store responses after each other. Returns the id of the last one."""
    for each in range(1, number + 1):
        await state.store.put(response(each, f"resp_{each - 1:032x}" if each > 1 else None, size))
    return f"resp_{number:032x}"


@STORES
async def test_a_conversation_has_no_more_items_than_a_request(kind: str, tmp_path: Path) -> None:
    async with gateway(kind, tmp_path) as state:
        _, made = await call(state, "POST", "conversations", {"items": [user("x" * 100 * KIB)]})
        path = f"conversations/{made['id']}/items"
        found = [await call(state, "POST", path, {"items": [user("x" * 100 * KIB)]}) for _ in range(5)]
        tree = await state.store.tree_outline("", made["id"])
        size = sum(each.size for each in tree)
        print(f"{kind}: {size} bytes of {LIMIT} after {len(found)} requests")
        assert [status for status, _ in found] == [200, 200, 200, 200, 413]
        assert size <= LIMIT
        message = found[-1][1]["error"]["message"]
        assert (f"request_body = {LIMIT}" in message, "delete some of its items" in message) == (True, True)
        # What is deleted makes room.
        await call(state, "DELETE", f"{path}/{found[0][1]['data'][0]['id']}")
        assert (await call(state, "POST", path, {"items": [user("x" * 100 * KIB)]}))[0] == 200


async def test_items_that_are_added_at_once_do_not_all_find_room(tmp_path: Path) -> None:
    async with gateway("sqlite", tmp_path) as state:
        _, made = await call(state, "POST", "conversations")
        path = f"conversations/{made['id']}/items"
        requests = (call(state, "POST", path, {"items": [user("x" * 200 * KIB)]}) for _ in range(8))
        assert sorted([status for status, _ in await asyncio.gather(*requests)]) == [200] * 2 + [413] * 6


@STORES
async def test_metadata_are_read_without_items(kind: str, tmp_path: Path) -> None:
    async with gateway(kind, tmp_path) as state:
        _, made = await call(state, "POST", "conversations", {"items": [user("x" * 400 * KIB)], "metadata": {"a": "b"}})
        reads = Reads(state.store)
        tracemalloc.start()
        try:
            status, found = await call(state, "GET", f"conversations/{made['id']}")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        print(f"{kind}: {reads.size} bytes of the store, {peak / KIB:.0f} KiB at most")
        assert (status, found) == (200, made)
        assert reads.size < KIB
        assert peak < 400 * KIB  # of which 256 are the loop's for what it receives
        reads.clear()
        status, found = await call(state, "POST", f"conversations/{made['id']}", {"metadata": {"c": "d"}})
        assert (status, found["metadata"], reads.size) == (200, {"c": "d"}, 0)
        assert (await call(state, "GET", f"conversations/{made['id']}"))[1] == found
        assert reads.size < KIB


@STORES
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_page_is_read_without_the_others(kind: str, order: str, tmp_path: Path) -> None:
    """Whatever the number of the items, from both ends and from the middle; so is a single item."""
    counts = []
    for number in (50, 200):
        (tmp_path / str(number)).mkdir()
        async with gateway(kind, tmp_path / str(number)) as state:
            await long_conversation(state, number, 2 * KIB)
            reads = Reads(state.store)
            found = []
            for query in ("", f"&after=msg_{number // 2:032x}_0"):
                status, page = await call(state, "GET", f"conversations/{ROOT}/items?order={order}&limit=10{query}")
                assert (status, len(page["data"]), page["has_more"]) == (200, 10, True)
                found.append((reads.nodes, reads.size))
                reads.clear()
            status, _ = await call(state, "GET", f"conversations/{ROOT}/items/msg_{number // 2:032x}_0")
            assert (status, reads.nodes) == (200, 1)
            reads.clear()
            status, _ = await call(state, "DELETE", f"conversations/{ROOT}/items/msg_{number // 2:032x}_0")
            assert (status, reads.nodes) == (200, 2)  # the response with the item, and the metadata
            counts.append(found)
    print(f"{kind} {order}: responses read, and their bytes: {counts}")
    assert counts[0] == counts[1]
    assert all(nodes <= 12 for nodes, _ in counts[0])


@pytest.mark.parametrize(("item_id", "nodes"), [(f"msg_{99:032x}_0", 0), (f"msg_{1:032x}_9", 1), ("x", 51)])
async def test_an_item_that_is_not_there(
    item_id: str, nodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id of any other form may be that of another program that uses the store: it is searched for as text."""
    async with gateway("sqlite", tmp_path) as state:
        await long_conversation(state, 50, 2 * KIB)
        reads, parsed = Reads(state.store), []

        def loads(data: bytes) -> Any:
            parsed.append(len(data))
            return json_loads(data)

        monkeypatch.setattr("dragoman.threads.node.loads", loads)
        for path in (f"items/{item_id}", f"items?after={item_id}"):
            status, _ = await call(state, "GET", f"conversations/{ROOT}/{path}")
            assert (status, reads.nodes) == (404 if "?" not in path else 400, nodes)
            reads.clear()
        print(f"{item_id}: {len(parsed)} texts parsed in two requests")
        assert len(parsed) == (4 if nodes == 1 else 0)


@STORES
async def test_a_page_of_the_items_before_a_response(kind: str, tmp_path: Path) -> None:
    async with gateway(kind, tmp_path) as state:
        last = await long_path(state, 100, 4 * KIB)
        reads = Reads(state.store)
        for order, number in (("asc", 1), ("desc", 100)):
            status, page = await call(state, "GET", f"responses/{last}/input_items?limit=5&order={order}")
            assert (status, page["first_id"], reads.nodes) == (200, f"msg_{number:032x}_0", 6)
            reads.clear()


@STORES
@pytest.mark.parametrize("form", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("path", ["responses", "responses/input_tokens", "dragoman/explain", "responses/compact"])
async def test_a_history_above_the_limit_is_not_read_to_its_end(
    kind: str, form: str, path: str, tmp_path: Path
) -> None:
    async with gateway(kind, tmp_path) as state:
        name = ROOT
        if form == "conversation":
            await long_conversation(state, 40, 100 * KIB)
        else:
            name = await long_path(state, 40, 100 * KIB)
        reads = Reads(state.store)
        body = {"model": "sim-text", "input": "?", form: name, "store": False}
        status, found = await call(state, "POST", path, body)
        print(f"{kind} {form} {path}: {reads.size} bytes of {40 * 100 * KIB}")
        assert (status, found["error"]["param"]) == (413, form)
        assert f"request_body = {LIMIT}" in found["error"]["message"]
        assert reads.size < 3 * LIMIT
        assert state.simulator_requests() == []


async def test_a_history_is_as_long_as_its_items_and_not_as_the_replies(tmp_path: Path) -> None:
    """Replies repeat the tools of their requests, which are not sent again."""
    async with gateway("memory", tmp_path) as state:
        last = None
        for _ in range(4):
            tool = {"type": "function", "name": "f", "description": "x" * 200 * KIB, "parameters": {"type": "object"}}
            body = {"model": "sim-text", "input": "?", "tools": [tool], "previous_response_id": last}
            status, found = await call(state, "POST", "responses", body)
            assert status == 200, found
            last = found["id"]
        assert sum(each.size for each in await state.store.path_outline("", last)) > LIMIT


async def test_what_no_request_could_read_is_refused_by_its_sizes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("dragoman_server.proxy.stored_history.READ_MAX", 8 * LIMIT)
    async with gateway("memory", tmp_path) as state:
        last = await long_path(state, 9, LIMIT)
        reads = Reads(state.store)
        status, _ = await call(state, "POST", "responses", {"model": "m", "input": "?", "previous_response_id": last})
        assert (status, reads.nodes) == (413, 0)


@STORES
async def test_a_tree_is_read_in_parts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is kept. What is too long ends before all was read."""
    async with gateway(kind, tmp_path) as state:
        last = await long_path(state, 30, 400 * KIB)
        reads = Reads(state.store)
        tracemalloc.start()
        try:
            status, found = await call(state, "GET", f"dragoman/conversations/{last}/tree")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        print(f"{kind}: {peak / KIB:.0f} KiB at most for {reads.size / KIB:.0f} KiB")
        assert (status, len(found["nodes"]), found["has_more"]) == (200, 30, False)
        assert reads.size > 30 * 400 * KIB
        assert peak < reads.size  # orjson reserves twelve times the bytes that it parses: 5 MiB for one
        reads.clear()
        monkeypatch.setattr("dragoman_server.endpoints.conversation_tree.READ_MAX", 3000 * KIB)
        status, found = await call(state, "GET", f"dragoman/conversations/{last}/tree")
        assert (status, len(found["nodes"]), found["has_more"], reads.nodes) == (200, 6, True, 6)
        monkeypatch.setattr("dragoman_server.endpoints.conversation_tree.NODES_MAX", 4)
        status, found = await call(state, "GET", f"dragoman/conversations/{last}/tree")
        assert (len(found["nodes"]), found["has_more"], found["totals"]["responses"]) == (4, True, 4)


async def test_few_long_reads_run_at_once(tmp_path: Path) -> None:
    """Each needs memory for what it parses. A client has one at a time, so others wait for one of its at most."""
    async with gateway("memory", tmp_path) as state:
        assert state.gate.gateway.services.responses.stored is not None
        history = state.gate.gateway.services.responses.stored.history
        running, most, begun, gate = [], 0, asyncio.Event(), asyncio.Event()

        async def read(owner: str, size: int = LONG_READ + 1) -> None:
            nonlocal most
            async with history.reading(owner, size):
                running.append(owner)
                most = max(most, len(running))
                if len(running) == LONG_READS:
                    begun.set()
                await gate.wait()
                running.remove(owner)

        tasks = [asyncio.create_task(read(owner)) for owner in "aaaaaabbc"]
        await begun.wait()
        assert running == ["a", "b"]
        async with history.reading("a", LONG_READ):
            pass  # it does not wait
        gate.set()
        await asyncio.gather(*tasks)
        print(f"{most} of {len(tasks)} at once")
        assert most == LONG_READS


@STORES
async def test_changes_have_the_limit_of_turns(kind: str, tmp_path: Path) -> None:
    """Each is read with the conversation, however short it is."""
    async with gateway(kind, tmp_path, max_chain=4) as state:
        _, made = await call(state, "POST", "conversations", {"items": [user("a")]})
        path = f"conversations/{made['id']}"
        _, listed = await call(state, "GET", f"{path}/items")
        assert (await call(state, "POST", path, {"metadata": {"a": "1"}}))[0] == 200
        assert (await call(state, "POST", f"{path}/items", {"items": [user("b")]}))[0] == 200
        for method, target, body in (
            ("POST", path, {"metadata": {"a": "2"}}),
            ("POST", f"{path}/items", {"items": [user("c")]}),
            ("DELETE", f"{path}/items/{listed['data'][0]['id']}", None),
        ):
            status, found = await call(state, method, target, body)
            assert (status, "the most are 4" in found["error"]["message"]) == (400, True)
        assert (await call(state, "GET", path))[1]["metadata"] == {"a": "1"}
