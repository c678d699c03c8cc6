"""An exchange that goes on in another process; `e2e/test_attached_runs.py` runs it with processes that are killed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.aio import Downstream, EventLog, LoggedStream, StreamTimers
from dragoman_server.proxy.attached.attached_exchange import AttachedExchange
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.simulator import render_responses
from dragoman_server.simulator.parse_request import read_responses
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import scenario_for
from support.handovers import HANDOVER, Upstream, gateway_of

ASKED = {"model": "sim-text", "input": "Hi", "stream": True, "background": True}
TURN = read_responses(ASKED)
STREAM = b"".join(render_responses.frames(scenario_for(TURN), SimulatedReply(TURN.model, ASKED)))


class Sink:
    """Takes the stream of an exchange."""

    def __init__(self) -> None:
        self.log = EventLog(1 << 20)

    def open(self, timers: StreamTimers, _: dict[str, str]) -> Downstream:
        return LoggedStream(self.log, timers, lambda _: None)


def exchange_of(gateway: Gateway, **changes: Any) -> AttachedExchange:
    return AttachedExchange(gateway.services, replace(HANDOVER, **changes).write(), "", "req_1")


async def test_the_whole_stream_is_translated_for_the_client() -> None:
    gateway, sink = gateway_of(Upstream((200, STREAM))), Sink()
    exchange = exchange_of(gateway)
    assert await exchange.run(sink.open)
    frames = sink.log.frames(0)
    assert b'"object":"chat.completion.chunk"' in frames[0]
    assert frames[-1] == b"data: [DONE]\n\n"
    receipt = exchange.receipt
    assert (receipt.ended, receipt.client, receipt.request_id) == ("completed", Dialect.CHAT, "req_1")
    assert receipt.usage is not None
    assert receipt.usage.output_total
    assert gateway.services.receipts.find("req_1", b"") is receipt
    assert len(gateway.services.open_requests) == 0


@pytest.mark.parametrize("upstream", [Upstream((404, b"{}")), Upstream((200, STREAM), (200, b"{}"))])
async def test_one_that_cannot_go_on_is_booked_as_lost(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upstream does not know it, or the request cannot be translated."""
    gateway, sink, lost = gateway_of(upstream), Sink(), list[Any]()
    monkeypatch.setattr(gateway.services.instruments.usage, "add_lost", lost.append)
    exchange = exchange_of(gateway, body=b"[]")
    assert not await exchange.run(sink.open)
    assert lost == [HANDOVER.usage]
    assert (exchange.is_open, sink.log.end) == (False, 0)
    assert upstream.replies == []


async def test_it_goes_on_only_where_its_provider_is() -> None:
    gateway = gateway_of(Upstream())
    with pytest.raises(ValueError, match="no provider other"):
        exchange_of(gateway, provider="other")
    with pytest.raises(ValueError, match=r"too long|another version"):
        AttachedExchange(gateway.services, b"{}", "", "req_1")


async def test_a_cancel_is_sent_to_the_upstream() -> None:
    upstream = Upstream((200, b"{}"))
    await exchange_of(gateway_of(upstream)).cancel()
    assert upstream.urls == ["POST /responses/resp_1/cancel"]


def test_the_stored_request_has_the_items_of_its_own() -> None:
    fields = {"previous_response_id": "resp_0", "store": True}
    exchange = exchange_of(gateway_of(Upstream()), fields=fields, items=2)
    request = exchange.stored_request({"input": [1, 2, 3]})
    assert request is not None
    assert (request.parent, request.store, request.input) == ("resp_0", True, b"[3]")
    assert exchange_of(gateway_of(Upstream())).stored_request({}) is None
