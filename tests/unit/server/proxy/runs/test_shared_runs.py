"""The task that writes and reads for all runs of a process, turn by turn on a clock that the test moves."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.aio import EventLog
from dragoman.threads import NodeCipher, StoreError
from dragoman_server.proxy.runs.interface import LEASE, LostRun, Marks, RunId
from dragoman_server.proxy.runs.own_run import OwnRun
from dragoman_server.proxy.runs.shared_runs import (
    DEFECT_INTERVAL,
    INTERVAL,
    MARKS_INTERVAL,
    RUNS_AT_ONCE,
    SEARCH_INTERVAL,
    SharedRuns,
)
from dragoman_server.proxy.runs.sqlite import SqliteRunStore
from support.clocks import Clock
from support.thread_stores import KEY
from support.waiting import turns

NAME = RunId("me", "resp_1")


class Processes:
    """Some processes with one store, whose tasks do not run by themselves."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.folder = folder
        self.all: list[SharedRuns] = []

    async def add(self, cipher: NodeCipher | None = None) -> SharedRuns:
        store = SqliteRunStore(str(self.folder / "runs.db"), timeout=30.0, clock=self.clock)
        await store.open()
        self.all.append(SharedRuns(store, 1000.0, cipher, self.clock))
        await self.all[-1]._turn()
        return self.all[-1]

    async def turn(self, seconds: float, *only: SharedRuns) -> None:
        self.clock.now += seconds
        for each in only or self.all:
            await each._turn()


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    found = Processes(tmp_path)
    yield found
    for each in found.all:
        await each._store.close()


async def begin(shared: SharedRuns, marks: list[Marks | None] | None = None, **more: Any) -> OwnRun:
    run = await shared.begin(NAME, {"kind": "test"}, (marks if marks is not None else []).append, **more)
    assert run is not None
    run.log = EventLog(1 << 20)
    return run


async def end_of(shared: SharedRuns) -> int:
    run = await shared.get(NAME)
    assert run is not None
    return run.end


async def test_events_are_written_after_a_quarter_of_a_second(processes: Processes) -> None:
    assert INTERVAL == 0.25
    mine, other = await processes.add(), await processes.add()
    run = await begin(mine)
    assert run.log is not None
    await processes.turn(INTERVAL)
    run.log.append(b"one\n\n")
    await processes.turn(INTERVAL / 2, mine)
    assert await end_of(other) == 0
    await processes.turn(INTERVAL / 2, mine)
    assert await end_of(other) == 1


@pytest.mark.parametrize("offset", [0.0, 0.01, 0.12, 0.24])
async def test_a_process_that_is_killed_loses_the_events_of_a_quarter_of_a_second(
    processes: Processes, offset: float
) -> None:
    """A turn follows each quarter at the latest. Before any turn, all that is older is in the store."""
    mine, other = await processes.add(), await processes.add()
    run, step, added = await begin(mine), 0.05, list[float]()
    assert run.log is not None
    await processes.turn(offset, mine)
    for number in range(40):
        processes.clock.now += step
        run.log.append(b"%d\n\n" % number)
        added.append(processes.clock.now)
        stored = await end_of(other)  # a kill here loses the rest
        assert all(processes.clock.now - time <= INTERVAL + 1e-9 for time in added[stored:])
        await mine._turn()
    assert await end_of(other) >= len(added) - INTERVAL / step


async def test_a_run_without_news_is_written_for_its_lease_and_its_marks(processes: Processes) -> None:
    mine, other = await processes.add(), await processes.add()
    marks: list[Marks | None] = []
    await begin(mine, marks)
    await processes.turn(MARKS_INTERVAL)
    assert await other._store.cancel(NAME)
    await processes.turn(MARKS_INTERVAL)
    assert marks[-1] == Marks(True, "")
    assert len(marks) == 2
    for _ in range(20):
        await processes.turn(LEASE / 2)
    assert marks[-1] is not None, "its lease was renewed"


async def test_a_run_that_begins_while_a_write_waits_for_another_one(processes: Processes) -> None:
    mine, other = await processes.add(), await processes.add()
    await begin(mine)
    async with mine._lock:
        writing = asyncio.create_task(processes.turn(INTERVAL, mine))
        await turns(3)
        second = await mine.begin(RunId("me", "resp_2"), {"kind": "test"}, lambda marks: None)
    assert second is not None
    await writing
    assert await other.get(second.name) is not None


async def test_a_write_whose_result_is_lost_is_repeated_without_harm(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = await processes.add(), await processes.add()
    run, write = await begin(mine), mine._store.write
    assert run.log is not None

    async def lose(*args: Any) -> Any:
        await write(*args)
        raise StoreError("the connection is lost")

    monkeypatch.setattr(mine._store, "write", lose)
    run.log.append(b"one\n\n")
    with pytest.raises(StoreError):
        await processes.turn(INTERVAL, mine)
    monkeypatch.undo()
    run.log.append(b"two\n\n")
    await processes.turn(INTERVAL, mine)
    async with other.reading(NAME, 0) as reader:
        await processes.turn(INTERVAL, other)
        assert await reader.next(60.0) == b"one\n\ntwo\n\n"


async def test_a_run_that_lost_its_process_is_ended_by_another(processes: Processes) -> None:
    mine, other, late = [await processes.add() for _ in range(3)]
    marks: list[Marks | None] = []
    run = await begin(mine, marks, state=b"queued", request=b"request")
    ended: list[LostRun] = []

    async def end(taken: OwnRun, lost: LostRun) -> None:
        ended.append(lost)
        taken.add_last(lost.run.end, b"end\n\n")
        taken.end(b"failed", 60.0)

    other.end_lost["test"] = late.end_lost["test"] = end
    assert run.log is not None
    run.log.append(b"one\n\n")
    await processes.turn(LEASE)
    async with other.reading(NAME, 0) as reader:
        await processes.turn(LEASE + 1, other, late)
        assert await reader.next(60.0) == b"one\n\n"
        await processes.turn(INTERVAL, other)
        assert await reader.next(60.0) == b"end\n\n"
    assert [(lost.name, lost.run.state, lost.request) for lost in ended] == [(NAME, b"queued", b"request")]
    found = await late.get(NAME)
    assert found is not None
    assert (found.running, found.state, found.end) == (False, b"failed", 2)
    run.log.append(b"two\n\n")
    await processes.turn(INTERVAL)
    assert marks[-1] is None
    assert not mine._own
    assert await end_of(late) == 2, "a process that was too late adds nothing"


async def test_nothing_is_taken_before_others_could_renew_their_leases(processes: Processes) -> None:
    mine, other = await processes.add(), await processes.add()
    await begin(mine)
    other.end_lost["test"] = lambda *_: pytest.fail("it was taken")
    for _ in range(4):
        await processes.turn(LEASE / 2)
    other._answers_since = None  # the store was away
    processes.clock.now += 10 * LEASE
    await other._turn()
    await processes.turn(LEASE / 2)  # `mine` writes
    await processes.turn(LEASE / 2)
    await processes.turn(LEASE / 2)


async def test_a_lost_run_that_cannot_be_ended_properly_ends_too(processes: Processes) -> None:
    mine, other = await processes.add(), await processes.add()
    await begin(mine, state=b"queued")
    for _ in range(3):
        await processes.turn(LEASE + 1, other)  # no process knows its kind
    found = await other.get(NAME)
    assert found is not None
    assert (found.running, found.state) == (False, b"queued")


async def test_many_events_are_written_in_several_calls(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_server.proxy.runs.shared_runs.BYTES_AT_ONCE", 100)
    mine = await processes.add()
    calls: list[int] = []
    write = mine._store.write

    async def count(host: str, changes: Any) -> Any:
        calls.append(len(changes))
        return await write(host, changes)

    monkeypatch.setattr(mine._store, "write", count)
    for number in range(7):
        run = await mine.begin(RunId("me", f"resp_{number}"), {"kind": "test"}, lambda _: None)
        assert run is not None
        run.log = EventLog(1000)
        run.log.append(b"x" * 40)
    await processes.turn(INTERVAL)
    assert calls == [3, 3, 1]


async def test_what_is_stored_is_encrypted(processes: Processes) -> None:
    mine, other = await processes.add(NodeCipher(KEY)), await processes.add(NodeCipher(KEY))
    plain = await processes.add()
    run = await begin(mine, state=b"a secret state", request=b"a secret request")
    assert run.log is not None
    run.log.append(b"a secret event\n\n")
    await processes.turn(INTERVAL)
    found = await other.get(NAME)
    assert found is not None
    assert found.state == b"a secret state"
    async with other.reading(NAME, 0) as reader:
        await processes.turn(INTERVAL, other)
        assert await reader.next(60.0) == b"a secret event\n\n"
    stored = await plain.get(NAME)
    assert stored is not None
    assert b"secret" not in stored.state
    files = [path.read_bytes() for path in processes.folder.glob("runs.db*")]
    assert not any(b"secret" in data for data in files)


async def test_a_run_that_is_forgotten_is_deleted(processes: Processes) -> None:
    mine = await processes.add()
    run = await begin(mine)
    mine.forget(run)
    await processes.turn(INTERVAL)
    assert await mine.get(NAME) is None


async def test_runs_are_deleted_in_one_call(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = await processes.add()
    names, calls = [RunId("me", f"resp_{number}") for number in range(RUNS_AT_ONCE + 3)], list[int]()
    for name in names:
        run = await mine.begin(name, {"kind": "test"}, lambda _: None)
        assert run is not None
        mine.forget(run)
    remove = mine._store.remove

    async def count(some: Sequence[RunId]) -> None:
        calls.append(len(some))
        await remove(some)

    monkeypatch.setattr(mine._store, "remove", count)
    await processes.turn(INTERVAL)
    assert calls == [RUNS_AT_ONCE, 3]
    assert [name for name in names if await mine.get(name) is not None] == []


async def test_a_defect_is_logged_once_a_minute(processes: Processes, caplog: pytest.LogCaptureFixture) -> None:
    mine = await processes.add()

    def fail() -> None:
        try:
            raise KeyError("a defect")
        except KeyError:
            mine._report_defect()

    for _ in range(5):
        fail()
    assert [record.exc_info is not None for record in caplog.records] == [True]
    processes.clock.now += DEFECT_INTERVAL
    fail()
    assert ["5 times" in record.getMessage() for record in caplog.records] == [False, True]


async def test_a_process_goes_on_with_a_run_that_another_has_lost(processes: Processes) -> None:
    mine, other = await processes.add(NodeCipher(KEY)), await processes.add(NodeCipher(KEY))
    run = await begin(mine)
    assert run.log is not None
    for number in range(5):
        run.log.append(b"%d\n\n" % number)
        await processes.turn(INTERVAL, mine)
    run.attach = b"how"
    await mine.flush(run)
    taken: list[tuple[OwnRun, LostRun]] = []

    async def go_on(own: OwnRun, lost: LostRun) -> None:
        taken.append((own, lost))

    other.end_lost["test"] = go_on
    for _ in range(4):
        await processes.turn(LEASE / 2, other)
    ((own, lost),) = taken
    assert lost.attach == b"how"
    assert await other.stored_events(NAME, 0, 5) == [b"%d\n\n" % number for number in range(5)]
    assert await other.stored_events(NAME, 3, 5) == [b"3\n\n", b"4\n\n"]
    with pytest.raises(StoreError, match="are not there"):
        await other.stored_events(NAME, 3, 9)
    for _ in range(4):
        await processes.turn(LEASE / 2, other)
    assert len(taken) == 1, "its lease is renewed"
    own.end(b"", 10.0)
    await other.flush(own)
    found = await mine.get(NAME)
    assert found is not None
    assert not found.running


async def test_a_run_is_passed_on_with_all_its_events_before_its_lease_is_over(processes: Processes) -> None:
    mine, other = await processes.add(), await processes.add()
    marks, taken = list[Marks | None](), list[LostRun]()
    await processes.turn(LEASE)
    run = await begin(mine, marks)
    assert run.log is not None
    assert not run.can_pass_on
    run.attach = b"how"
    assert run.can_pass_on
    run.log.append(b"one\n\n")

    async def go_on(_: OwnRun, lost: LostRun) -> None:
        taken.append(lost)

    mine.end_lost["test"] = other.end_lost["test"] = go_on
    mine.stop()
    await mine.pass_on(run)
    run.log.append(b"late\n\n")
    await processes.turn(SEARCH_INTERVAL, mine)
    assert (taken, marks) == ([], [Marks(False, "")]), "it takes nothing back, and writes no more"
    await processes.turn(0.0, other)
    ((name, found, _, attach),) = taken
    assert (name, found.running, found.end, attach) == (NAME, True, 1, b"how")
    await processes.turn(LEASE)
    await mine.flush(run)
    assert marks[-1] is None
    assert await end_of(other) == 1


async def test_what_a_process_takes_while_it_stops_is_left_to_the_next(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other, third = [await processes.add() for _ in range(3)]
    taken: list[SharedRuns] = []
    for each in (other, third):

        async def go_on(run: OwnRun, lost: LostRun, each: SharedRuns = each) -> None:
            taken.append(each)
            run.end(b"", 9.0)

        each.end_lost["test"] = go_on
    await begin(mine)
    take = other._store.take

    async def stop_meanwhile(*args: Any) -> Any:
        found = await take(*args)
        other.stop()
        return found

    monkeypatch.setattr(other._store, "take", stop_meanwhile)
    await processes.turn(LEASE * 1.5, other, third)
    await processes.turn(SEARCH_INTERVAL, third)
    assert taken == [third]


async def test_a_lease_that_cannot_be_given_up_ends_by_itself(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine = await processes.add()
    run = await begin(mine)

    async def fail(*_: Any) -> Any:
        raise StoreError("away")

    monkeypatch.setattr(mine._store, "write", fail)
    await mine.pass_on(run)
    assert "its lease stays a while: away" in caplog.text
    assert not mine._own


async def lose(processes: Processes) -> None:
    """Delete all that the store has, as it was lost."""

    def delete() -> None:
        with sqlite3.connect(processes.folder / "runs.db") as db:
            db.execute("DELETE FROM events")
            db.execute("DELETE FROM runs")
        db.close()

    await asyncio.to_thread(delete)


@pytest.mark.parametrize("cipher", [None, NodeCipher(KEY)], ids=["plain", "encrypted"])
async def test_a_run_that_the_store_has_lost_is_shared_again(
    processes: Processes, cipher: NodeCipher | None, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = await processes.add(cipher), await processes.add(cipher)
    taken = list[LostRun]()

    async def end_lost(run: OwnRun, lost: LostRun) -> None:
        taken.append(lost)
        run.end(b"", 10.0)

    other.end_lost["test"] = end_lost
    run = await begin(mine, state=b"queued", request=b"the request", most=1)
    assert run.log is not None
    for number in range(3):
        run.log.append(b"%d\n\n" % number)
    run.state, run.attach = b"in progress", b"how"
    await processes.turn(INTERVAL)
    async with other.reading(NAME, 1) as reader:
        await processes.turn(INTERVAL)
        assert await reader.next(60.0) == b"1\n\n2\n\n"
        await lose(processes)
        await processes.turn(INTERVAL, other)
        assert not reader.is_over
        run.log.append(b"3\n\n")
        for _ in range(2):
            await processes.turn(MARKS_INTERVAL)
        found = await other.get(NAME)
        assert found is not None
        assert (found.running, found.state, found.end) == (True, b"in progress", 4)
        assert await reader.next(60.0) == b"3\n\n"
        assert await other.stored_events(NAME, 0, 4) == [b"%d\n\n" % number for number in range(4)]
    assert sum("lost 1 runs" in each.getMessage() for each in caplog.records) == 1
    assert await mine.begin(RunId("me", "resp_2"), {"kind": "test"}, print, most=1) is None, "it counts as before"
    # Once more, when it ends: the end is there, as it is for another process if this one is killed.
    await lose(processes)
    run.log.append(b"4\n\n")
    run.end(b"completed", 10.0)
    await mine.flush(run)
    found = await other.get(NAME)
    assert found is not None
    assert (found.running, found.state, found.end) == (False, b"completed", 5)
    assert run.begun is None
    # It is no longer shared again after its end, and not if it was deleted here.
    await lose(processes)
    await processes.turn(MARKS_INTERVAL)
    assert await other.get(NAME) is None
    assert taken == []


async def test_a_lost_run_that_was_shared_again_can_be_taken(processes: Processes) -> None:
    mine, other = await processes.add(), await processes.add()
    taken = list[LostRun]()

    async def go_on(run: OwnRun, lost: LostRun) -> None:
        taken.append(lost)

    other.end_lost["test"] = go_on
    run = await begin(mine, state=b"queued", request=b"the request")
    run.attach = b"how"
    await processes.turn(INTERVAL)
    await lose(processes)
    await processes.turn(MARKS_INTERVAL)
    for _ in range(6):  # the other one goes on with it, and its store loses it again
        await processes.turn(LEASE / 2, other)
    assert [(each.request, each.run.state, each.attach) for each in taken] == [(b"the request", b"queued", b"how")]
    await lose(processes)
    await processes.turn(MARKS_INTERVAL, other)
    found = await mine.get(NAME)
    assert found is not None
    assert (found.running, found.state) == (True, b"queued")
    for _ in range(2):
        await processes.turn(MARKS_INTERVAL, mine)
    assert not mine._own, "it is the other process's"
