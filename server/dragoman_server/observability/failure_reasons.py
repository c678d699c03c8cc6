"""The reasons of the last requests that failed, in the words that their clients got, for the console.

A receipt and the log have only Dragoman's own messages, as an upstream's may quote the request. The console's users are
administrators, and need these words to help a client. They are kept in memory only, and only with `server.ui`.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from dragoman import Failure
from dragoman.errors import FailureOrigin
from dragoman.gateway import for_client, redact
from dragoman_server.receipt import TEXT_MAX, Receipt

KEPT_MAX = 1000
"""Most reasons that are kept; the oldest is dropped first."""
QUOTE_MAX = 40
"""Longest quotation in an upstream's message that is kept, in characters. It may be a text of the request."""
_QUOTATION = re.compile(
    "|".join(
        rf"(?<!\w){mark}(?:[^{mark}]|(?<=\w){mark}(?=\w)){{{QUOTE_MAX + 1},}}{mark}(?!\w)" for mark in ("'", '"', "`")
    )
)
"""A long quotation. A mark between two letters is an apostrophe."""
_READ_MAX = 4000
"""Longest part of a message that is searched for quotations, in characters."""


class FailureReasons:
    """The reasons by request id. `ended` is an ending of every request."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()

    def ended(self, receipt: Receipt, failure: Failure | None) -> None:
        """Keep the reason of a request that has ended. `failure` is that of the gateway, if any."""
        if (translation := receipt.translation) is not None:
            failure = failure or translation.context.failure
            if failure is not None:
                failure = for_client(failure, translation.context.own_key)
        if failure is None or not failure.message:
            return
        if len(self._kept) >= KEPT_MAX:
            self._kept.popitem(last=False)
        own = failure.origin is not FailureOrigin.UPSTREAM or (receipt.error is not None and "message" in receipt.error)
        self._kept[receipt.request_id] = failure.message[:TEXT_MAX] if own else without_texts(failure.message)

    def get(self, request_id: str) -> str | None:
        """Return the reason of a request, or None if it did not fail, or if its reason is not kept."""
        return self._kept.get(request_id)


def without_texts(message: str) -> str:
    """Return an upstream's message without keys and without long quotations, cut to `TEXT_MAX`."""
    return _QUOTATION.sub("“…”", redact(message[:_READ_MAX]))[:TEXT_MAX]
