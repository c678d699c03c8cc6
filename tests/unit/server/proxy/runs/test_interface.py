"""The stores of runs: one suite for both."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dragoman_server.proxy.runs import interface
from dragoman_server.proxy.runs.interface import (
    LEASE,
    Change,
    Entry,
    Marks,
    NewRun,
    Position,
    Run,
    RunId,
    RunStore,
)
from dragoman_server.proxy.runs.redis import RedisRunStore
from dragoman_server.proxy.runs.sqlite import SqliteRunStore
from support.redis_server import redis_server
from support.waiting import until_true

NAME = RunId("döner", "resp_1")
_PREFIXES = itertools.count()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with redis_server() as server:
        yield server.url


@pytest.fixture(params=["sqlite", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunStore]:
    made: RunStore
    if request.param == "redis":
        made = RedisRunStore(request.getfixturevalue("url"), prefix=f"test-{next(_PREFIXES)}", timeout=30.0)
    else:
        made = SqliteRunStore(str(tmp_path / "runs.db"), timeout=30.0)
    await made.open()
    yield made
    await made.close()


def new(name: RunId = NAME, host: str = "a", most: int | None = None, ttl: float = 600.0) -> NewRun:
    return NewRun(name, host, b"head\x00", b"queued", b"request\xff", most, ttl)


async def test_a_run_is_read_by_others(store: RunStore) -> None:
    assert await store.get(NAME) is None
    assert await store.begin(new())
    assert await store.get(NAME) == Run(True, False, "", 0, 0, b"head\x00", b"queued")
    assert await store.get(RunId("other", NAME.id)) is None
    entries = [Entry(2, 2, b"one\n\ntwo\n\n"), Entry(3, 1, b"three\n\n")]
    change = Change(NAME, 0, entries, b"state\x00")
    assert await store.write("a", [change]) == [Marks(False, "")]
    assert await store.write("a", [change]) == [Marks(False, "")]  # again: nothing is added
    assert await store.get(NAME) == Run(True, False, "", 0, 3, b"head\x00", b"state\x00")
    positions = [Position(NAME, number) for number in range(4)]
    found = [each.entries for each in await store.read(positions) if each is not None]
    assert found == [entries, entries, entries[1:], []]
    assert await store.read([Position(RunId("", "resp_1"), 0)]) == [None]


async def test_events_are_dropped_and_a_run_ends(store: RunStore) -> None:
    await store.begin(new())
    await store.write("a", [Change(NAME, 0, [Entry(number + 1, 1, b"%d" % number) for number in range(5)])])
    await store.write("a", [Change(NAME, 3)])
    (rest,) = await store.read([Position(NAME, 0)])
    assert rest is not None
    assert (rest.run.first, rest.run.end) == (3, 5)
    assert [entry.data for entry in rest.entries] == [b"3", b"4"]
    assert await store.write("a", [Change(NAME, 3, (), b"", kept=600.0)]) == [Marks(False, "")]
    found = await store.get(NAME)
    assert found is not None
    assert (found.running, found.state) == (False, b"")
    assert not await store.cancel(NAME)
    await store.write("a", [Change(NAME, 5)])
    (rest,) = await store.read([Position(NAME, 4)])
    assert rest is not None
    assert rest.entries == []
    await store.remove([NAME])
    assert await store.get(NAME) is None
    # A store that has lost its data does not end what runs.
    assert await store.write("a", [Change(NAME, 0, [Entry(1, 1, b"x")])]) == [interface.LOST]
    assert await store.get(NAME) is None


@pytest.mark.turns
async def test_what_another_process_attaches_by_is_kept_until_the_end(store: RunStore) -> None:
    await store.begin(new())
    await store.write("a", [Change(NAME, attach=b"\x00how"), Change(NAME)])
    await store.write("a", [Change(NAME, 0, [Entry(1, 1, b"x")], b"state")])

    async def taken() -> list[interface.LostRun]:
        found: list[interface.LostRun] = []

        async def lost() -> bool:
            found.extend(await store.take("b", 10))
            return bool(found)

        await until_true(lost, LEASE + 30)
        return found

    assert [each.attach for each in await taken()] == [b"\x00how"]
    await store.write("b", [Change(NAME, kept=600.0)])
    assert await store.take("c", 10) == []


async def test_an_ended_run_is_kept_for_its_time(store: RunStore) -> None:
    await store.begin(new())
    await store.write("a", [Change(NAME, 0, [Entry(1, 1, b"x")], b"state", kept=0.01)])

    async def gone() -> bool:
        return await store.get(NAME) is None and await store.read([Position(NAME, 0)]) == [None]

    await until_true(gone)
    assert await store.take("b", 9) == []


async def test_an_owner_has_so_many_open_runs(store: RunStore) -> None:
    names = [RunId("mine", f"resp_{number}") for number in range(4)]
    assert [await store.begin(new(name, most=2)) for name in names[:3]] == [True, True, False]
    assert await store.begin(new(RunId("mi", "ne"), most=2))
    assert await store.begin(new(RunId("mine", "req_1")))  # without a limit; it does not count
    await store.write("a", [Change(names[0], kept=600.0)])
    assert await store.begin(new(names[2], most=2))
    await store.remove([names[1]])
    assert await store.begin(new(names[3], most=2))


async def test_marks_reach_the_host(store: RunStore) -> None:
    await store.begin(new())
    assert await store.cancel(NAME)
    assert not await store.cancel(RunId("", "resp_2"))
    await store.set_reader(NAME, "b:1")
    assert await store.write("a", [Change(NAME)]) == [Marks(True, "b:1")]
    await store.set_reader(NAME, "", "c:1")  # it is not the last reader
    assert await store.write("a", [Change(NAME)]) == [Marks(True, "b:1")]
    await store.set_reader(NAME, "c:1")
    (rest,) = await store.read([Position(NAME, 0, "b:1")])
    assert rest is not None
    assert rest.run.reader == "c:1"
    await store.set_reader(NAME, "", "c:1")
    assert await store.write("a", [Change(NAME)]) == [Marks(True, "")]
    assert await store.write("b", [Change(NAME)]) == [None]


async def test_a_run_that_lost_its_host_is_taken_once(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.begin(new(most=1))
    assert await store.take("b", 9) == []
    assert interface.LEASE == LEASE == 6.0
    for module in ("redis", "sqlite"):
        monkeypatch.setattr(f"dragoman_server.proxy.runs.{module}.LEASE", 0.01, raising=False)
    monkeypatch.setattr("dragoman_server.proxy.runs.redis._LEASE", "10")
    await store.set_reader(NAME, "c:1")
    await store.write("a", [Change(NAME, 0, [Entry(2, 2, b"data")], b"state")])
    monkeypatch.setattr("dragoman_server.proxy.runs.redis._LEASE", "60000")
    monkeypatch.setattr("dragoman_server.proxy.runs.sqlite.LEASE", 60.0)
    taken: list[interface.LostRun] = []

    async def lost() -> bool:
        taken.extend(await store.take("b", 9))
        return bool(taken)

    await until_true(lost)
    assert taken == [interface.LostRun(NAME, Run(True, False, "", 0, 2, b"head\x00", b"state"), b"request\xff")]
    assert await store.take("c", 9) == []
    assert await store.write("a", [Change(NAME, 0, [Entry(9, 1, b"late")])]) == [None]
    assert await store.write("b", [Change(NAME, 0, [Entry(3, 1, b"end")], b"", kept=600.0)]) == [Marks(False, "")]
    assert await store.begin(new(RunId(NAME.owner, "resp_2"), most=1))


async def test_a_run_that_is_released_is_taken_at_once(store: RunStore) -> None:
    await store.begin(new())
    await store.write("a", [Change(NAME, 0, [Entry(2, 2, b"data")], attach=b"how")])
    await store.release("b", NAME)
    assert await store.take("b", 9) == [], "it is not its own"
    await store.release("a", NAME)
    assert await store.write("a", [Change(NAME, 0, [Entry(9, 1, b"late")], b"late")]) == [None]
    found = await store.get(NAME)
    assert found is not None
    assert (found.running, found.end, found.state) == (True, 2, b"queued")
    (lost,) = await store.take("b", 9)
    assert (lost.name, lost.attach, lost.run.end) == (NAME, b"how", 2)
    assert await store.take("c", 9) == []
    await store.write("b", [Change(NAME, kept=600.0)])
    await store.release("b", NAME)
    assert await store.take("c", 9) == [], "one that has ended is not taken"


async def test_a_read_has_a_limit_of_bytes(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("redis", "sqlite"):
        monkeypatch.setattr(f"dragoman_server.proxy.runs.{module}.READ_BYTES", 10)
        monkeypatch.setattr(f"dragoman_server.proxy.runs.{module}.READ_ENTRIES", 3)
    others = RunId("", "resp_2")
    for name in (NAME, others):
        await store.begin(new(name))
        await store.write("a", [Change(name, 0, [Entry(number + 1, 1, b"12345") for number in range(5)])])
    found = await store.read([Position(NAME, 0), Position(others, 0)])
    assert [len(each.entries) for each in found if each is not None] == [3, 0]
