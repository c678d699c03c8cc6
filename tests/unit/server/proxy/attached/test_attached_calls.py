"""The requests about a response that its upstream generates in the background."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.aio import StreamTimers, Timeouts
from dragoman.errors import UpstreamUnreachable
from dragoman_server.proxy.attached import attached_calls
from dragoman_server.proxy.attached.attached_calls import TRIES, AttachedCalls
from dragoman_server.proxy.attached.attachment import Attachment
from support.handovers import HANDOVER, Upstream, gateway_of

OK = (200, b"data: {}\n\n")
AWAY = UpstreamUnreachable("refused")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the pauses."""
    monkeypatch.setattr(attached_calls, "PAUSE", 0.0)


def calls(upstream: Upstream, **more: Any) -> AttachedCalls:
    return AttachedCalls(gateway_of(upstream, **more).services)


@pytest.mark.parametrize(
    ("replies", "tries", "found"),
    [
        ([OK], 1, True),
        ([AWAY, (503, b""), (429, b""), OK], 4, True),
        ([(404, b"{}")], 1, False),
        ([(400, b"{}")], 1, False),
        ([AWAY] * TRIES, TRIES, False),
    ],
)
async def test_the_stream_is_requested_again_while_the_upstream_is_away(
    replies: list[Any], tries: int, found: bool
) -> None:
    upstream, attachment = Upstream(*replies, (200, b"{}")), Attachment()
    timers = StreamTimers(Timeouts())
    answer = await calls(upstream).open(HANDOVER, timers, attachment)
    timers.stop()
    assert (answer is not None) is found
    assert upstream.urls == ["GET /responses/resp_1?stream=true"] * tries
    assert all(each.headers["authorization"] == "Bearer sk-up" for each in upstream.requests)
    if answer is not None:  # it has not ended, so it is cancelled
        await answer.close()
        assert upstream.urls[tries:] == ["POST /responses/resp_1/cancel"]


async def test_what_another_process_has_taken_is_not_cancelled() -> None:
    upstream, attachment, timers = Upstream(OK), Attachment(), StreamTimers(Timeouts())
    answer = await calls(upstream).open(HANDOVER, timers, attachment)
    timers.stop()
    assert answer is not None
    attachment.is_taken = True
    await answer.close()
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("reply", [(200, b"{}"), (404, b"{}"), AWAY])
async def test_a_cancel_that_fails_is_a_warning(reply: Any, caplog: pytest.LogCaptureFixture) -> None:
    await calls(Upstream(reply)).cancel(HANDOVER)
    assert ("was not cancelled" in caplog.text) is (reply is AWAY)


@pytest.mark.parametrize("change", [{"provider": "other"}, {"base_url": "other"}, {"response_id": "../models"}])
async def test_nothing_is_sent_to_another_upstream(change: Any) -> None:
    upstream, timers, handover = Upstream(), StreamTimers(Timeouts()), replace(HANDOVER, **change)
    found = calls(upstream)
    await found.cancel(handover)
    assert await found.open(handover, timers, Attachment()) is None
    timers.stop()
    assert upstream.requests == []
