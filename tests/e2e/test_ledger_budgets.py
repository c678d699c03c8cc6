"""A budget of cost while many requests are open: what is booked stays below it in every direction.

An open request reserves its prompt and its longest reply, so what was spent and what open requests may still spend are
never more than the budget, whatever becomes of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from dragoman_proof.soak.calls import LENGTH, Call
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.simulator.app import make_simulator
from dragoman_server.simulator.ledger import Ledger
from support.day import configured, play_all
from support.gateways import gate, served
from support.named_keys import made, spent
from support.waiting import until

BUDGET = 0.2
AT_ONCE = 30
CALLS = 90
LONGEST = 2 * LENGTH + 20
"""More tokens than any of these replies has."""
PROMPT = "the value of the file " * 100
STREAMED = ("cut", "missing", "failed", "stalled")
"""Ends of streams. Whole replies that end so are requested again, and each attempt is booked: that is not reserved."""
ENDS = ("", "uncounted", "busy", "lost", *STREAMED)


def calls(client: Dialect, upstream: Dialect) -> list[Call]:
    """Calls that end in all ways."""
    found = []
    for number in range(CALLS):
        end = ENDS[number % len(ENDS)]
        body: dict[str, Any] = {"stream": end in STREAMED or number // len(ENDS) % 2 == 0}
        if client is Dialect.RESPONSES:
            body |= {"input": PROMPT, "max_output_tokens": LONGEST}
        else:
            body |= {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": LONGEST}
        model = f"sim-long-{LENGTH}+{end}+n{number}"
        found.append(Call(client, upstream, model, body, leaves=end == "stalled"))
    return found


@pytest.mark.few
@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_parallel_requests_stay_below_a_budget(client: Dialect, upstream: Dialect, tmp_path: Path) -> None:
    usage = UsageOptions("jsonl", str(tmp_path / "usage"))
    key, record = made(daily_cost=BUDGET)
    async with (
        served(make_simulator(ledger=Ledger(), retry_after=0.0)) as (url, _),
        gate(configured(url, usage, record)) as entrance,
    ):
        await play_all(entrance, calls(client, upstream), AT_ONCE, {"authorization": f"Bearer {key}"})
        await until(lambda: not entrance.gateway.services.open_requests)  # some clients have left
        counted = (await spent(entrance, record))["daily_cost"]
    rows = [*read_rows(usage)]
    booked = sum(row["cost"] or 0.0 for row in rows)
    assert booked * UNITS == pytest.approx(counted, abs=len(rows))
    # Most of the budget is used, and nothing above it.
    assert BUDGET / 2 < booked <= BUDGET
    assert any(row["status"] == 429 for row in rows)
