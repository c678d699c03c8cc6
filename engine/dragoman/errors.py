"""What can go wrong, by whose fault.

    DragomanError                     everything below; carries a `Failure`
    ├── ClientRequestError            the client's request is wrong: 400, names the client's own field
    │   ├── TooMany                   it holds more messages, parts, calls or tools than a limit allows: 400
    │   └── Unsupported               the request is right, but the upstream's dialect cannot carry it: 400
    ├── LimitExceeded                 a size limit was passed: 413 for a request, 502 for a reply
    └── UpstreamError                 the upstream's fault
        ├── UpstreamProtocolError     it broke its own grammar: 502
        │   └── StreamTruncated       its stream ended before the terminal event: 502
        ├── UpstreamStatusError       it answered an error status; the failure is what it said
        ├── UpstreamUnreachable       no connection, or the connection broke: 502
        └── UpstreamTimeout           one of the named timers ran out: 504

Before the reply's headers are sent an error is an exception and becomes a response of the client's dialect; afterwards
it is an `events.Error` that the writer puts in-band. Both carry the same `Failure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Path = tuple[str | int, ...]
"""Where something stood in the client's body: `("messages", 3, "content", 0)`. Formatted only when it is told."""


def dotted(path: Path | str) -> str:
    """The client's own spelling of a path: `messages[3].content[0]`."""
    if isinstance(path, str):
        return path
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        else:
            out += f".{step}" if out else step
    return out


class FailureKind(StrEnum):
    """The canonical error classes (mapping §10); each dialect has one table to and one from them."""

    INVALID_REQUEST = "invalid_request"
    AUTHENTICATION = "authentication"
    BILLING = "billing"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    RATE_LIMIT = "rate_limit"
    CONTEXT_LENGTH = "context_length"
    POLICY = "policy"
    API = "api"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"


@dataclass(slots=True)
class Failure:
    """An error as data: what every dialect's error envelope is read into and written from.

    `status` is the HTTP status that the upstream (or the gateway) gave it; `native_type` and `code` are the upstream's
    own words, kept beside the canonical `kind`; `param` names a field of the *client's* body or is None.
    """

    kind: FailureKind
    message: str
    status: int
    native_type: str | None = None
    code: str | None = None
    param: str | None = None
    request_id: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


class DragomanError(Exception):
    """Base of all documented errors."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ClientRequestError(DragomanError):
    """The request is malformed. `path` is the client's field; the message should say what was expected."""

    def __init__(self, path: Path | str, message: str, *, code: str | None = None) -> None:
        where = dotted(path)
        text = f"{where}: {message}" if where else message
        super().__init__(Failure(FailureKind.INVALID_REQUEST, text, 400, code=code, param=where or None))


class TooMany(ClientRequestError):
    """The request holds more of something than a limit allows: 400. `name` is the field of `Limits`, `limit` its value.

    `held` says what there is too much of, with its count where that is known.
    """

    def __init__(self, path: Path | str, held: str, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        super().__init__(path, f"holds {held}; the limit {name} is {limit}")


class Unsupported(ClientRequestError):
    """The field is legal where it came from, but the chosen upstream's dialect has no way to carry it."""


class LimitExceeded(DragomanError):
    """A configured size limit was passed. `name` is the field of `Limits`; `limit` its value."""

    def __init__(self, name: str, limit: int, *, upstream: bool) -> None:
        self.name, self.limit = name, limit
        if upstream:
            failure = Failure(FailureKind.API, f"upstream exceeded the limit {name} = {limit}", 502)
        else:
            failure = Failure(FailureKind.TOO_LARGE, f"request exceeds the limit {name} = {limit}", 413)
        super().__init__(failure)


class UpstreamError(DragomanError):
    """The upstream's fault."""


class UpstreamProtocolError(UpstreamError):
    """The upstream broke its own dialect's grammar (or sent what no client of another dialect could be given)."""

    def __init__(self, message: str, *, code: str = "upstream_protocol") -> None:
        super().__init__(Failure(FailureKind.API, message, 502, code=code))


class StreamTruncated(UpstreamProtocolError):
    """The stream ended, cleanly or not, before its terminal event."""

    def __init__(self, message: str = "upstream stream ended before its terminal event") -> None:
        super().__init__(message, code="stream_truncated")


class UpstreamStatusError(UpstreamError):
    """The upstream answered with an error status, or with an error body under a 2xx status."""


class UpstreamUnreachable(UpstreamError):
    """No connection could be made, or it broke."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure(FailureKind.API, message, 502, code="upstream_unreachable"))


class UpstreamTimeout(UpstreamError):
    """A named timer ran out: `connect`, `first_byte`, `idle` or `tool_stall`."""

    def __init__(self, timer: str, seconds: float) -> None:
        self.timer = timer
        message = f"upstream timed out: nothing within {seconds:g} s ({timer})"
        super().__init__(Failure(FailureKind.TIMEOUT, message, 504, code="timeout"))
