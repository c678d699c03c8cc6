"""Responses in the background of the simulated upstream."""

from __future__ import annotations

import pytest

from dragoman_server.simulator.background import BackgroundResponse, BackgroundResponses, starting_after
from dragoman_server.simulator.error_replies import RequestRejected


def test_positions() -> None:
    assert (starting_after(None), starting_after("7")) == (-1, 7)
    with pytest.raises(RequestRejected):
        starting_after("x")
    with pytest.raises(RequestRejected, match="not found"):
        BackgroundResponses().get("resp_1")


async def test_one_whose_events_break_off_has_failed() -> None:
    begun = b'data: {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}\n\n'
    delta = b'data: {"type": "response.output_text.delta", "delta": "Hi"}\n\n'
    done = b'data: {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}\n\n'
    for frames, status in (([begun, delta], "failed"), ([begun, delta, done], "completed")):
        response = BackgroundResponse(frames, streamed=True)
        assert response.state["status"] == "in_progress"
        assert [each async for each in response.follow(-1)] == frames
        assert response.state["status"] == status
    response = BackgroundResponse([begun, delta], streamed=True)
    response.cancel()
    assert response.state["status"] == "cancelled"
