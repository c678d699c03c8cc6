"""Every API that is simulated has a vendor."""

from __future__ import annotations

from dragoman_server.simulator.api import APIS
from dragoman_server.simulator.vendors.known import VENDORS


def test_each_api_has_the_vendor_that_its_record_names() -> None:
    assert VENDORS.keys() == APIS.keys()
    assert VENDORS["chat"] is VENDORS["responses"]
    assert len({id(vendor) for vendor in VENDORS.values()}) == len({api.vendor for api in APIS.values()})
