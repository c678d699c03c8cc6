"""A clock of the machine that jumps by a day, in both directions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman_proof.chaos.gateway import becomes, gateway, until
from dragoman_proof.chaos.scenario import Missing, holds
from dragoman_proof.chaos.setups import added_key, written
from dragoman_proof.chaos.upstream import HELD, upstream

_LIBRARIES = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
_REQUESTS = 4
"""Requests of 12 tokens, which an estimate takes for 15, of the 60 of a day."""


async def clock_jumps(folder: Path) -> None:
    """Jumps of a day move expiry and budgets to their day and back, and touch no timeout and no open stream."""
    library = next(_LIBRARIES, None)
    if library is None:
        raise Missing("libfaketime is not installed (Debian: apt-get install faketime)")
    clock = folder / "clock"
    clock.write_text("+0\n")
    variables = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
    async with upstream() as up:
        store = f'[store]\nkind = "sqlite"\npath = "{folder}/accounts.db"\nrefresh = 0.5\ntimeout = 5\n'
        config = written(folder, up.url(), store)
        short = await added_key(config, "short", "--expires", "12h")
        poor = await added_key(config, "poor", "--daily-tokens", "60")
        plain = await added_key(config, "plain", "--requests-per-minute", "1000")
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
            stream = asyncio.create_task(found.stream(HELD, plain))
            await becomes(lambda: up.streaming == 1, "a stream is open")
            clock.write_text("+1d\n")
            await answers(401, short, "a key that has expired, a day later")
            await spends()
            holds((await found.ask(headers=plain))[0] == 200, "another key is served")
            clock.write_text("-1d\n")
            await answers(200, short, "the key, a day earlier")
            clock.write_text("+0\n")
            await answers(429, poor, "the budget of the right day is as it was")
            await answers(200, short, "the key, now")
            holds(not stream.done(), "the stream is open")
            up.go.set()
            holds((await stream).endswith("data: [DONE]\n\n"), "the open stream ends as it would")
            state = await found.ready()
            holds(state["ready"] and not state["warnings"], "the gateway is ready", state)


SCENARIOS = (clock_jumps,)
