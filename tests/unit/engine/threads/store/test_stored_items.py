"""Items that are read in parts are those of the whole conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ClientRequestError, LimitExceeded
from dragoman.threads import (
    Change,
    Conversation,
    ConversationHead,
    ItemPage,
    MemoryStore,
    Node,
    StoredItems,
    StoreError,
    added_items,
    change_id,
    conversation_node,
    deleted_item,
    input_items,
    new_metadata,
    page_of,
    path_items,
    read_head,
    sections_of,
)
from dragoman.threads.store import stored_items
from support.thread_stores import assistant, user

HEAD = ConversationHead("conv_1", 0, {})
LEGACY = ""
"""Ids of changes that do not state their kind."""


def response(name: str, parent: str | None, size: int = 1) -> Node:
    reply = {"object": "response", "output": [assistant(f"o{name}")]}
    given_items = json.dumps([user("x" * size)]).encode()
    return Node("k", f"resp_{name}", parent, 0, given_items, json.dumps(reply).encode())


async def stored(*nodes: Node) -> MemoryStore:
    store = MemoryStore(clock=lambda: 0.0)
    for node in nodes:
        await store.put(node)
    return store


def items_of(store: MemoryStore, outlines: Any, tree: Any = (), *, output: bool = True) -> StoredItems:
    return StoredItems(lambda part: store.nodes("k", part), sections_of(outlines, tree, output=output))


def conversation(steps: list[tuple[str, int]], *, legacy: bool) -> list[Node]:
    """The nodes of a conversation that these steps made: items added, responses, and items deleted."""
    nodes = [conversation_node("k", "conv_1", 0, {"items": [user("root")]} if legacy else {})]
    for number, (step, size) in enumerate(steps):
        kind = {"add": Change.ADDED, "delete": Change.DELETED, "metadata": Change.UPDATED}.get(step, "")
        node_id = change_id(f"req_c{number}", LEGACY if legacy else kind)
        if step == "add":
            items = [user(f"{number}.{each}") for each in range(size)]
            nodes.append(added_items("k", HEAD, node_id, 0, {"items": items}))
        elif step == "delete" and (shown := Conversation(nodes).shown()):
            nodes.append(deleted_item("k", HEAD, node_id, 0, shown[size % len(shown)]["id"]))
        elif step == "metadata":
            nodes.append(new_metadata("k", HEAD, node_id, 0, {"metadata": {"n": str(number)}}))
        elif step == "respond":
            nodes.append(response(f"r{number}", "conv_1"))
    return nodes


STEPS = st.lists(st.tuples(st.sampled_from(("add", "delete", "metadata", "respond")), st.integers(0, 5)), max_size=12)


@given(steps=STEPS, legacy=st.booleans(), limit=st.integers(1, 4), order=st.sampled_from(("asc", "desc")))
def test_the_parts_of_a_conversation_are_those_of_the_whole(
    steps: list[tuple[str, int]], legacy: bool, limit: int, order: str
) -> None:
    nodes = conversation(steps, legacy=legacy)
    whole = Conversation(nodes)

    async def compare() -> None:
        store = await stored(*nodes)
        tree = await store.tree_outline("k", "conv_1", 2)
        items = items_of(store, tree)
        assert await items.history(10**6) == whole.history()
        head = await read_head(lambda part: store.nodes("k", part), tree)
        assert (head.metadata, head.nodes, head.as_json()) == (whole.metadata, len(nodes), whole.as_json())
        after = None
        while True:
            page = ItemPage(limit, order, after)
            found = await items.page(page)
            assert found == page_of(whole.shown(), page)
            if not found["has_more"]:
                break
            after = found["last_id"]
        for each in whole.shown():
            assert await items.item(each["id"]) == each
        assert await items.item("msg_x") is None

    run(compare())


def run(work: Any) -> None:
    """Await what waits for nothing: an event loop for each example would take most of the time."""
    with pytest.raises(StopIteration):
        work.send(None)


async def test_the_items_before_a_response() -> None:
    path = [response("1", None), response("2", "resp_1"), response("3", "resp_2")]
    store = await stored(*path)
    outlines = await store.path_outline("k", "resp_3")
    page = ItemPage(100, "asc")
    assert await items_of(store, outlines, output=False).page(page) == page_of(input_items(path), page)


async def test_a_branch_of_a_conversation() -> None:
    tree = [
        conversation_node("k", "conv_1", 0, {"items": [user("root")]}),
        response("a", "conv_1"),
        deleted_item("k", HEAD, change_id("req_x", Change.DELETED), 0, "msg_1_0"),
        response("b", "conv_1"),
        response("branch", "resp_a"),
    ]
    store = await stored(*tree)
    page = ItemPage(100, "asc")
    for name in ("resp_branch", "resp_a", "resp_b"):
        path, outlines = await store.path("k", name), await store.path_outline("k", name)
        assert path is not None
        members = await store.tree_outline("k", "conv_1", 2)
        found = await items_of(store, outlines, members, output=False).page(page)
        assert found == page_of(path_items(path, tree), page)


async def test_an_unknown_after() -> None:
    store = await stored(response("1", None))
    items = items_of(store, await store.path_outline("k", "resp_1"))
    with pytest.raises(ClientRequestError, match="no item of this id"):
        await items.page(ItemPage(after="msg_x"))


@pytest.mark.parametrize("room", [-1, 0])
async def test_a_history_is_limited_by_the_bytes_of_its_items(room: int) -> None:
    store = await stored(response("1", None, 500), response("2", "resp_1", 500))
    items = items_of(store, await store.path_outline("k", "resp_2"))
    whole = await items.history(10**6)
    size = len(json.dumps(whole, separators=(",", ":")).encode())
    assert items.size > size
    if room < 0:
        with pytest.raises(LimitExceeded):
            await items.history(size + room)
        with pytest.raises(LimitExceeded):
            await items.check_length(size + room)
    else:
        assert await items.history(size) == whole
        await items.check_length(size)


async def test_a_response_that_is_deleted_while_it_is_read() -> None:
    store = await stored(response("1", None), response("2", "resp_1"))
    items = items_of(store, await store.path_outline("k", "resp_2"))
    assert await store.delete("k", "resp_1")
    for work in (items.history(10**6), items.page(ItemPage())):
        with pytest.raises(StoreError, match="deleted while it was read"):
            await work


async def test_the_caller_decides_where_parts_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    called: list[str] = []

    async def compute(size: int, job: Callable[[], Any]) -> Any:
        sizes.append(size)
        before = len(called)
        result = job()
        assert len(called) > before
        return result

    for name in ("_sent", "_shown", "_shown_by_section"):
        monkeypatch.setattr(stored_items, name, recorded(getattr(stored_items, name), called))
    store = await stored(response("1", None, 300_000))
    outlines = await store.path_outline("k", "resp_1") or ()
    items = StoredItems(lambda part: store.nodes("k", part), sections_of(outlines), compute)
    await items.history(10**6)
    await items.page(ItemPage())
    await items.item("msg_1_0")
    assert len(sizes) == 3
    assert set(sizes) == {items.size}


def recorded(function: Any, called: list[str]) -> Any:
    def call(*args: Any) -> Any:
        called.append(function.__name__)
        return function(*args)

    return call
