"""Records one exchange while it runs: its requests and replies, with the time of each read and write.

All of it runs in the event loop, and keeps references to bytes that exist already. What an exchange may keep is
limited; beyond that only sizes are counted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dragoman import Failure, Translation
from dragoman.aio import UpstreamRequest
from dragoman_server.receipt import Receipt

if TYPE_CHECKING:
    from aiohttp import web

_HEARTBEATS_MAX = 1000
_UNKNOWN_TYPE = "application/octet-stream"


def binary_type(content_type: str) -> str:
    """Return the type of a body of which only the size is recorded; empty for JSON, event streams and other texts.

    It has no parameters. A body without a type is not taken for a text.
    """
    plain = content_type.partition(";")[0].strip().lower()
    return "" if plain.startswith("text/") or plain.endswith("json") else plain or _UNKNOWN_TYPE


class Budget:
    """The bytes that one exchange may still keep. `exceeded` is True once something was left out."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.exceeded = False

    def take(self, data: bytes) -> bytes:
        """Return the part of the data that may be kept, all of it if possible."""
        kept = data if len(data) <= self.left else data[: self.left]
        if len(kept) != len(data):
            self.exceeded = True
        self.left -= len(kept)
        return kept


class Pieces:
    """A body, as the pieces in which it came or went: the time of each in seconds since the exchange began."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.data: list[bytes] = []
        self.times: list[float] = []
        self.size = 0
        """The size of all of it, also of what was not kept."""
        self.omitted = ""
        """Its type, if only its size is to be recorded (`binary_type`)."""

    def add(self, data: bytes, seconds: float) -> None:
        """Add a piece."""
        self.size += len(data)
        if data and not self.omitted and (kept := self._budget.take(data)):
            self.data.append(kept)
            self.times.append(seconds)


@dataclass(slots=True)
class RecordedAttempt:
    """One upstream request and its reply. `error` is the failure of the connection or of a timer, if there was one.

    `body_size` is the size of the whole request body, of which `body` was kept. `omitted` is its type if only its size
    is recorded.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    body_size: int
    began: float
    provider: str
    upstream_model: str
    reply: Pieces
    status: int | None = None
    reply_headers: Mapping[str, str] = field(default_factory=dict)
    answered: float | None = None
    error: Failure | None = None
    omitted: str = ""


class Readings:
    """A clock that keeps what it has returned, so that a reply can be made again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.values: list[float] = []

    def __call__(self) -> float:
        value = self._clock()
        self.values.append(value)
        return value


class Recording:
    """One exchange that is captured.

    Args:
        request_id: The id of the exchange, which is that of the capture.
        reason: Why it is captured: `header`, `key`, `share` or `violation`.
        limit: The bytes that may be kept of all its bodies together.
        clock: A function that returns seconds.
        secrets: The texts to mask.
        done: Called once, when the exchange has ended.
        endpoint: The path of a forwarded endpoint below `/v1`; empty for an exchange that is translated.
    """

    def __init__(
        self,
        request_id: str,
        reason: str,
        limit: int,
        clock: Callable[[], float],
        secrets: tuple[str, ...],
        done: Callable[[Recording, Receipt], None],
        endpoint: str = "",
    ) -> None:
        self.request_id = request_id
        self.reason = reason
        self.endpoint = endpoint
        self.secrets = secrets
        self._clock = clock
        self._done: Callable[[Recording, Receipt], None] | None = done
        self._budget = Budget(limit)
        self.began = clock()
        self.method = self.path = ""
        self.client_headers: list[tuple[str, str]] = []
        self.request_body: bytes | None = None
        self.request_size = 0
        self.request_omitted = ""
        """The type of the request's body, if only its size is recorded."""
        self.attempts: list[RecordedAttempt] = []
        self.reply_status: int | None = None
        self.reply_headers: list[tuple[str, str]] = []
        self.reply = Pieces(self._budget)
        self.heartbeats: list[float] = []
        self.translation: Translation | None = None
        self.readings: Readings | None = None

    @property
    def truncated(self) -> bool:
        """True if a part of a body was left out."""
        return self._budget.exceeded

    def seconds(self) -> float:
        """Return the seconds since the exchange began."""
        return self._clock() - self.began

    def requested(self, method: str, path: str, headers: Iterable[tuple[str, str]]) -> None:
        """Record the head of the client's request."""
        self.method, self.path, self.client_headers = method, path, list(headers)

    def received(self, body: bytes) -> None:
        """Record the body of the client's request."""
        self.request_size = len(body)
        self.request_body = self._budget.take(body)

    async def measured(self, pieces: AsyncGenerator[bytes, None], content_type: str) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of the client's body, of which only the type and the size are recorded."""
        self.request_omitted = content_type
        async with aclosing(pieces):
            async for piece in pieces:
                self.request_size += len(piece)
                yield piece

    def translated(self, translation: Translation) -> None:
        """Record the translation or the forwarding whose reply follows, its secrets, and the readings of its clock."""
        self.translation, self.readings = translation, None
        self.secrets += tuple(secret for secret in translation.context.secrets if secret not in self.secrets)
        if (clock := translation.context.clock) is not None:
            self.readings = translation.context.clock = Readings(clock)

    def sent(self, call: UpstreamRequest, provider: str) -> RecordedAttempt:
        """Record an upstream request. Return the attempt, to which its reply is added."""
        attempt = RecordedAttempt(
            call.url,
            call.headers,
            body=self._budget.take(call.body),
            body_size=len(call.body),
            began=self.seconds(),
            provider=provider,
            upstream_model=self.translation.upstream_model if self.translation is not None else "",
            reply=Pieces(self._budget),
        )
        self.attempts.append(attempt)
        return attempt

    def replied(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Record the head of the client's reply, with its body if it is sent at once."""
        self.reply_status, self.reply_headers = status, list(headers.items())
        self.wrote(body)

    def replied_whole(self, response: web.Response) -> None:
        """Record a reply that is not streamed."""
        body = response.body
        self.replied(response.status, response.headers, body if isinstance(body, bytes) else b"")

    def wrote(self, data: bytes) -> None:
        """Record a write to the client."""
        self.reply.add(data, self.seconds())

    def beat(self) -> None:
        """Record a heartbeat."""
        if len(self.heartbeats) < _HEARTBEATS_MAX:
            self.heartbeats.append(self.seconds())

    def close(self, receipt: Receipt) -> None:
        """End the recording, whose receipt is complete; only the first call has an effect."""
        done, self._done = self._done, None
        if done is not None:
            done(self, receipt)
