"""The load shapes: streams held open, consecutive replies, scheduled arrivals, and clients that disconnect."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from dragoman_bench import stamped_connection
from dragoman_bench.blast_reader import BlastReader
from dragoman_bench.delays import Delays
from dragoman_bench.load import Load, get_json
from dragoman_bench.pacer import Pacer
from dragoman_bench.plan import Plan
from dragoman_bench.probe import probe
from dragoman_bench.readers import SlowReceiver
from dragoman_bench.receiver import Receiver, Tally
from dragoman_bench.wire import read_script

_ERRORS_BORNE = 1000
_RETRY_AFTER = 0.05
_STEP = 0.1
_BEGUN_WITHIN = 10.0
_SMALL_BUFFER = 4096


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
    """Open all streams, measure while all are open, then let the upstream end them and wait for their ends.

    With neighbours, measure without them first.
    """
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
    connect = load.connect_stamped if plan.neighbours and stamped_connection.AVAILABLE else load.connect
    started = time.monotonic()
    for number in range(plan.streams):
        if (wait := started + number / plan.ramp_per_s - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        await settled(plan.opening - 1)
        receiver = await connect(lambda: Receiver(plan.dialect, load.tally, done))
        if receiver is None:
            left -= 1
            continue
        receiver.started = begun
        beginning.add(receiver)
        receiver.send(load.request, time.monotonic_ns())
    await settled(0)
    await asyncio.sleep(plan.warm)
    neighbours = await _neighbours(load, lambda: left > 0)
    await load.window(lambda: left > 0)
    for reader in slow:
        reader.cut()
    slow.clear()
    for neighbour in neighbours:
        await neighbour.end(load.tally)
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


async def _neighbours(load: Load, alive: Callable[[], bool]) -> list[BlastReader]:
    """Measure alone, then start and return the readers of the plan's neighbours."""
    plan, tally, readers = load.plan, load.tally, list[BlastReader]()
    if not plan.neighbours:
        return readers
    load.lag = Delays()
    load.spawn(probe(plan, lambda lag: load.lag.add(lag) if load.lag and tally.measuring else None))
    await load.window(alive)
    load.alone, tally.delay = tally.delay, Delays()
    load.alone_lag, load.lag = load.lag, Delays()
    for model in plan.neighbours:
        request = plan.request(model)
        script = read_script(request)
        idle, comments = (script.is_blast, script.comments) if script is not None else (False, False)
        try:
            readers.append(await BlastReader.start(plan.address, request, idle=idle, comments=comments))
        except TimeoutError:
            tally.error("connect", f"the reader of the neighbour {model} did not start")
    await asyncio.sleep(plan.warm)
    return readers


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


async def counted(load: Load) -> None:
    """Run one reply on each connection, then the plan's number of replies over them, and measure the latter."""
    plan, left = load.plan, load.plan.total
    ends: dict[Receiver, asyncio.Future[None]] = {}

    def done(receiver: Receiver, error: str | None) -> None:
        ends.pop(receiver).set_result(None)

    async def run(receiver: Receiver | None) -> Receiver | None:
        """Run a reply, on a new connection if this one has ended."""
        if receiver is None or receiver.transport is None or not receiver.healthy:
            receiver = await load.connect(partial(Receiver, plan.dialect, load.tally, done))
        if receiver is not None:
            end = ends[receiver] = asyncio.get_running_loop().create_future()
            receiver.send(load.request, time.monotonic_ns(), streamed=plan.stream)
            await end
        return receiver

    async def slot(receiver: Receiver | None) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            receiver = await run(receiver)

    receivers = await asyncio.gather(*(run(None) for _ in range(plan.streams)))
    await asyncio.sleep(plan.warm)
    load.tally.first.clear()
    load.tally.whole.clear()
    await load.sample("begin")
    load.tally.measuring = True
    await asyncio.gather(*map(slot, receivers))
    load.tally.measuring = False
    await load.sample("end")


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
