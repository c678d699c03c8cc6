"""The request of a run, which its upstream generates in the background."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dragoman import Dialect, direction, translate
from dragoman.aio import StreamTimers, Timeouts, UpstreamRequest
from dragoman.threads import StoreError
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.attached.background_transport import BackgroundTransport
from dragoman_server.proxy.attached.handover import Handover
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from support.handovers import HANDOVER, URL, Upstream, gateway_of
from support.scopes import drafted

CREATED = b'event: response.created\ndata: {"response":{"id":"resp_7"}}\n\n'
END = b"event: response.completed\ndata: {}\n\n"
BODY = HANDOVER.body
CALL = UpstreamRequest(URL + "/responses", {}, b'{"model":"m","store":false,"stream":true}', True, Timeouts())


def wrapped(upstream: Upstream, attachment: Attachment) -> BackgroundTransport:
    services = gateway_of(upstream).services
    scope = RequestScope(services, Receipt("req_1", Dialect.CHAT, 7, model="m", provider="up"))
    scope.receipt.translation = translate(direction(Dialect.CHAT, Dialect.RESPONSES), BODY)
    draft = drafted(payload={}, loaded=services.loaded)
    draft.body = BODY
    return BackgroundTransport(upstream, scope, draft, attachment)


async def test_what_another_process_needs_is_shared_before_the_first_event() -> None:
    shared: list[bytes] = []

    async def share(data: bytes) -> None:
        shared.append(data)

    upstream, timers = Upstream((200, CREATED + END)), StreamTimers(Timeouts())
    answer = await wrapped(upstream, Attachment(share)).open(CALL, timers)
    assert json.loads(upstream.requests[0].body) == {"model": "m", "store": True, "stream": True, "background": True}
    assert shared == []
    async for _ in answer.batches():
        handover = Handover.read(shared[0], 1000)
        assert (handover.response_id, handover.body, handover.model) == ("resp_7", BODY, "m")
    await answer.close()
    timers.stop()
    assert upstream.urls == ["POST /responses"], "it has ended, so it is not cancelled"


@pytest.mark.parametrize("taken", [False, True])
async def test_a_response_that_is_left_is_cancelled_unless_another_process_has_it(taken: bool) -> None:
    async def fail(_: bytes) -> None:
        raise StoreError("away")

    upstream, timers = Upstream((200, CREATED), (200, b"{}")), StreamTimers(Timeouts())
    attachment = Attachment(fail)
    answer = await wrapped(upstream, attachment).open(CALL, timers)
    async for _ in answer.batches():
        assert attachment.handover, "it is written when the store answers again"
    attachment.is_taken = taken
    await answer.close()
    timers.stop()
    assert upstream.urls[1:] == ([] if taken else ["POST /responses/resp_7/cancel"])


async def test_a_refusal_and_a_whole_reply_are_those_of_the_upstream() -> None:
    upstream, timers = Upstream((400, b"{}"), (200, b"{}")), StreamTimers(Timeouts())
    transport = wrapped(upstream, Attachment())
    assert (await transport.open(CALL, timers)).status == 400
    whole = replace(CALL, stream=False)
    assert await (await transport.open(whole, timers)).read(10) == b"{}"
    assert upstream.requests[1] is whole
    timers.stop()
