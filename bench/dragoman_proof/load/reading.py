"""Clients that stop reading, and clients that read slowly, of streams that are sent as fast as they are read."""

from __future__ import annotations

import time
from collections import Counter

from dragoman_proof.load.clients import Clients, Unread, reading, short_requests, steady
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.rig import Stage, kernel_bytes, noise_and_steady, settled, settled_async, stage
from dragoman_proof.load.sizes import Size

HELD = 512 * 1024
"""The most memory in bytes that a client may cost a worker while it does not read: a read of its upstream (256 kB),
what is translated of it, and the unsent rest of a write."""
_LATE = 1.25
"""The timers of a stream end at most a quarter late (`dragoman.aio.stream_timers`)."""
_OTHERS = 20
"""Requests that other clients send meanwhile."""
_SLOW_SECONDS = 1.5
"""The time for which slow clients read, in multiples of the write timeout: none of them is ended by it."""


async def stopped(size: Size) -> Outcome:
    """Clients send a request and read nothing; others are served, and `timeouts.write` ends those that stopped."""
    outcome = Outcome("stopped", f"{size.stopped:,} clients that read nothing of a stream sent at full speed")
    async with stage(noise_and_steady(), write=size.write) as running, steady(running, size.steady) as others:
        clients, before, kernel = Unread(), running.used(), kernel_bytes()
        begun = time.monotonic()
        try:
            await clients.open(running, size.stopped)
            blocked = await paused_upstreams(running, size.stopped)
            # The gateway still has what it has read of the upstreams: a time for a write begins with its last bytes.
            filled = await clients.full() - begun
            held, held_by_kernel = running.used().bytes, kernel_bytes()
            answered = await short_requests(running, _OTHERS)
            await settled(lambda: clients.ended() < size.stopped, size.write * 2 + 60)
            ended, last = clients.ended(), time.monotonic() - begun
        finally:
            clients.close()
        left = await running.quiet()
        rows = await running.booked_all(size.stopped + _OTHERS)
        after = running.used()
    waited = (after.waited_ns - before.waited_ns) / 1e9
    per_client = (held - before.bytes) / size.stopped
    outcome.figures |= {
        "clients": size.stopped,
        "bytes_per_client": per_client,
        "limit_bytes_per_client": HELD,
        "kernel_bytes_per_client": (held_by_kernel - kernel) / size.stopped,
        "write_timeout_s": size.write,
        "all_full_s": filled,
        "last_ended_s": last,
        "waited_for_a_core_s": waited,
        "bytes_left_per_client": (after.bytes - before.bytes) / size.stopped,
    }
    outcome.check("every upstream is paused", blocked == size.stopped, f"{blocked} of {size.stopped}")
    outcome.check("the write timeout ends every client", ended == size.stopped, f"{ended} of {size.stopped}")
    outcome.check("every upstream call is cancelled", left == 0, f"{left} left open")
    _check_others(outcome, others, size.steady, answered)
    _check_booked(outcome, rows, size.stopped + _OTHERS)
    if size.timed:
        outcome.check(f"a client costs at most {HELD:,} bytes", per_client <= HELD, f"{per_client:,.0f} bytes")
        most = filled + size.write * _LATE + waited
        outcome.check("the timeout is at most a quarter late", last <= most, f"{last:.1f} s of {most:.1f} s")
    return outcome.ended()


async def slow(size: Size) -> Outcome:
    """Clients read slowly; memory stays bounded, others are served, and the write timeout ends none of them."""
    outcome = Outcome(
        "slow",
        f"{size.slow:,} clients that read {size.slow_bytes_per_s:,} bytes a second of a stream sent at full speed",
    )
    async with stage(noise_and_steady(), write=size.write) as running, steady(running, size.steady) as others:
        clients, before, kernel = Unread(), running.used(), kernel_bytes()
        try:
            await clients.open(running, size.slow)
            async with reading(clients, size.slow_bytes_per_s):
                await paused_upstreams(running, size.slow)
                begun, at_first, received = time.monotonic(), running.used().bytes, clients.received
                answered = await short_requests(running, _OTHERS)
                await settled(lambda: time.monotonic() < begun + size.write * _SLOW_SECONDS, size.write * 2 + 10)
                held, held_by_kernel = running.used().bytes, kernel_bytes()
                received, ended = clients.received - received, clients.ended()
        finally:
            clients.close()
        left = await running.quiet()
        rows = await running.booked_all(size.slow + _OTHERS)
        after = running.used()
    per_client = (held - before.bytes) / size.slow
    outcome.figures |= {
        "clients": size.slow,
        "bytes_per_client_at_first": (at_first - before.bytes) / size.slow,
        "bytes_per_client": per_client,
        "limit_bytes_per_client": HELD,
        "kernel_bytes_per_client": (held_by_kernel - kernel) / size.slow,
        "received_bytes_per_client": received / size.slow,
        "write_timeout_s": size.write,
        "waited_for_a_core_s": (after.waited_ns - before.waited_ns) / 1e9,
        "bytes_left_per_client": (after.bytes - before.bytes) / size.slow,
    }
    outcome.check("no client that reads is ended", not ended, f"{ended} of {size.slow} were")
    outcome.check("every upstream call is cancelled at the end", left == 0, f"{left} left open")
    _check_others(outcome, others, size.steady, answered)
    _check_booked(outcome, rows, size.slow + _OTHERS)
    if size.timed:
        outcome.check(f"a client costs at most {HELD:,} bytes", per_client <= HELD, f"{per_client:,.0f} bytes")
    return outcome.ended()


async def paused_upstreams(running: Stage, count: int) -> int:
    """Wait until so many upstreams are paused. Returns how many are."""

    async def fewer() -> bool:
        return int((await running.stats())["blocked"]) < count

    await settled_async(fewer)
    return int((await running.stats())["blocked"])


def _check_others(outcome: Outcome, others: Clients, count: int, answered: int) -> None:
    tally = others.tally
    outcome.figures["others"] = {"streams": tally.streams, "chunks": tally.chunks, "answered": answered}
    complete = tally.streams == count and not tally.errors
    outcome.check("the streams of other clients are complete", complete, f"{tally.streams} of {count}, {tally.errors}")
    outcome.check("requests of other clients are answered", answered == _OTHERS, f"{answered} of {_OTHERS}")


def _check_booked(outcome: Outcome, rows: Counter[str], count: int) -> None:
    """Rows of the steady streams may be there, too: they end later."""
    twice = [name for name, times in rows.items() if times > 1]
    found = f"{len(rows)} exchanges, {len(twice)} twice"
    outcome.check("each exchange is booked once", not twice and len(rows) == count, found)
