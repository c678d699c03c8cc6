"""The `details` of Google's errors: when to retry, which field is wrong, and the reason.

Types: `google.rpc` error details (google.aip.dev/193). The compatible endpoint sends the same ones as Gemini's own API.
"""

from __future__ import annotations

import re
from math import ceil
from typing import Any, Final, NamedTuple

from dragoman.canonical.request import Json
from dragoman.dialects.errors.codes import IMPLIED

_MOST: Final = 8
"""Most details that are read."""
_DELAY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_NO_QUOTA: Final = re.compile(r"\blimit: 0\b(?!\.\d)")
_READ: Final = ("RetryInfo", "QuotaFailure", "BadRequest", "ErrorInfo", "Help", "LocalizedMessage")
"""The types that are read, and those that only repeat the message."""


class GoogleDetails(NamedTuple):
    """The facts that the details of an error state.

    `headers` are for the client; `unread` is True if there are other details.
    """

    reason: str | None
    param: str | None
    headers: dict[str, str]
    unread: bool


def read_details(details: list[Any], message: Any = "") -> GoogleDetails:
    """Read the `details` of an error, and its message. Never raises.

    A quota for a day does not return within a retry, and one of 0 never does, so the client's SDK is advised against a
    retry.
    """
    reason = param = None
    delay, unread = 0.0, len(details) > _MOST
    daily = type(message) is str and _NO_QUOTA.search(message) is not None
    for entry in details[:_MOST]:
        if type(entry) is not dict:
            unread = True
            continue
        kind = str(entry.get("@type")).rpartition(".")[2]
        if type(word := entry.get("reason")) is str and word.lower() in IMPLIED:
            reason = reason or word
        if kind == "RetryInfo":
            delay = _seconds(entry.get("retryDelay"))
        elif kind == "QuotaFailure":
            daily = daily or any("PerDay" in str(each.get("quotaId")) for each in _entries(entry, "violations"))
        elif kind == "BadRequest" and param is None:
            fields = [each.get("field") for each in _entries(entry, "fieldViolations")]
            param = next((field.rpartition(".")[2] for field in fields if type(field) is str), None)
        elif kind not in _READ:
            unread = True
    headers: dict[str, str] = {}
    if daily:
        headers["x-should-retry"] = "false"
    elif delay:
        headers["retry-after"] = str(ceil(delay))
        headers["retry-after-ms"] = str(ceil(delay * 1000))
    return GoogleDetails(reason, param, headers, unread)


def _entries(detail: Json, key: str) -> list[Json]:
    entries = detail.get(key)
    return [each for each in entries[:_MOST] if type(each) is dict] if type(entries) is list else []


def _seconds(delay: Any) -> float:
    """Return a duration such as `34.4s` in seconds; 0 for anything else."""
    found = _DELAY.fullmatch(delay) if type(delay) is str else None
    return float(found[1]) if found is not None else 0.0
