"""The simulator's own ledger."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from dragoman_server.simulator.app import make_simulator
from dragoman_server.simulator.booking import COUNTS, INPUT
from dragoman_server.simulator.ledger import Ledger
from dragoman_server.simulator.modifiers import ADVISER, FALLBACK
from dragoman_server.simulator.render_messages import HOUR
from dragoman_server.simulator.tokens import ITERATIONS, TokenCounts, count_text
from support.simulated import VERSION

PROMPT = "the way of the file"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": PROMPT}]},
    "/v1/messages": {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 99},
    "/v1/responses": {"input": PROMPT},
}
LONG = "".join(f"token{number} " for number in range(9))


async def ledger_of(path: str, model: str, **fields: Any) -> Ledger:
    """The ledger of a simulator that got one request."""
    ledger = Ledger()
    async with (
        TestServer(make_simulator(ledger=ledger)) as server,
        aiohttp.ClientSession(base_url=server.make_url("/"), headers=VERSION) as raw,
    ):
        try:
            async with raw.post(path, json={**BODIES[path], "model": model, **fields}) as response:
                await response.read()
        except aiohttp.ClientError:
            pass
    return ledger


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", BODIES)
async def test_a_reply_with_counts(path: str, stream: bool) -> None:
    ledger = await ledger_of(path, "sim-long-9", stream=stream, stream_options={"include_usage": True})
    (entry,) = ledger.entries
    prompt = count_text(PROMPT) + (count_text("user") if "messages" in BODIES[path] else 0)
    assert (entry.generated.input, entry.generated.cached) == (prompt, prompt // 3)
    assert (entry.generated.output, entry.generated.reasoning) == (count_text(LONG), 0)
    assert entry.reported == COUNTS | ({HOUR} if path.endswith("messages") else set())
    assert (entry.tier, entry.searches) == ("default", None)
    assert ledger.sums() == {("sim-long-9", "default"): entry.generated}


@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_that_was_cut_reports_what_was_sent_before(path: str) -> None:
    (entry,) = (await ledger_of(path, "sim-long-9+cut", stream=True)).entries
    assert entry.generated.output == count_text("".join(f"token{number} " for number in range(6)))
    assert entry.reported == (INPUT | {HOUR} if path.endswith("messages") else frozenset())


@pytest.mark.parametrize("model", ["sim-long-9+uncounted", "sim-long-9+cut"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_whole_reply_without_counts_reports_nothing(path: str, model: str) -> None:
    (entry,) = (await ledger_of(path, model)).entries
    assert entry.reported == frozenset()


@pytest.mark.parametrize("model", ["sim-error-503", "sim-text+busy", "sim-text+lost"])
async def test_what_is_rejected_is_not_entered(model: str) -> None:
    assert not (await ledger_of("/v1/chat/completions", model)).entries


async def test_all_replies_of_a_model_are_one_entry() -> None:
    one, two = [(await ledger_of("/v1/responses", "sim-long-9", stream=each)).entries[0] for each in (True, False)]
    found = Ledger([one, two]).by_model()["sim-long-9"]
    assert (found.generated, found.reported) == (one.generated + two.generated, two.reported)


async def test_other_models_have_their_own_sums() -> None:
    ledger = await ledger_of("/v1/messages", "sim-long-9+compacted+advised+searched+priority")
    (entry,) = ledger.entries
    extra = ITERATIONS["compaction"] + ITERATIONS["advisor_message"]
    assert entry.generated.output == count_text(LONG) + extra.output
    assert (entry.searches, entry.tier) == (2, "priority")
    sums = ledger.sums()
    assert sums[ADVISER, "priority"] == ITERATIONS["advisor_message"]
    assert sums[entry.model, "priority"] + ITERATIONS["advisor_message"] == entry.generated
    ledger = await ledger_of("/v1/messages", "sim-long-9+replaced")
    assert ledger.sums()[FALLBACK, "default"] == ledger.entries[0].generated
    assert ledger.sums()[ledger.entries[0].model, "default"] == TokenCounts()
