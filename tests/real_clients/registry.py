"""Every client of the table: the `CLIENTS` of each module next to this one that names any."""

from __future__ import annotations

import importlib
from pathlib import Path

from real_clients.contract import Client

_PREFIXES = ("agent_", "sdk_", "framework_")


def _collected() -> list[Client]:
    clients: list[Client] = []
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name.startswith(_PREFIXES):
            clients += importlib.import_module(f"real_clients.{path.stem}").CLIENTS
    return sorted(clients, key=lambda client: _PREFIXES.index(f"{client.kind}_"))


CLIENTS: list[Client] = _collected()
"""Agents first, then SDKs, then frameworks."""
