"""The runs that this process shares with others through a store.

One task writes for all runs of the process and reads for all its readers, each in one call of the store, four times a
second while there are any. So at most a quarter of a second of events is lost with a process that is killed, a reader
elsewhere is as late, and a run that is cancelled elsewhere ends within a second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from dragoman.threads import StoreError
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.proxy.runs.interface import LEASE, Change, LostRun, Marks, Position, Run, RunId, RunStore
from dragoman_server.proxy.runs.own_run import Begun, OwnRun
from dragoman_server.proxy.runs.reader import RunReader

if TYPE_CHECKING:
    from dragoman.threads import NodeCipher

log = logging.getLogger("dragoman")
INTERVAL = 0.25
"""Seconds between two writes of events."""
MARKS_INTERVAL = 0.5
"""Seconds between two writes of a run without news, by which its lease is renewed and its marks are read."""
SEARCH_INTERVAL = 2.0
"""Seconds between two searches for runs that have lost their host."""
DEFECT_INTERVAL = 60.0
"""Seconds between two lines of the log about a defect of this task."""
RUNS_AT_ONCE = 64
"""Most runs in one call of the store, which serves no other process meanwhile."""
BYTES_AT_ONCE = 4 * 1024**2
"""Bytes after which a call takes no further run."""
CANCEL_SECONDS = 10.0
"""Longest wait for the end of another process's run that was cancelled."""
_END = b"\n\n"
EndLost = Callable[[OwnRun, LostRun], Awaitable[None]]
"""Ends a run that has lost its host, and belongs to this process now, or goes on with it: then it does not end it."""


class SharedRuns:
    """The runs of one process, and its access to those of others.

    Args:
        store: The store.
        ttl: Seconds after which a run that no process ends is deleted.
        cipher: Encrypts what is stored.
        clock: A function that returns seconds.
    """

    def __init__(
        self,
        store: RunStore,
        ttl: float,
        cipher: NodeCipher | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(6).hex()}"
        """The name of this process."""
        self.end_lost: dict[str, EndLost] = {}
        """By the `kind` in the head of a run."""
        self._store = store
        self._ttl = ttl
        self._cipher = cipher
        self._clock = clock
        self._own: dict[RunId, OwnRun] = {}
        self._removed: list[RunId] = []
        self._readers: list[RunReader] = []
        self._takes = True
        """False once no run of another process is taken."""
        self._lock = asyncio.Lock()
        """Held by a write: a run must not be written twice at a time."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._answers_since: float | None = None
        """The time since which the store answers; None while it does not."""
        self._write_at = self._marks_at = self._search_at = 0.0
        self._defect_at: float | None = None
        """The time of the last line about a defect."""
        self._defects = 0
        """Those since then."""

    async def open(self) -> None:
        """Open the store, and begin to write and to read. Raises StoreError."""
        await self._store.open()
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Write what is pending, and close the store. What still runs has lost its host."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with suppress(StoreError):
                await self._write(self._own.values())
        await self._store.close()

    # --- runs of this process ----------------------------------------------------------------------------------------

    async def begin(
        self,
        name: RunId,
        head: Json,
        on_marks: Callable[[Marks | None], None],
        *,
        state: bytes = b"",
        request: bytes = b"",
        most: int | None = None,
    ) -> OwnRun | None:
        """Share a run that begins here; None if its owner has `most` that are open. Raises StoreError.

        `head` has the `kind`, by which a process that takes the run ends it, with `state` and `request`.
        """
        run = OwnRun(name, self._encrypt, on_marks)
        run.begun, run.last_state = Begun(json_dumps(head), request, most), state
        if not await self._store.begin(run.new(self.host, self._ttl)):
            return None
        self._own[name] = run
        self._wake.set()
        return run

    async def flush(self, run: OwnRun) -> None:
        """Write what a run has to write. Raises StoreError; then it is written later."""
        await self._write((run,))

    def stop(self) -> None:
        """Take no run of another process from now on."""
        self._takes = False

    async def pass_on(self, run: OwnRun) -> None:
        """Write what is new of a run, and leave it to another process, which takes it soon.

        If the store fails, that takes it once the lease is over.
        """
        try:
            await self._write((run,))
            async with self._lock:
                self._own.pop(run.name, None)
                await self._store.release(self.host, run.name)
        except StoreError as error:
            log.warning("%s is left to another process, but its lease stays a while: %s", run.name.id, error)
        finally:
            self._own.pop(run.name, None)

    def forget(self, run: OwnRun) -> None:
        """Delete a run soon."""
        if self._own.pop(run.name, None) is not None:
            self._removed.append(run.name)

    # --- runs of any process -----------------------------------------------------------------------------------------

    async def get(self, name: RunId, number: int = 0) -> Run | None:
        """Return a run of any process, or None if it is not there. Raises StoreError.

        A client may have got events from another process that has not written them yet. So this waits until those
        before `number` are there, but no longer than for a lease.
        """
        run = await self._store.get(name)
        for _ in range(int(LEASE / INTERVAL)):
            if run is None or not run.running or number <= run.end:
                break
            await asyncio.sleep(INTERVAL)
            run = await self._store.get(name)
        if run is None:
            return None
        head = self._decrypt(name, "head", run.head)
        return run._replace(head=head, state=run.state and self._decrypt(name, "state", run.state))

    async def cancel(self, name: RunId) -> None:
        """Cancel a run of any process, and wait for its end, but not for long. Raises StoreError."""
        if await self._store.cancel(name):
            for _ in range(int(CANCEL_SECONDS / INTERVAL)):
                await asyncio.sleep(INTERVAL)
                if (run := await self._store.get(name)) is None or not run.running:
                    return

    @asynccontextmanager
    async def reading(self, name: RunId, number: int, mark: str = "") -> AsyncIterator[RunReader]:
        """Give a reader of a run, from an event on. With a mark, it replaces the one before. Raises StoreError."""
        if mark:
            await self._store.set_reader(name, mark)
        reader = RunReader(name, number, mark, self._decrypt, self._wake.set, self._clock)
        self._readers.append(reader)
        self._wake.set()
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            if mark:
                with suppress(StoreError):  # then the mark ends by itself
                    await self._store.set_reader(name, "", mark)

    async def end_reading(self, name: RunId, mark: str) -> None:
        """Let the reader with this mark end: a client of this process has replaced it. Raises StoreError."""
        await self._store.set_reader(name, "", mark)

    async def stored_events(self, name: RunId, first: int, end: int) -> list[bytes]:
        """Return the frames of these events of a run. Raises StoreError, also if they are no longer there."""
        frames: list[bytes] = []
        number = first
        while number < end:
            (rest,) = await self._store.read([Position(name, number)])
            if rest is None or not rest.entries:
                raise StoreError(f"the events of {name.id} from {number} on are not there")
            for entry in rest.entries:
                data = self._decrypt(name, str(entry.end), entry.data)
                found = [frame + _END for frame in data.split(_END)[:-1]]
                frames += found[max(0, number - (entry.end - entry.events)) :]
                number = entry.end
        return frames

    # --- the task ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._turn()
            except StoreError as error:
                if self._answers_since is not None:
                    log.error("the store of runs fails: %s", error)
                self._answers_since = None
            except Exception:
                self._report_defect()
            busy = self._readers or self._removed or any(run.kept is None or run.has_news for run in self._own.values())
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL if busy else SEARCH_INTERVAL):
                    await self._wake.wait()

    def _report_defect(self) -> None:
        """Log the exception that is handled, now and then: the same may come four times a second."""
        now = self._clock()
        self._defects += 1
        if self._defect_at is None or now - self._defect_at >= DEFECT_INTERVAL:
            log.exception("sharing runs failed by a defect (%d times since the last such line)", self._defects)
            self._defect_at, self._defects = now, 0

    async def _turn(self) -> None:
        """Write and read what is due. Raises StoreError."""
        now = self._clock()
        if now >= self._write_at:
            self._write_at = now + INTERVAL
            if all_runs := now >= self._marks_at:
                self._marks_at = now + MARKS_INTERVAL
            await self._write(self._due(all_runs=all_runs))
            while some := self._removed[:RUNS_AT_ONCE]:
                await self._store.remove(some)
                del self._removed[: len(some)]
        await self._read()
        if self._takes and now >= self._search_at:
            self._search_at = now + SEARCH_INTERVAL
            # After the store was away, all leases have ended, and the hosts renew them first.
            is_settled = self._answers_since is not None and now - self._answers_since >= LEASE
            await self._take(RUNS_AT_ONCE if is_settled else 0)
        if self._answers_since is None:
            self._answers_since = self._clock()

    async def _take(self, most: int) -> None:
        """Take runs that have lost their host. Raises StoreError."""
        for lost in await self._store.take(self.host, most):
            if self._takes:
                await self._end(lost)
            else:  # it stops since then
                await self._store.release(self.host, lost.name)

    def _due(self, *, all_runs: bool) -> Iterator[OwnRun]:
        """Yield the runs to write. They are looked for at the first step: others may begin before the lock is taken."""
        yield from (run for run in self._own.values() if run.has_news or (all_runs and run.kept is None))

    async def _write(self, runs: Iterable[OwnRun]) -> None:
        async with self._lock:
            some: list[tuple[OwnRun, bytes | None, Change]] = []
            size = 0
            for run in list(runs):
                some.append((run, run.state, change := run.change()))
                size += len(change.state or b"") + sum(len(entry.data) for entry in change.entries)
                if len(some) >= RUNS_AT_ONCE or size >= BYTES_AT_ONCE:
                    await self._write_some(some)
                    some, size = [], 0
            await self._write_some(some)

    async def _write_some(self, some: Sequence[tuple[OwnRun, bytes | None, Change]]) -> None:
        """Write changes of runs, each with the state that it has."""
        found = await self._store.write(self.host, [change for _, _, change in some]) if some else []
        lost: list[OwnRun] = []
        for (run, state, change), marks in zip(some, found, strict=True):
            if marks is not None and marks.is_lost and self._own.get(run.name) is run and run.begun is not None:
                lost.append(run)
                continue
            run.written(change, state)
            if marks is None:
                self._own.pop(run.name, None)
            if run.kept is None:
                run.on_marks(marks)
        if lost:
            await self._begin_again(lost)

    async def _begin_again(self, lost: Sequence[OwnRun]) -> None:
        """Share runs of this process again, which the store has lost with its data."""
        log.warning("the store has lost %d runs that go on here: they are shared again", len(lost))
        for run in lost:
            new = run.new(self.host, self._ttl)
            if not await self._store.begin(new):  # others have begun meanwhile: it runs, whatever their number
                await self._store.begin(new._replace(most=None))
            run.write_again()
        some = [(run, run.state, run.change()) for run in lost]
        found = await self._store.write(self.host, [change for _, _, change in some])
        for (run, state, change), marks in zip(some, found, strict=True):
            if marks is not None and not marks.is_lost:  # else the next turn begins it again
                run.written(change, state)

    async def _read(self) -> None:
        waiting = [reader for reader in self._readers if reader.waits]
        if not waiting:
            return
        for at in range(0, len(waiting), RUNS_AT_ONCE):
            some = waiting[at : at + RUNS_AT_ONCE]
            for reader, rest in zip(some, await self._store.read([each.position for each in some]), strict=True):
                reader.add(rest)
        # Those that got something are the last that a read with too much to return serves.
        self._readers.sort(key=lambda reader: not reader.waits)

    async def _end(self, lost: LostRun) -> None:
        """End a run that has lost its host, or go on with it."""
        name, run = lost.name, OwnRun(lost.name, self._encrypt, lambda _: None)
        try:
            head = self._decrypt(name, "head", lost.run.head)
            state = lost.run.state and self._decrypt(name, "state", lost.run.state)
            request = lost.request and self._decrypt(name, "request", lost.request)
            attach = lost.attach and self._decrypt(name, "attach", lost.attach)
            opened = LostRun(name, lost.run._replace(head=head, state=state), request, attach)
            run.taken_with(opened)
            await self.end_lost[json_loads(head)["kind"]](run, opened)
        except Exception as error:  # another key, or a kind that this process does not run: it must not come again
            log.error("%s has lost its process, and cannot be completed: %r", name.id, error)
            run.kept = self._ttl
        if run.kept is None:
            self._own[name] = run
            log.warning("%s goes on here: its process has stopped", name.id)
            return
        log.warning("%s has ended: its process has stopped", name.id)
        await self._write((run,))

    def _encrypt(self, name: RunId, what: str, data: bytes) -> bytes:
        return data if self._cipher is None else self._cipher.encrypt(name.owner, f"{name.id} {what}", data)

    def _decrypt(self, name: RunId, what: str, data: bytes) -> bytes:
        return data if self._cipher is None else self._cipher.decrypt(name.owner, f"{name.id} {what}", data)
