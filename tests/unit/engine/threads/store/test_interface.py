"""The behaviour of every store of conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.threads import NotStored, Store, ThreadLimits
from support.stores import Clock
from support.thread_stores import KINDS, ids, made, node, opened, server_url


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str:
    """The URL of a Redis or of a database for the kinds that need one, which start it."""
    return server_url(kind, request)


@pytest.fixture
async def store(kind: str, clock: Clock, tmp_path: Path, url: str) -> AsyncIterator[Store]:
    async with opened(kind, clock, tmp_path, url=url) as opened_store:
        yield opened_store


async def test_a_response_is_returned_as_it_was_stored(store: Store) -> None:
    first = node("a", "r1", text="ü ✨")
    await store.put(first)
    assert await store.get("a", "r1") == first
    assert await store.get("a", "r2") is None
    assert await store.path("a", "r2") is None


async def test_a_store_is_opened_and_closed_by_async_with(
    kind: str, clock: Clock, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []
    store: Any = made(kind, clock, tmp_path, url=url)
    close = store.close

    async def counted(self: object) -> None:
        closed.append(self)
        await close()

    monkeypatch.setattr(type(store), "close", counted)
    async with store as opened_store:
        assert opened_store is store
        await store.put(node("a", "r1"))
        assert await store.get("a", "r1") == node("a", "r1")
        assert closed == []
    assert closed == [store]


async def test_a_path_leads_from_the_root_through_its_own_branch_only(store: Store) -> None:
    for name, parent in (("r", None), ("a", "r"), ("b", "r"), ("a2", "a"), ("a3", "a2")):
        await store.put(node("k", name, parent))
    assert ids(await store.path("k", "a3")) == ["r", "a", "a2", "a3"]
    assert ids(await store.path("k", "b")) == ["r", "b"]
    assert ids(await store.tree("k", "b")) == ["r", "a", "b", "a2", "a3"]
    assert await store.tree("k", "x") == []


async def test_an_outline_is_without_the_contents(store: Store) -> None:
    for name, parent in (("r", None), ("a", "r"), ("b", "r"), ("a2", "a"), ("a3", "a2")):
        await store.put(node("ü", name, parent))
    path = await store.path_outline("ü", "a3")
    assert path is not None
    assert [(each.id, each.root, each.parent, each.created) for each in path] == [
        ("r", "r", None, 1_795_000_000),
        ("a", "r", "r", 1_795_000_000),
        ("a2", "r", "a", 1_795_000_000),
        ("a3", "r", "a2", 1_795_000_000),
    ]
    assert [each.size for each in path] == [each.size for each in await store.path("ü", "a3") or ()]
    tree = await store.tree_outline("ü", "a2")
    assert [each.id for each in tree] == ids(await store.tree("ü", "a2"))
    assert [each.id for each in await store.tree_outline("ü", "a2", 2)] == ["r", "a", "b"]
    assert await store.nodes("ü", path[::-1]) == (await store.path("ü", "a3") or [])[::-1]
    assert await store.nodes("ü", []) == []
    assert await store.delete("ü", "a2")
    assert ids(await store.nodes("ü", path)) == ["r", "a", "a3"]
    assert await store.path_outline("ü", "a3") is None
    assert await store.tree_outline("ü", "x") == []
    assert await store.path_outline("k", "r") is None
    assert await store.tree_outline("k", "r") == []
    assert await store.nodes("k", path) == []


async def test_many_responses_are_read_at_once(store: Store) -> None:
    for number in range(300):
        await store.put(node("k", f"n{number}", f"n{number - 1}" if number else None))
    path = await store.path_outline("k", "n299")
    assert path is not None
    assert ids(await store.nodes("k", path)) == [f"n{number}" for number in range(300)]


async def test_an_owner_sees_no_response_of_another(store: Store) -> None:
    await store.put(node("a", "r"))
    assert await store.get("b", "r") is None
    assert await store.path("b", "r") is None
    assert await store.tree("b", "r") == []
    assert not await store.delete("b", "r")
    with pytest.raises(NotStored, match="no longer stored"):
        await store.put(node("b", "c", "r"))
    other = node("b", "r", text="another")
    await store.put(other)
    assert await store.get("b", "r") == other
    assert await store.get("a", "r") == node("a", "r")


async def test_an_id_is_stored_once(store: Store) -> None:
    await store.put(node("a", "r"))
    with pytest.raises(NotStored, match="already"):
        await store.put(node("a", "r", text="another"))
    assert await store.get("a", "r") == node("a", "r")


async def test_what_is_deleted_is_gone_and_leaves_a_hole_in_paths(store: Store) -> None:
    for name, parent in (("r", None), ("a", "r"), ("b", "a"), ("c", "r")):
        await store.put(node("k", name, parent))
    assert await store.delete("k", "a")
    assert not await store.delete("k", "a")
    assert await store.get("k", "a") is None
    assert await store.path("k", "a") is None
    assert await store.path("k", "b") is None
    assert await store.get("k", "b") is not None
    assert ids(await store.path("k", "c")) == ["r", "c"]


async def test_a_deleted_id_that_is_used_again_makes_no_circle(store: Store) -> None:
    await store.put(node("k", "r"))
    await store.put(node("k", "a", "r"))
    assert await store.delete("k", "r")
    await store.put(node("k", "r", "a"))
    assert await store.path("k", "r") is None
    assert await store.path("k", "a") is None


async def test_a_conversation_expires_as_a_whole(store: Store, clock: Clock) -> None:
    day = 86_400.0
    await store.put(node("k", "old"))
    await store.put(node("k", "r"))
    clock.now += 20 * day
    await store.put(node("k", "a", "r"))
    clock.now += 20 * day
    assert await store.get("k", "old") is None
    assert ids(await store.path("k", "a")) == ["r", "a"]
    assert await store.expire() == 1
    clock.now += 20 * day
    assert await store.path("k", "a") is None
    with pytest.raises(NotStored, match="no longer stored"):
        await store.put(node("k", "b", "a"))
    assert await store.tree("k", "a") == []
    assert await store.expire() == 0 or await store.get("k", "a") is None


async def test_the_conversation_that_was_used_first_makes_room(
    kind: str, clock: Clock, tmp_path: Path, url: str
) -> None:
    size = node("k", "r0").size
    async with opened(kind, clock, tmp_path, ThreadLimits(size=3 * size), url) as store:
        for name in ("r0", "r1", "r2"):
            await store.put(node("k", name))
        await store.put(node("j", "c0", text="r3"))
        assert await store.get("k", "r0") is None
        await store.put(node("k", "c1", "r1"))
        assert [await store.get("k", name) is not None for name in ("r1", "r2", "c1")] == [True, False, True]
        assert await store.get("j", "c0") is not None


async def test_the_number_of_responses_is_limited(kind: str, clock: Clock, tmp_path: Path, url: str) -> None:
    async with opened(kind, clock, tmp_path, ThreadLimits(nodes=2), url) as store:
        for name in ("r0", "r1", "r2"):
            await store.put(node("k", name))
        assert [await store.get("k", name) is not None for name in ("r0", "r1", "r2")] == [False, True, True]
        await store.put(node("k", "c", "r1"))
        assert await store.get("k", "r2") is None
        with pytest.raises(NotStored, match="larger than the store"):
            await store.put(node("k", "d", "c"))


async def test_an_owner_takes_no_room_of_others(kind: str, clock: Clock, tmp_path: Path, url: str) -> None:
    size = node("k", "r0").size
    async with opened(kind, clock, tmp_path, ThreadLimits(owner_size=2 * size), url) as store:
        await store.put(node("j", "r0"))
        for name in ("r0", "r1", "r2"):
            await store.put(node("k", name))
        assert await store.get("j", "r0") is not None
        assert [await store.get("k", name) is not None for name in ("r0", "r1", "r2")] == [False, True, True]
        with pytest.raises(NotStored, match="larger than the store"):
            await store.put(node("k", "big", text="x" * 2 * size))


async def test_a_path_has_a_longest_length(kind: str, clock: Clock, tmp_path: Path, url: str) -> None:
    async with opened(kind, clock, tmp_path, ThreadLimits(depth=2), url) as store:
        await store.put(node("k", "a"))
        await store.put(node("k", "b", "a"))
        with pytest.raises(NotStored, match="more than 2 responses"):
            await store.put(node("k", "c", "b"))


async def test_a_conversation_has_a_largest_number_with_its_branches(
    kind: str, clock: Clock, tmp_path: Path, url: str
) -> None:
    async with opened(kind, clock, tmp_path, ThreadLimits(tree=2), url) as store:
        await store.put(node("k", "a"))
        await store.put(node("k", "b", "a"))
        with pytest.raises(NotStored, match="has 2 responses with all its branches"):
            await store.put(node("k", "c", "a"))
        await store.put(node("k", "other"))
