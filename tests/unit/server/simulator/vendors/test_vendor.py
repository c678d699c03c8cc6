"""The vendors of the simulator."""

from __future__ import annotations

from importlib import import_module

import pytest

from dragoman_server.simulator.api import APIS
from dragoman_server.simulator.vendors.vendor import Vendor


@pytest.mark.parametrize("name", sorted({api.vendor for api in APIS.values()}))
def test_each_vendor_has_a_module(name: str) -> None:
    vendor: Vendor = import_module(f"dragoman_server.simulator.vendors.{name}").VENDOR
    assert vendor.canonical({"a": 1}) == {"a": 1}
    for status in (400, 429, 503):
        reply = vendor.scripted_error(status, "", "req_1", 2.0)
        assert reply.status == status
        assert reply.body["error"]["message"]
