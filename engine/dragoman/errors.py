"""The errors that Dragoman raises, and the failures that they carry.

    DragomanError                     base class of all errors below; `failure` holds the details
    ├── ClientRequestError            the client's request is invalid: 400, names the client's field
    │   ├── TooMany                   it has more messages, parts, calls or tools than a limit allows: 400
    │   └── Unsupported               it is valid, but the upstream's dialect cannot express it: 400
    ├── LimitExceeded                 a size limit was exceeded: 413 for a request, 502 for a reply
    └── UpstreamError                 the upstream failed
        ├── UpstreamProtocolError     its reply does not follow its dialect's grammar: 502
        │   └── StreamTruncated       its stream ended before the terminal event: 502
        ├── UpstreamStatusError       it returned an error; the failure holds its status and message
        ├── UpstreamUnreachable       the connection could not be made, or it broke: 502
        └── UpstreamTimeout           a timeout expired: 504

Before the response's headers are sent, an error is raised and becomes a response in the client's dialect. Afterwards it
becomes an `events.Error`, which the stream's writer sends in-band. Both carry the same `Failure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from dragoman.short_repr import short_repr

__all__ = (
    "ClientRequestError",
    "DragomanError",
    "Failure",
    "FailureKind",
    "FailureOrigin",
    "LimitExceeded",
    "StreamTruncated",
    "TooMany",
    "Unsupported",
    "UpstreamError",
    "UpstreamProtocolError",
    "UpstreamStatusError",
    "UpstreamTimeout",
    "UpstreamUnreachable",
)

Path = tuple[str | int, ...]
"""The place of a field in a JSON body, as keys and indexes: `("messages", 3, "content", 0)`."""


def dotted(path: Path | str) -> str:
    """Return a path as text: `messages[3].content[0]`. A text is returned unchanged."""
    if isinstance(path, str):
        return path
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        else:
            out += f".{step}" if out else step
    return out


def is_longer(path: Path | str, longest: int) -> bool:
    """Return whether any name in a path has more than `longest` characters, or the path if it is a text."""
    if type(path) is str:
        return len(path) > longest
    for step in path:  # noqa: SIM110 - a generator costs three times as much
        if type(step) is str and len(step) > longest:
            return True
    return False


class FailureKind(StrEnum):
    """The canonical error classes (mapping §10). Each dialect maps its error types to them and back."""

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


class FailureOrigin(StrEnum):
    """The party that caused a failure."""

    CLIENT = "client"
    """The client: its request is invalid, too large, or not permitted."""
    PROXY = "proxy"
    """Dragoman, or the program that embeds it: a defect, or a shutdown."""
    UPSTREAM = "upstream"
    """The upstream: it returned an error, broke its protocol, timed out, or could not be reached."""


@dataclass(slots=True)
class Failure:
    """An error as data. Every dialect's error object is read into it and written from it.

    `status` is the HTTP status. `native_type` and `code` are the type and code that the upstream used; `code` is also
    written to the client. `param` is the field of the *client's* body that is wrong, or None. `request_id` is the
    upstream's id of the request. `headers` are response headers for the client, such as `retry-after`.

    `origin` and `reason` are for metrics and logs and are never written to the client. `reason` names the cause where
    `kind` is too general: `defect`, `stopping` or `given_up` (proxy), `unreachable`, `protocol`, `truncated`, `limit`,
    or the timeout that expired: `connect`, `first_byte`, `idle`, `tool_stall` (upstream). None stands for an error that
    the upstream itself returned. A server may use other words for its own failures. `unread` are the paths of the
    other members of the upstream's error, which are recorded as losses.
    """

    kind: FailureKind
    message: str = field(repr=False)
    status: int
    native_type: str | None = field(default=None, repr=False)
    code: str | None = field(default=None, repr=False)
    param: str | None = field(default=None, repr=False)
    request_id: str | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    origin: FailureOrigin = FailureOrigin.UPSTREAM
    reason: str | None = None
    unread: tuple[str, ...] = field(default=(), repr=False)


class DragomanError(Exception):
    """Base class of all errors that the engine raises on purpose. `failure` holds the details.

    `str(error)` is the message for the client; `repr(error)` has no text.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __repr__(self) -> str:
        return short_repr(self, self.failure.status, self.failure.kind)


class ClientRequestError(DragomanError):
    """The request is invalid: 400.

    `path` is the client's field, `message` states what was expected there, `code` is the error code for the client.
    `problem` is the message without the field.
    """

    def __init__(self, path: Path | str, message: str, *, code: str | None = None) -> None:
        field_name = dotted(path)
        self.path = path
        self.problem = message
        text = f"{field_name}: {message}" if field_name else message
        kind = FailureKind.INVALID_REQUEST
        super().__init__(Failure(kind, text, 400, code=code, param=field_name or None, origin=FailureOrigin.CLIENT))

    def name_field_of(self, body: Any) -> None:
        """Name the field as it is in a client's body: an object in place of an array has no index, a text no part."""
        if isinstance(self.path, str) or (path := _stated(self.path, body)) == self.path:
            return
        field_name = dotted(path)
        self.failure = replace(self.failure, message=f"{field_name}: {self.problem}", param=field_name)
        self.args = (self.failure.message,)


def _stated(path: Path, body: Any) -> Path:
    """Return the part of a path that leads through the objects and arrays of a body."""
    stated: list[str | int] = []
    for at, step in enumerate(path):
        if type(step) is int and type(body) is dict:
            continue
        if type(step) is int and type(body) is not list:
            break
        stated.append(step)
        if type(step) is int:
            if not 0 <= step < len(body):
                return (*stated, *path[at + 1 :])
            body = body[step]
        elif type(body) is dict:
            body = body.get(step)
        else:
            return (*stated, *path[at + 1 :])
    return tuple(stated)


class TooMany(ClientRequestError):
    """The request has more items of a kind than a limit allows: 400.

    `held` names the items, with their count if it is known. `name` is the field of `Limits`, `limit` its value.
    """

    def __init__(self, path: Path | str, held: str, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        super().__init__(path, f"holds {held}; the limit {name} is {limit}")


class Unsupported(ClientRequestError):
    """The field is valid in the client's dialect, but the upstream's dialect cannot express it: 400."""


class LimitExceeded(DragomanError):
    """A configured size limit was exceeded: 413 for a request, 502 for an upstream's reply.

    `name` is the field of `Limits`, `limit` its value. `upstream` is True if the upstream exceeded the limit.
    """

    def __init__(self, name: str, limit: int, *, upstream: bool) -> None:
        self.name, self.limit = name, limit
        if upstream:
            message, kind, status = f"upstream exceeded the limit {name} = {limit}", FailureKind.API, 502
            origin = FailureOrigin.UPSTREAM
        else:
            message, kind, status = f"request exceeds the limit {name} = {limit}", FailureKind.TOO_LARGE, 413
            origin = FailureOrigin.CLIENT
        super().__init__(Failure(kind, message, status, origin=origin, reason="limit"))


class UpstreamError(DragomanError):
    """The upstream failed. `received` is the number of bytes that had arrived of a body that was to be read whole."""

    received: int = 0


class UpstreamProtocolError(UpstreamError):
    """The upstream's reply does not follow its dialect's grammar, or cannot be expressed in another dialect: 502."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure(FailureKind.API, message, 502, code="upstream_protocol", reason="protocol"))

    def forbid_retry(self) -> None:
        """Forbid the client's SDK to repeat the request: the upstream has answered, and charges for each answer.

        The headers of a response that reports the error then have `x-should-retry: false`.
        """
        if self.failure.reason == "protocol":
            self.failure.headers["x-should-retry"] = "false"


class StreamTruncated(UpstreamProtocolError):
    """The upstream's stream ended before its terminal event: 502."""

    def __init__(self, message: str = "upstream stream ended before its terminal event") -> None:
        super().__init__(message)
        self.failure.code, self.failure.reason = "stream_truncated", "truncated"


class UpstreamStatusError(UpstreamError):
    """The upstream returned an error: an error status, an error body with a 2xx status, or an error in its stream."""


class UpstreamUnreachable(UpstreamError):
    """The connection to the upstream could not be made, or it broke: 502."""

    def __init__(self, message: str) -> None:
        failure = Failure(FailureKind.API, message, 502, code="upstream_unreachable", reason="unreachable")
        super().__init__(failure)


class UpstreamTimeout(UpstreamError):
    """A timeout expired: 504. `timer` is `connect`, `first_byte`, `idle` or `tool_stall`, `seconds` its length."""

    def __init__(self, timer: str, seconds: float) -> None:
        self.timer = timer
        message = f"upstream timed out: nothing within {seconds:g} s ({timer})"
        super().__init__(Failure(FailureKind.TIMEOUT, message, 504, code="timeout", reason=timer))
