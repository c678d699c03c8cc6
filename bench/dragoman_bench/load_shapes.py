"""The load shapes: streams held open, consecutive replies, scheduled arrivals, and clients that disconnect."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from dragoman_bench.load import Load, get_json
from dragoman_bench.pacer import Pacer
from dragoman_bench.plan import Mode, Plan
from dragoman_bench.receiver import Receiver, Tally

_ERRORS_BORNE = 1000
_RETRY_AFTER = 0.05
_STEP = 0.1
_BEGUN_WITHIN = 10.0
_SMALL_BUFFER = 4096
_BLAST_BUFFER = 256 * 1024
_BODY_END = b"\r\n0\r\n\r\n"

Done = Callable[[Receiver, "str | None"], None]


class SlowReceiver(Receiver, asyncio.BufferedProtocol):
    """Reads at most `size` bytes, then pauses until the next `tick`."""

    __slots__ = ("_buffer",)

    def __init__(self, dialect: str, size: int, tally: Tally, done: Done) -> None:
        super().__init__(dialect, tally, done)
        self._buffer = bytearray(size)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the event loop."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop."""
        if self.transport is not None:
            self.transport.pause_reading()
        self.data_received(bytes(self._buffer[:nbytes]))

    def tick(self) -> None:
        """Read once more."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()


class BlastReader(asyncio.BufferedProtocol):
    """Requests one stream after another and drops the data: parsing it would take CPU time from the other streams."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.buffer = bytearray(_BLAST_BUFFER)
        self._begun = False
        self._tail = b""
        self.transport: asyncio.Transport | None = None
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the event loop."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop."""
        self.received += nbytes
        self._tail = (self._tail + self.buffer[max(0, nbytes - len(_BODY_END)) : nbytes])[-len(_BODY_END) :]
        if self._tail == _BODY_END and self.transport is not None:
            self.transport.write(self._request)


class ArrivalSchedule:
    """Poisson arrivals during a plan's warm-up and window: a slow gateway builds up queues, as in production."""

    def __init__(self, plan: Plan, first: int, arrive: Callable[[int], None]) -> None:
        self._chance = random.Random(plan.seed)
        self._mean = 1e9 / plan.rate
        self._due = first
        self._until = first + int((plan.warm + plan.seconds) * 1e9)
        self._arrive = arrive
        self.interval_ns = 0

    def tick(self) -> bool:
        """Start the request that is due. Returns False after the last one."""
        self._arrive(self._due)
        self.interval_ns = int(self._chance.expovariate(1.0) * self._mean)
        self._due += self.interval_ns
        return self._due < self._until


async def hold(load: Load) -> None:
    """Open all streams, measure while all are open, then let the upstream end them and wait for their ends."""
    plan = load.plan
    left = plan.streams
    beginning: set[Receiver] = set()
    moved = asyncio.Event()

    def begun(receiver: Receiver) -> None:
        beginning.discard(receiver)
        moved.set()

    def done(receiver: Receiver, error: str | None) -> None:
        nonlocal left
        left -= 1
        if receiver.transport is not None:
            receiver.transport.abort()
        begun(receiver)

    async def settled(most: int) -> None:
        while len(beginning) > most:
            moved.clear()
            await moved.wait()

    slow = await _slow_readers(load)
    blast = await _blast_reader(load)
    started = time.monotonic()
    for number in range(plan.streams):
        if (wait := started + number / plan.ramp_per_s - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        await settled(plan.opening - 1)
        receiver = await load.connect(lambda: Receiver(plan.dialect, load.tally, done))
        if receiver is None:
            left -= 1
            continue
        receiver.started = begun
        beginning.add(receiver)
        receiver.send(load.request, time.monotonic_ns())
    await settled(0)
    await asyncio.sleep(plan.warm)
    await load.window(lambda: left > 0)
    for reader in slow:
        reader.cut()
    slow.clear()
    if blast is not None:
        if blast.received < len(blast.buffer):
            load.tally.error("blast", f"{blast.received} bytes of a stream that is sent as fast as it is read")
        if blast.transport is not None:
            blast.transport.abort()
    await get_json(plan.upstream, "/bench/finish")
    while left > 0:
        moved.clear()
        await moved.wait()


async def _slow_readers(load: Load) -> list[SlowReceiver]:
    """Return the plan's slow readers, connected. They stop when the list is emptied."""
    slow, readers = load.plan.slow, list[SlowReceiver]()
    if slow is None:
        return readers
    request = load.plan.request(slow.model)
    apart = Tally(live=load.tally.live)  # their delays are not the gateway's

    def done(receiver: Receiver, error: str | None) -> None:
        if error is not None:
            load.tally.error(f"slow-{error}", f"a slow reader's stream ended after {receiver.seen} deltas")

    for _ in range(slow.streams):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        receiver = await load.connect(partial(SlowReceiver, load.plan.dialect, slow.size, apart, done), sock)
        if isinstance(receiver, SlowReceiver):
            receiver.send(request, time.monotonic_ns())
            readers.append(receiver)

    async def tick() -> None:
        while readers:
            await asyncio.sleep(slow.tick_ms / 1000)
            for reader in readers:
                reader.tick()

    load.spawn(tick())
    return readers


async def _blast_reader(load: Load) -> BlastReader | None:
    """Return the plan's blast reader, connected, or None."""
    plan = load.plan
    if not plan.blast:
        return None
    request = plan.request(plan.blast)
    try:
        return (await asyncio.get_running_loop().create_connection(lambda: BlastReader(request), *plan.address))[1]
    except OSError as error:
        load.tally.error("connect", f"{error!r} at the blasting stream")
        return None


async def closed(load: Load) -> None:
    """Keep the plan's number of replies going; each is followed by the next on its connection."""
    plan = load.plan
    going, running = 0, True
    quiet = asyncio.Event()
    failures = 0

    def again(receiver: Receiver) -> None:
        nonlocal going
        going += 1
        receiver.send(load.request, time.monotonic_ns(), streamed=plan.stream)

    def done(receiver: Receiver, error: str | None) -> None:
        nonlocal going, failures
        going -= 1
        failures += error is not None
        if not running or failures > _ERRORS_BORNE:
            if receiver.transport is not None:
                receiver.transport.abort()
            if going == 0:
                quiet.set()
        elif receiver.healthy and receiver.transport is not None:
            again(receiver)
        else:
            load.spawn(begin(_RETRY_AFTER if error else 0.0))

    async def begin(wait: float) -> None:
        await asyncio.sleep(wait)
        if running and (receiver := await load.connect(lambda: Receiver(plan.dialect, load.tally, done))):
            again(receiver)

    for number in range(plan.streams):
        load.spawn(begin(number / plan.ramp_per_s))
    await asyncio.sleep(plan.streams / plan.ramp_per_s + plan.warm)
    await load.window(lambda: failures <= _ERRORS_BORNE)
    running = False
    while going > 0:
        quiet.clear()
        await quiet.wait()


async def arrivals(load: Load) -> None:
    """Send requests by the schedule, on idle connections if there are any."""
    plan = load.plan
    idle: deque[Receiver] = deque()
    going = 0
    moved = asyncio.Event()

    def done(receiver: Receiver, error: str | None) -> None:
        nonlocal going
        going -= 1
        if receiver.healthy and receiver.transport is not None:
            idle.append(receiver)
        moved.set()

    async def begin(at: int) -> None:
        nonlocal going
        receiver: Receiver | None = None
        while idle and (receiver is None or receiver.transport is None):
            receiver = idle.popleft()
        if receiver is None or receiver.transport is None:
            receiver = await load.connect(lambda: Receiver(plan.dialect, load.tally, done))
        if receiver is None:
            going -= 1
            moved.set()
        else:
            receiver.send(load.request, at, streamed=plan.stream)

    def arrive(at: int) -> None:
        nonlocal going
        if going >= plan.streams:
            load.tally.error("too-many", f"{going} replies at once: the gateway does not keep up")
        else:
            going += 1
            load.spawn(begin(at))

    pacer = Pacer(asyncio.get_running_loop())
    try:
        first = time.monotonic_ns() + 1_000_000
        pacer.add(ArrivalSchedule(plan, first, arrive), first)
        await asyncio.sleep(plan.warm)
        load.tally.first.clear()
        load.tally.whole.clear()
        await load.window(lambda: True)
        while going > 0 or len(pacer):
            moved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), _STEP)
    finally:
        pacer.close()


async def storm(load: Load) -> None:
    """Send requests and disconnect: a fifth at once, a fifth at the first delta, the others after a while."""
    plan = load.plan
    chance = random.Random(plan.seed)
    left = plan.total

    async def slot() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            draw, wait = chance.random(), chance.random() * plan.cut_within_ms / 1000
            moved = asyncio.Event()
            receiver = await load.connect(
                partial(Receiver, plan.dialect, load.tally, lambda *_, moved=moved: moved.set())
            )
            if receiver is None:
                continue
            receiver.started = lambda _, moved=moved: moved.set()
            receiver.send(load.request, time.monotonic_ns())
            if draw < 0.2:
                await asyncio.sleep(0)
            elif draw < 0.4:
                with suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), _BEGUN_WITHIN)
            else:
                await asyncio.sleep(wait)
            receiver.cut()

    await load.sample("begin")
    async with asyncio.TaskGroup() as slots:
        for _ in range(plan.streams):
            slots.create_task(slot())
    await load.sample("end")


SHAPES: Mapping[Mode, Callable[[Load], Coroutine[Any, Any, None]]] = MappingProxyType(
    {"hold": hold, "closed": closed, "open": arrivals, "storm": storm}
)
