"""One exchange in detail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman import DragomanError
from dragoman_server.accounts.usage.price import Price
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.exchange_view import exchange_view
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.proxy.gateway import Gateway
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.samples import text_stream
from support.sockets import ScriptedServer, stream


def with_ui(url: str = "http://127.0.0.1:9/v1") -> Config:
    config = config_for(url, CHAT)
    return replace(config, server=replace(config.server, ui=True), prices={"*": Price(1.0, 1.0)})


async def test_an_exchange_has_its_row_receipt_and_cost() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server, gate(with_ui(server.url)) as up:
        async with up.post(MESSAGES, stream=True, top_k=4) as response:
            await response.read()
            request_id = response.headers["x-dragoman-request-id"]
        async with up.session.get(f"{up.url}/ui/api/exchanges/{request_id}") as response:
            assert response.headers["cache-control"] == "no-store"
            view = await response.json()
        async with up.session.get(f"{up.url}/v1/dragoman/receipts/{request_id}") as response:
            assert view["receipt"] == await response.json()
    assert view["row"]["id"] == request_id
    assert view["receipt"]["losses"][0]["path"] == "top_k"
    assert float(view["cost"]) == pytest.approx(14e-6)
    assert view["recording"] is None


async def test_an_unknown_exchange_is_a_404_that_explains() -> None:
    async with gate(with_ui()) as up, up.session.get(f"{up.url}/ui/api/exchanges/req_1") as response:
        assert response.status == 404
        message = (await response.json())["error"]["message"]
    assert message == "there is no exchange 'req_1'; those of the last 1000 requests are kept"


@pytest.mark.parametrize("known", [True, False])
async def test_another_worker_is_asked(known: bool) -> None:
    class Siblings:
        async def console(self, question: Any) -> Any:
            assert question == {"kind": "exchange", "id": "req_1"}
            return [{"view": None}, {}, {"view": {"row": {}} if known else None}]

    siblings: Any = Siblings()
    gateway = Gateway(with_ui(), siblings=siblings)
    recorder = Recorder(gateway.services.instruments)
    if known:
        assert await exchange_view(gateway, recorder, "req_1") == {
            "row": {},
            "capture": None,
        }
    else:
        with pytest.raises(DragomanError, match="there is no exchange"):
            await exchange_view(gateway, recorder, "req_1")
