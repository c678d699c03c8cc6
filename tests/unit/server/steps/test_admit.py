"""Admission: the client, and the reasons for which a gateway takes no request."""

from __future__ import annotations

import pytest

from dragoman import Dialect, DragomanError
from dragoman.errors import UpstreamUnreachable
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.upstream_request import SENDER
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.admit import admit, admit_request, file_receipt, identify
from support.gateways import CHAT, config_for
from support.named_keys import keyed, made
from support.scopes import drafted


async def test_the_client_is_in_the_receipt_that_is_filed_afterwards() -> None:
    key, record = made("alice")
    gateway = Gateway(keyed("http://up", CHAT, record))
    await gateway.open_stores()
    scope = RequestScope(gateway.services, Receipt("req_1", Dialect.CHAT, 7))
    draft = drafted(headers={"x-api-key": key})
    await admit(scope, draft)
    assert (scope.receipt.key, scope.receipt.owner) == (record, record.hash.digest)
    assert len(gateway.receipts) == 0
    file_receipt(scope, draft)
    assert gateway.receipts.find("req_1", record.hash.digest) is scope.receipt
    await gateway.close()


async def test_a_gateway_that_stops_admits_nothing_and_still_knows_its_clients() -> None:
    services = Gateway(config_for("http://up", CHAT)).services
    services.open_requests.stopping = True
    with pytest.raises(DragomanError, match="shutting down") as caught:
        await admit_request(services, drafted().request)
    assert caught.value.failure.headers == {"retry-after": "1"}
    assert (await identify(services, drafted().request)).owner == b""


async def test_a_request_of_the_gateway_to_itself_is_an_upstream_that_cannot_be_reached() -> None:
    services = Gateway(config_for("http://up", CHAT), sender="own").services
    with pytest.raises(UpstreamUnreachable, match="its own upstream"):
        await admit_request(services, drafted(headers={SENDER: "own"}).request)
