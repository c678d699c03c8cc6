"""Counts of gateways: a chunk, a stream start, a whole reply, an agent's request and its turn, in each direction.

Each gateway runs once per direction, in a process of its own, so that a count does not depend on the other directions
of the run. As many processes run at once as there are cores: counts do not depend on the machine's load.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dragoman_bench.agent_request import agent_request
from dragoman_bench.gateways import Direction
from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.launch import free_port, own_module
from dragoman_bench.generate_reply import generate_reply
from dragoman_bench.instructions.callgrind import CountedProcess
from dragoman_bench.instructions.lockstep import Lockstep
from dragoman_bench.replies import reply
from dragoman_bench.scenarios import SCENARIOS
from dragoman_bench.turn_replies import turn_reply
from dragoman_bench.wire import request

ROWS = ("chunk", "start", "whole", "agent", "turn")
"""A delta in the middle of a stream, a stream of one delta, a reply that is not streamed, a stream of one delta for a
coding agent's request of 218 messages, and the scenario agent-turn's request and reply."""
GATEWAY, PASS, FLOOR = "gateway", "pass", "floor"
"""The gateway, the aiohttp proxy that does not translate, and the bare translator."""
_MODULES = {PASS: "dragoman_bench.proxies.aiohttp_pass", FLOOR: "dragoman_bench.proxies.minimal_translator"}
_WITHOUT = {FLOOR: {"agent", "turn"}}
"""Rows that a gateway cannot have: the bare translator would leave out tools, calls and results."""
_WITHOUT_UPSTREAM = {"generate": {"turn"}}
"""Rows that an upstream cannot have: Gemini sends a call whole, and not in deltas."""
_TEXT = 32
"""Bytes of text in a chunk."""
_WARM = 12
_STARTS, _CHUNKS, _WHOLE, _AGENT = 8, 120, 8, 2
_TURN = SCENARIOS["agent-turn"].script.events
_BLOCKS, _TURN_BLOCKS = 5, 2
"""A count is the least of this many: timers that run during one add to it. A turn is long enough to average them."""

Counts = dict[str, int]
"""Instructions by row."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A process to measure: a kind of gateway in a direction. `python` runs it if it is the gateway."""

    kind: str
    direction: Direction
    python: str = sys.executable


def measure(subjects: Sequence[Subject], log: Callable[[str], None] = print) -> dict[Subject, Counts]:
    """Return the counts of each subject. `log` is called with a line for each."""

    def run(subject: Subject) -> Counts:
        counts = _measure(subject)
        shown = ", ".join(f"{row} {count / 1000:,.1f}k" for row, count in counts.items())
        log(f"{subject.kind} {'-'.join(subject.direction)}: {shown}")
        return counts

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(subjects, pool.map(run, subjects), strict=True))


def _measure(subject: Subject) -> Counts:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        port = free_port()
        process = _start(subject, port, url)
        try:
            lockstep = Lockstep(port, listener, process.settle)
            try:
                return _count(process, lockstep, subject)
            finally:
                lockstep.close()
        finally:
            process.stop()


def _start(subject: Subject, port: int, url: str) -> CountedProcess:
    client, upstream = subject.direction
    if subject.kind == GATEWAY:
        files = {"config.toml": config(port, upstream, url)}
        return CountedProcess(
            subject.python, "dragoman_server", ("serve", "--quiet", "{folder}/config.toml"), port, files=files
        )
    arguments = (f"--port={port}", f"--upstream={url}", f"--client={client}", f"--dialect={upstream}")
    _, env = own_module("")
    return CountedProcess(sys.executable, _MODULES[subject.kind], arguments, port, env=env)


def _count(process: CountedProcess, lockstep: Lockstep, subject: Subject) -> Counts:
    client, upstream = subject.direction
    without = _WITHOUT.get(subject.kind, set()) | _WITHOUT_UPSTREAM.get(upstream, set())
    model, sent = f"{upstream}-model", generate_reply(_TEXT) if upstream == "generate" else reply(upstream, _TEXT)
    streamed, whole = request(client, model), request(client, model, stream=False)
    agent = agent_request(client, model)

    def least(times: int, work: Callable[[], None], blocks: int = _BLOCKS) -> int:
        return min(process.count(lambda: _repeat(times, work)) for _ in range(blocks)) // times

    def start() -> None:
        lockstep.stream(client, streamed, sent, 1)

    _repeat(_WARM, start)
    lockstep.stream(client, streamed, sent, 40)
    counts = {"start": least(_STARTS, start)}
    stream = least(1, lambda: lockstep.stream(client, streamed, sent, 1 + _CHUNKS))
    counts["chunk"] = (stream - counts["start"]) // _CHUNKS
    lockstep.whole(client, whole, sent)
    counts["whole"] = least(_WHOLE, lambda: lockstep.whole(client, whole, sent))
    if "agent" not in without:
        lockstep.stream(client, agent, sent, 1)
        counts["agent"] = least(_AGENT, lambda: lockstep.stream(client, agent, sent, 1))
    if "turn" not in without:
        rich, turn = agent_request(client, model, rich=True), turn_reply(upstream, _TURN, _TEXT)
        lockstep.stream(client, rich, turn, _TURN)
        counts["turn"] = least(1, lambda: lockstep.stream(client, rich, turn, _TURN), _TURN_BLOCKS)
    return {row: counts[row] for row in ROWS if row in counts}


def _repeat(times: int, work: Callable[[], None]) -> None:
    for _ in range(times):
        work()
