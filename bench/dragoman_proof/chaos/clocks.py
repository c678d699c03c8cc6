"""A clock that jumps by a day: of the machine, of one of two hosts, and of a gateway that renews credentials."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from dragoman_proof.chaos.gateway import becomes, gateway, until
from dragoman_proof.chaos.scenario import Missing, holds
from dragoman_proof.chaos.sdk import failure
from dragoman_proof.chaos.servers import redis
from dragoman_proof.chaos.setups import added_key, written
from dragoman_proof.chaos.upstream import HELD, upstream

_REQUESTS = 4
"""Requests of 12 tokens, which an estimate takes for 15, of the 60 of a day."""


def _clock(folder: Path) -> tuple[Path, dict[str, str]]:
    """A file that has the difference of a process's clock to the right one, and the variables of that process."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        raise Missing("libfaketime is not installed (Debian: apt-get install faketime)")
    clock = folder / "clock"
    clock.write_text("+0\n")
    return clock, {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


async def clock_jumps(folder: Path) -> None:
    """Jumps of a day move expiry and budgets to their day and back, and touch no timeout and no open stream."""
    clock, variables = _clock(folder)
    async with upstream() as up:
        store = f'[store]\nkind = "sqlite"\npath = "{folder}/accounts.db"\nrefresh = 0.5\ntimeout = 10\n'
        config = written(folder, up.url(), store)
        short = await added_key(config, "short", "--expires", "12h")
        poor = await added_key(config, "poor", "--daily-tokens", "60")
        plain = await added_key(config, "plain", "--requests-per-minute", "1000")
        single = await added_key(config, "single", "--concurrent-requests", "1")
        async with gateway(config, variables=variables) as found:

            async def answers(status: int, key: dict[str, str], what: str) -> None:
                async def same() -> bool:
                    return (await found.ask(headers=key))[0] == status

                await until(same, f"{what}: {status}")

            async def spends() -> None:
                served = 0

                async def spent() -> bool:
                    nonlocal served
                    served += (await found.ask(headers=poor))[0] == 200
                    return served == _REQUESTS

                await until(spent, f"a day has a budget for {_REQUESTS} requests")
                holds((await found.ask(headers=poor))[0] == 429, "it has one for no more")

            await answers(200, short, "a valid key")
            await spends()
            stream = asyncio.create_task(found.stream(HELD, single))
            await becomes(lambda: up.streaming == 1, "a stream is open")
            clock.write_text("+1d\n")
            await answers(401, short, "a key that has expired, a day later")
            await spends()
            holds((await found.ask(headers=plain))[0] == 200, "another key is served")
            await answers(429, single, "a second request beside the stream, a day later")
            clock.write_text("-1d\n")
            await answers(200, short, "the key, a day earlier")
            await answers(429, single, "a second request beside the stream, a day earlier")
            clock.write_text("+0\n")
            await answers(429, poor, "the budget of the right day is as it was")
            await answers(200, short, "the key, now")
            holds(not stream.done(), "the stream is open")
            up.go.set()
            holds((await stream).endswith("data: [DONE]\n\n"), "the open stream ends as it would")
            await answers(200, single, "a request after the stream")
            state = await found.ready()
            holds(state["ready"] and not state["warnings"], "the gateway is ready", state)


_SHARED = """
[store]
kind = "redis"
url = "redis://127.0.0.1:{port}/0"
refresh = 0.5
timeout = 5
"""


async def _ends(port: int) -> float:
    """The latest time at which a lease or a place in a Redis ends."""
    import redis.asyncio as client

    store: Any = client.Redis(port=port)
    async with store:
        sets = [name async for name in store.scan_iter(_type="zset") if name.endswith(b"leases")]
        return max([float(score) for name in sets for _, score in await store.zrange(name, 0, -1, withscores=True)])


async def clock_of_a_host(folder: Path) -> None:
    """A host whose clock jumps neither ends the open requests of others nor loses its own, also when it renews them."""
    clock, variables = _clock(folder)
    async with redis() as port, upstream() as up:
        config = written(folder, up.url(), _SHARED.format(port=port))
        key = await added_key(config, "one", "--concurrent-requests", "1")
        async with gateway(config, variables=variables) as moved, gateway(config) as right:
            for holder, jump in ((moved, "+1d"), (right, "-1d")):
                stream = asyncio.create_task(holder.stream(HELD, key))
                await becomes(lambda: up.streaming == 1, "a stream is open")
                before = await _ends(port)
                clock.write_text(f"{jump}\n")

                async def renewed(before: float = before) -> bool:
                    for each in (moved, right):
                        holds((await each.ask(headers=key))[0] == 429, "no second request is admitted")
                    return await _ends(port) > before

                await until(renewed, "the lease is renewed")
                holds((await moved.ask(headers=key))[0] == 429, "no second request is admitted")
                holds((await right.ask(headers=key))[0] == 429, "no second request is admitted")
                up.go.set()
                holds((await stream).endswith("data: [DONE]\n\n"), "the stream ends as it would")
                up.go.clear()
                for each in (moved, right):
                    await each.serves(headers=key)


_LIFE = 8
"""Seconds for which a token of the scenario's program is accepted."""
_PROGRAM = f"""unset LD_PRELOAD
end=$(($(date +%s) + {_LIFE}))
echo "{{\\"token\\": \\"until-$end\\", \\"expires_at\\": $end}}"
"""


async def clock_and_credentials(folder: Path) -> None:
    """By a late clock expired credentials are renewed once refused; by an early one the error names the clock."""
    clock, variables = _clock(folder)
    program = folder / "token.sh"
    program.write_text(_PROGRAM)
    async with upstream() as up:
        up.accepts = lambda value: int(value.removeprefix("Bearer until-")) > time.time()
        config = written(folder, up.url(), f'[providers.up.credential]\ncommand = ["sh", "{program}"]\n')
        async with gateway(config, variables=variables) as found:

            async def another() -> None:
                """Ask until another credential was used: each request is served."""
                before = up.requests[-1].headers["authorization"] if up.requests else ""

                async def changed() -> bool:
                    status, body = await found.ask()
                    holds(status == 200, "a request is served", status, body)
                    return up.requests[-1].headers["authorization"] != before

                await until(changed, "another credential is used")

            for _ in range(2):
                await another()
            holds(not up.refused, "it is renewed before it ends")
            clock.write_text("-1d\n")
            for _ in range(3):
                await another()
            holds(up.refused, "a credential that had ended was refused")
            clock.write_text("+1d\n")

            async def named() -> bool:
                status, message = await failure(found.url, "chat")
                holds(status in (200, 503), "a request is served, or refused", status, message)
                return "check expires_at and the clock" in message

            await until(named, "the error names the clock")
            clock.write_text("+0\n")
            await found.serves()
            await another()


SCENARIOS = (clock_jumps, clock_of_a_host, clock_and_credentials)
