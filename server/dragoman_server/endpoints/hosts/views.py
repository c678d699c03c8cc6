"""The views that this process stores for other hosts: of its requests, for lists and consoles, and of its own state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from dragoman.wire import Json, json_dumps
from dragoman_server.endpoints.console.exchange_view import receipt_view
from dragoman_server.endpoints.console.rows import SCAN_MAX, row_of
from dragoman_server.endpoints.hosts.stored_receipts import owner_of
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hosts.interface import StoredReceipt
from dragoman_server.proxy.hosts.shared_hosts import SharedHosts
from dragoman_server.receipt import Receipt, without_long_parts

OPEN_MAX = 100
"""Most open requests that are written."""
VIEW_BYTES = 256 * 1024
"""Bytes above which a receipt is stored without its recording, and then without its long parts."""
_NO_LONG_PARTS: Final[Json] = {"losses": [], "violations": [], "cache": None, "renames": {}}


class HostViews:
    """The views of one gateway. `recording` returns what a console has recorded of a request, or None."""

    def __init__(self, gateway: Gateway, hosts: SharedHosts, recording: Callable[[str], Json | None]) -> None:
        self._gateway = gateway
        self._process = hosts.process
        self._recording = recording

    def state(self) -> bytes:
        """Return the state of the process."""
        return json_dumps(self._gateway.state())

    def stored(self, receipt: Receipt) -> tuple[StoredReceipt, bytes]:
        """Return a receipt as it is stored, and its row."""
        gateway, row = self._gateway, self._row(receipt)
        shown = receipt.shown(gateway.host)
        summary = without_long_parts(shown)
        view = receipt_view(gateway, receipt, row, shown)
        view["recording"] = self._recording(receipt.request_id)
        data = json_dumps(view)
        if len(data) > VIEW_BYTES:
            view["recording"] = None
            data = json_dumps(view)
        if len(data) > VIEW_BYTES:
            view["receipt"] = {**summary, **_NO_LONG_PARTS, "shortened": True}
            data = json_dumps(view)
        stored = StoredReceipt(receipt.request_id, owner_of(receipt.owner), json_dumps(summary), data)
        return stored, json_dumps({**row, "process": self._process})

    def _row(self, receipt: Receipt) -> Json:
        return {**row_of(receipt, self._gateway.metrics.seconds), "host": self._gateway.host}

    def open_rows(self) -> bytes:
        """Return the rows of the newest open requests."""
        newest = islice(self._gateway.receipts.newest(), SCAN_MAX)
        found = islice((receipt for receipt in newest if receipt.ended == "open"), OPEN_MAX)
        return json_dumps([{**self._row(receipt), "process": self._process} for receipt in found])

    def find(self, request_id: str) -> Receipt | None:
        """Return the receipt of a request of this process, or None."""
        return self._gateway.receipts.of_any_client(request_id)
