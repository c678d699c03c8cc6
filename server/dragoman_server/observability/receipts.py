"""The receipts of the last requests, by request id. Only the key that made a request may read its receipt."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hmac import compare_digest
from itertools import islice

from dragoman.wire import Json
from dragoman_server.receipt import Receipt

LIST_DEFAULT, LIST_MAX = 20, 100
"""Receipts in a list, by default and at most."""
SCAN_MAX = 10_000
"""Most receipts that are looked at for a list."""


class Receipts:
    """The receipts of the last `keep` requests, in memory. The oldest is dropped first.

    `host` is the name of the gateway's host, which they show.
    """

    def __init__(self, keep: int, host: str = "") -> None:
        self._keep = keep
        self.host = host
        # A dict searches the gaps of all keys that it dropped for its first one.
        self._filed: OrderedDict[str, Receipt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._filed)

    def resize(self, keep: int) -> None:
        """Set the number of receipts to keep."""
        self._keep = keep
        while len(self._filed) > keep:
            self._filed.popitem(last=False)

    def file(self, receipt: Receipt) -> None:
        """Add a receipt. It may still be open, and is completed later."""
        if not self._keep:
            return
        if len(self._filed) >= self._keep:
            self._filed.popitem(last=False)
        self._filed[receipt.request_id] = receipt

    def newest(self) -> Iterator[Receipt]:
        """Yield the receipts of all clients, the newest first. No receipt may be filed meanwhile."""
        return reversed(self._filed.values())

    def last(self, owner: bytes, most: int) -> list[Json]:
        """Return summaries of the last `most` requests of the key with the digest `owner`, the newest first."""
        mine = (each for each in islice(self.newest(), SCAN_MAX) if each.owner == owner)
        return [each.summary(self.host) for each in islice(mine, most)]

    def of_any_client(self, request_id: str) -> Receipt | None:
        """Return the receipt of a request, whichever client made it, or None."""
        return self._filed.get(request_id)

    def find(self, request_id: str, owner: bytes) -> Receipt | None:
        """Return the receipt of a request that the key with the digest `owner` made, or None."""
        receipt = self._filed.get(request_id)
        # Compared also if there is no receipt, so that the time taken reveals nothing about other requests.
        mine = compare_digest(receipt.owner if receipt is not None else b"", owner)
        return receipt if mine else None
