"""The requests about a response that its upstream generates in the background."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dragoman.aio import ClientGone, StreamTimers, Timeouts
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


@pytest.mark.parametrize(
    ("fruitless", "replies", "pauses", "found"),
    [
        (0, [OK], [], True),
        (0, [AWAY, (503, b""), OK], [1.0, 2.0], True),
        (3, [(503, b""), OK], [4.0, 8.0], True),
        (0, [AWAY] * TRIES, [1.0, 2.0, 4.0, 8.0, 16.0], False),
        (0, [(404, b"{}")], [], False),
        (TRIES, [], [], False),
    ],
)
async def test_a_connection_is_replaced_with_longer_pauses_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, fruitless: int, replies: list[Any], pauses: list[float], found: bool
) -> None:
    monkeypatch.undo()  # the pauses are those of the module
    upstream, timers, slept = Upstream(*replies), StreamTimers(Timeouts()), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    made = AttachedCalls(gateway_of(upstream).services, sleep)
    answer = await made.rejoin(replace(HANDOVER, response_id=""), timers, "resp_1", 7, fruitless)
    timers.stop()
    assert (answer is not None) is found
    assert slept == pauses
    assert set(upstream.urls) <= {"GET /responses/resp_1?stream=true&starting_after=7"}
    assert len(upstream.requests) == len(replies)


async def test_the_timers_end_a_pause() -> None:
    upstream, timers, waits = Upstream(AWAY), StreamTimers(Timeouts()), asyncio.Event()

    async def sleep(_: float) -> None:
        waits.set()
        await asyncio.Event().wait()

    made = AttachedCalls(gateway_of(upstream).services, sleep)
    rejoining = asyncio.ensure_future(made.rejoin(HANDOVER, timers, "resp_1", 7, 0))
    await waits.wait()
    timers.expire(ClientGone())
    with pytest.raises(ClientGone):
        await rejoining
    timers.stop()


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
