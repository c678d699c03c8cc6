"""Responses in the background of the simulated upstream."""

from __future__ import annotations

import pytest

from dragoman_server.simulator.background import BackgroundResponses, starting_after
from dragoman_server.simulator.error_replies import RequestRejected


def test_positions() -> None:
    assert (starting_after(None), starting_after("7")) == (-1, 7)
    with pytest.raises(RequestRejected):
        starting_after("x")
    with pytest.raises(RequestRejected, match="not found"):
        BackgroundResponses().get("resp_1")
