"""Plays a part of the matrix against a gateway in this process, and checks that nothing remains of it afterwards."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from aiohttp import web

from dragoman import Dialect
from dragoman.aio import HijackRunner, Timeouts
from dragoman.limits import Limits
from dragoman_proof.faults import following, websocket
from dragoman_proof.faults.client import Received, ask
from dragoman_proof.faults.judge import violation
from dragoman_proof.faults.kinds import CLIENTS, FAILS, SMALL, UPSTREAM, Case
from dragoman_proof.faults.matrix import FOLLOWED, SOCKET, Part
from dragoman_proof.faults.reading import Reply, read
from dragoman_proof.faults.report import Totals
from dragoman_proof.faults.upstream import Upstream, serving
from dragoman_server import Config, ExchangeRecord, Hooks, Provider, Route, Server, make_app
from dragoman_server.config import RetryOptions
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Models
from dragoman_server.config.state_options import StateOptions
from dragoman_server.proxy.gateway import Gateway

_SECONDS: Final = 30.0
"""The longest time for one reply."""
_BACKGROUND: Final = 64
"""Responses of a client in the background at a time."""
_SHORT: Final = Timeouts(first_byte=0.15, idle=0.15, tool_stall=0.15)
_ROOM: Final = Limits(sse_line=SMALL, sse_frame=2 * SMALL)


_FAILING: Final = frozenset(name for name, kind in UPSTREAM.items() if kind.verdict == FAILS)


class _Defects(logging.Handler):
    """Keeps the lines that report a defect of the gateway."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage())


async def play(part: Part, totals: Totals, *, at_once: int) -> None:
    """Play all cases of a part, and add what was found to `totals`."""
    cases, defects = part.cases(), _Defects()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.lines.append(str(context)))
    logger = logging.getLogger("dragoman")
    kept = logger.propagate
    logger.addHandler(defects)
    logger.propagate = False
    try:
        sound: dict[str, Reply] = {}
        for stalls in (False, True):  # no sound stream depends on a short timeout
            chosen = [case for case in cases if (case.kind == "stall") is stalls]
            await _play(part, chosen, cases, _SHORT if stalls else Timeouts(), sound, totals, at_once)
    finally:
        logger.removeHandler(defects)
        logger.propagate = kept
    totals.violations += [f"{part}: logged: {line}" for line in defects.lines]


async def _play(
    part: Part,
    chosen: Sequence[Case],
    cases: Sequence[Case],
    timeouts: Timeouts,
    sound: dict[str, Reply],
    totals: Totals,
    at_once: int,
) -> None:
    """Play some of the cases against a gateway of their own. `sound` gets the replies without a fault."""
    ended: Counter[str] = Counter()

    def on_end(record: ExchangeRecord[Any]) -> None:
        ended[record.request_id] += 1

    before = _left()
    async with serving(part.upstream, cases) as upstream:
        async with _gateways(part, upstream, timeouts, on_end) as ports:
            received = await _replies(ports, part, chosen, at_once)
            for case in chosen:
                _judge(part, case, received[case.number], sound, totals)
            problem = await _settled(lambda: _balance(ended, chosen))
            totals.violations += [f"{part}: {problem}"] if problem else []
        problem = await _settled(lambda: f"{len(upstream.lines)} connections to the upstream" if upstream.lines else "")
        totals.violations += [f"{part}: left open: {problem}"] if problem else []
        totals.violations += [f"{part}: {line}" for line in upstream.reused]
    problem = await _settled(lambda: _growth(before, _left()))
    totals.violations += [f"{part}: left behind: {problem}"] if problem else []


async def _replies(ports: Sequence[int], part: Part, cases: Sequence[Case], at_once: int) -> dict[int, Received | str]:
    """Return the response to each case, or the reason without one. The sound streams come first."""
    received: dict[int, Received | str] = {}
    waiting = iter(cases)

    async def work() -> None:
        for case in waiting:
            try:
                received[case.number] = await _ask(ports, part, case)
            except TimeoutError:
                received[case.number] = f"no reply within {_SECONDS:g} seconds"
            except (ValueError, StopIteration) as error:
                received[case.number] = f"no response: {error!r}"

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return received


async def _ask(ports: Sequence[int], part: Part, case: Case) -> Received:
    if part.way == SOCKET:
        return await websocket.ask(ports[0], case, _SECONDS)
    if part.way == FOLLOWED:
        return await following.ask(ports[0], ports[1], case, _SECONDS)
    return await ask(ports[0], part.client, case, _SECONDS)


def _judge(part: Part, case: Case, received: Received | str, sound: dict[str, Reply], totals: Totals) -> None:
    totals.by_kind[case.kind] += 1
    if isinstance(received, str):
        problem: str | None = received
    else:
        problem = violation(part, case, received, sound.get(case.recording.name))
        if problem is None and case.kind == "none":
            sound[case.recording.name] = read(part.client, received.body)
        elif problem is None and case.kind in _FAILING and _failed(part.client, received):
            totals.failed[case.kind] += 1
    if problem is not None:
        where = f"{case.kind} at {case.at} of {case.recording.name} (seed {case.seed})"
        totals.violations.append(f"{part}: {where}: {problem}")


def _failed(client: Dialect, received: Received) -> bool:
    return received.status != 200 or read(client, received.body).error is not None


@asynccontextmanager
async def _gateways(part: Part, upstream: Upstream, timeouts: Timeouts, on_end: Any) -> AsyncIterator[list[int]]:
    """Yield the port of a gateway; of two with the same store if clients follow their responses at another one."""
    with tempfile.TemporaryDirectory() as folder:
        state = StateOptions(kind="off")
        if part.way == FOLLOWED:
            state = StateOptions(kind="sqlite", path=f"{folder}/responses.db", background=_BACKGROUND)
        async with AsyncExitStack() as stack:
            count = 2 if part.way == FOLLOWED else 1
            config = _config(part, upstream, timeouts, state)
            yield [await stack.enter_async_context(_gateway(config, on_end)) for _ in range(count)]


def _config(part: Part, upstream: Upstream, timeouts: Timeouts, state: StateOptions) -> Config:
    return Config(
        providers={
            "up": Provider("up", part.upstream, upstream.url, state="gateway" if part.way == FOLLOWED else "upstream")
        },
        routes=[Route("*", "up")],
        models=Models(unknown="pass"),
        server=Server(
            timeouts=timeouts,
            transport=part.transport,
            validate=1.0,
            limits=_ROOM,
            overload=Overload(event_loop_lag=0.0),
        ),
        retries=RetryOptions(attempts=1, failures=0),
        state=state,
    )


@asynccontextmanager
async def _gateway(config: Config, on_end: Any) -> AsyncIterator[int]:
    gateway = Gateway(config, lines=True, hooks=Hooks(on_end=on_end))
    runner = HijackRunner(make_app(config, gateway=gateway), shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _balance(ended: Counter[str], cases: Sequence[Case]) -> str:
    """Return what is wrong with the reports of the exchanges: each must be reported once."""
    twice = [name for name, count in ended.items() if count > 1]
    if twice:
        return f"exchanges that were reported twice: {len(twice)}"
    # A client that leaves before its request was read has no exchange.
    fewest = sum(1 for case in cases if case.kind not in CLIENTS)
    if not fewest <= len(ended) <= len(cases):
        return f"{len(ended)} exchanges were reported of {len(cases)}"
    return ""


def _left() -> tuple[int, int]:
    """Return the tasks and the open descriptors of this process."""
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))


def _growth(before: tuple[int, int], after: tuple[int, int]) -> str:
    """Return what there is more of than before; empty for nothing."""
    names = ("tasks", "descriptors")
    found = [f"{new - old} {name}" for name, old, new in zip(names, before, after, strict=True) if new > old]
    return ", ".join(found)


async def _settled(problem: Any, seconds: float = 10.0) -> str:
    """Return the problem that is left after at most so many seconds; empty without one."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (found := problem()) and loop.time() < deadline:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.05)
    return str(found)
