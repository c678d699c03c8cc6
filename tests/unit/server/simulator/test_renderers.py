"""The renderers of all dialects."""

from __future__ import annotations

import pytest

from dragoman_server.simulator.booking import SEARCHES, TIER
from dragoman_server.simulator.renderers import RENDERERS
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import SCRIPTS
from dragoman_server.simulator.steps import Scenario, Text


@pytest.mark.parametrize("dialect", RENDERERS)
def test_a_renderer_has_all_parts(dialect: str) -> None:
    renderer = RENDERERS[dialect]
    assert callable(renderer.read)
    assert SCRIPTS
    scenario, reply = Scenario(steps=(Text("Hi"),)), SimulatedReply("m", {})
    assert renderer.book(scenario, reply).generated.output == 1
    assert not renderer.reported(b"") & {TIER, SEARCHES}
