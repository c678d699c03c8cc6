"""Clients that leave in mid-stream."""

from __future__ import annotations

from dragoman_bench.wire import NUMBERS, Script
from dragoman_proof.load.clients import Clients
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.rig import Stage, cancelled_at, noise_and_steady, settled, stage
from dragoman_proof.load.sizes import Size, fitting

_PACED = Script(NUMBERS - 1, 2000, 32)
_SECOND = 1.0
_ROUNDS = 3
_NUMBERED = 10_000
"""Streams are numbered modulo this in marks."""
_KEPT = 2048
"""Bytes for each client that left by which the gateway may have grown from the first wave to the last."""


async def leaving(size: Size) -> Outcome:
    """Clients leave at the same time, in waves; each upstream call is cancelled, and nothing is left of them."""
    count, remark = fitting(size.leaving, 1)
    outcome = Outcome("leaving", f"{count:,} clients that leave in mid-stream at the same time, {_ROUNDS} times")
    outcome.remarks += [remark] if remark else []
    late: list[float] = []
    cpu: list[float] = []
    waits: list[float] = []
    memory: list[int] = []
    files: list[int] = []
    cancelled = left_open = 0
    async with stage(noise_and_steady()) as running:
        idle = running.used()
        for _ in range(_ROUNDS):
            first = int((await running.stats())["streams"])
            clients = Clients(running, _PACED)
            await clients.open(count)
            before = running.used()
            left = clients.leave()
            left_open += await running.quiet()
            after = running.used()
            ends = {
                number: at for number, at in (await cancelled_at(running.upstreams["noise"])).items() if number > first
            }
            cancelled += len(ends)
            late.append(max((at - left[number % _NUMBERED]) / 1e9 for number, at in ends.items()))
            cpu.append((after.cpu_ns - before.cpu_ns) / 1e3 / count)
            waits.append((after.waited_ns - before.waited_ns) / 1e9)
            await _closed(running, idle.files)
            memory.append(running.used().bytes)
            files.append(running.used().files)
        rows = await running.booked_all(count * _ROUNDS)
        ended = {row["ended"] for row in running.rows()}
        still = await running.metric("dragoman_open_requests")
    _report(outcome, count, [late, cpu, waits], memory)
    total = count * _ROUNDS
    outcome.check("every upstream call is cancelled", cancelled == total and not left_open, f"{cancelled} of {total}")
    outcome.check("no socket is left", files[-1] <= idle.files, f"{files[-1]} files, {idle.files} before")
    outcome.check("no request is left", still == 0, f"{still:.0f} open")
    once = len(rows) == total and set(rows.values()) == {1}
    outcome.check("each is booked once", once and ended == {"abandoned"}, f"{len(rows)} rows of {total}, {ended}")
    if size.timed:
        worst = max(seconds - wait for seconds, wait in zip(late, waits, strict=True))
        outcome.check("the last is cancelled within a second", worst <= _SECOND, f"{worst:.2f} s")
        grown = (memory[-1] - memory[0]) / count
        outcome.check(f"memory grows by less than {_KEPT} bytes for each", grown < _KEPT, f"{grown:,.0f} bytes")
    return outcome.ended()


def _report(outcome: Outcome, count: int, times: list[list[float]], memory: list[int]) -> None:
    late, cpu, waits = times
    outcome.figures |= {
        "clients": count,
        "last_cancelled_s": late,
        "waited_for_a_core_s": waits,
        "cpu_us_per_client": cpu,
        "memory_bytes_after_wave": memory,
    }


async def _closed(running: Stage, files: int) -> None:
    """Wait until the gateway has closed its connections."""
    await settled(lambda: running.used().files > files)
