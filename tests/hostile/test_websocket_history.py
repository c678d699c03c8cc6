"""Attack: a connection whose responses each continue the last one, with few bytes or none.

They are bounded by their bytes, and a warm-up without items has none: any number of them was kept, and each turn went
through all of them.
"""

from __future__ import annotations

from dragoman import Limits
from dragoman.dialects import Dialect
from dragoman_server.endpoints.websocket.history import PATH_MAX, History, HistoryBudget
from support.stateful import MEMORY, stateful
from support.websockets import speaking

KIB = 1024


async def test_responses_in_a_row_are_bounded_in_number() -> None:
    history = History(64, KIB, HistoryBudget(KIB), lambda: None)
    history.add("0", None, b"1", None)
    for number in range(1, 3 * PATH_MAX):
        history.add(str(number), str(number - 1), b"", None)
    kept = [number for number in range(3 * PATH_MAX) if await history.find(str(number)) is not None]
    print(f"the last of {3 * PATH_MAX} responses in a row that can be continued: {kept[-1]}")
    assert kept == [*range(PATH_MAX - 64, PATH_MAX)]


async def test_a_history_and_a_turn_have_together_no_more_than_a_request() -> None:
    async with (
        stateful(Dialect.CHAT, MEMORY, limits=Limits(request_body=64 * KIB)) as state,
        speaking(state.gate.url) as client,
    ):
        previous, sizes, events = None, [], []
        for _ in range(3):
            events = await client.turn(model="sim-text", input="x" * 30 * KIB, previous_response_id=previous)
            sizes.append(len(state.simulator_requests()))
            if events[-1]["type"] == "error":
                break
            previous = events[-1]["response"]["id"]
        print(f"requests sent upstream after each turn of 30 KiB: {sizes}")
        assert sizes == [1, 2, 2]
        assert events[-1]["status"] == 413
        assert "request_body" in events[-1]["error"]["message"]
