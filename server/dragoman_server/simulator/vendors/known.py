"""The vendor of each API that is simulated."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from dragoman_server.simulator.api import APIS
from dragoman_server.simulator.vendors.vendor import Vendor

VENDORS: Final[dict[str, Vendor]] = {
    dialect: import_module(f"dragoman_server.simulator.vendors.{api.vendor}").VENDOR for dialect, api in APIS.items()
}
"""Dialect → vendor."""
