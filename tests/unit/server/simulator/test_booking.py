"""The tokens of replies of OpenAI's dialects, and the counts that are reported."""

from __future__ import annotations

import pytest

from dragoman_server.simulator.booking import COUNTS, SEARCHES, TIER, book, reported
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.steps import Scenario, Text
from dragoman_server.simulator.tokens import TokenCounts


def test_what_a_reply_generated() -> None:
    scenario = Scenario(steps=(Text("a"), Text("b")), tier="priority", cache_write=3)
    found = book(scenario, SimulatedReply("m", {}))
    assert found == (TokenCounts(12, 4, 3, 0, 2, 0), (), "priority")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b'{"choices":[]}', set()),
        (b'{"usage":{}}', COUNTS),
        (b'{"usage":null,"service_tier":"flex"}', {TIER}),
        (b'{"usage":{"num_search_queries":2},"service_tier":"flex"}', COUNTS | {TIER, SEARCHES}),
    ],
)
def test_what_bytes_report(data: bytes, names: set[str]) -> None:
    assert reported(data) == names
