"""Translates a captured exchange again: the client's request, and the last reply of an upstream.

With texts, the result is byte for byte what the client got, as long as the translation has not changed: profile, knobs,
limits, ids and times are those of the capture. Heartbeats are no part of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields
from typing import Any

from dragoman import Dialect, DragomanError, Failure, Knobs, Limits, Profile, Translation, translate
from dragoman.aio import StreamTimers, Timeouts, open_proxy_stream
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import DIRECTIONS, ReplyOptions
from dragoman.wire import Json
from dragoman_server.observability.captures.document import body_of, pieces_of
from dragoman_server.observability.captures.hide_texts import declared, hide_texts
from dragoman_server.observability.captures.mask_secrets import header_of, mask_secrets
from dragoman_server.observability.captures.store import Capture

_EVENT_STREAM = "text/event-stream"


class NotReplayable(ValueError):
    """The capture does not have what a replay needs. The message names the reason."""


@dataclass(slots=True)
class Replayed:
    """The result of a replay: the client's reply, and the request that would be sent upstream now.

    In both, credentials are masked as they are in captures.
    """

    status: int
    body: bytes
    upstream_body: bytes
    translation: Translation


async def replay(capture: Capture, to: Dialect | None = None) -> Replayed:
    """Translate a captured exchange again, for its client or for one of the dialect `to`.

    For another dialect the reply is translated as for a client that requested every optional part, as its request is
    not known. Raises NotReplayable, and DragomanError if the client's request is rejected.
    """
    check_translated(capture)
    facts, attempt = capture.exchange.get("replay"), _last_attempt(capture)
    if type(facts) is not dict:
        raise NotReplayable("the request was not translated")
    client, reply = capture.exchange["client"], attempt["reply"]
    same = to is None or to == facts["client"]
    if (same and client["request"]["truncated"]) or (reply is not None and reply["truncated"]):
        raise NotReplayable("it is truncated: a larger capture.exchange_bytes would have kept all of it")
    translation = _translation(capture, facts) if same else _for_other_client(facts, Dialect(to or facts["client"]))
    upstream_body = translation.body
    context = translation.context
    context.secrets = tuple("*" * length for length in facts["masks"])
    context.own_key = facts.get("own_key", "")
    context.input_estimate = context.input_estimate or facts["input_estimate"]
    # The reply may have been started before the upstream failed.
    started = client["reply"]["status"] == 200 and _is_stream(client["reply"])
    try:
        status, body, failure = await _reply(translation, attempt["error"], reply)
    except DragomanError as error:
        response = translation.error_of(error.failure)
        status, body, failure = response.status, response.body, response.failure
    if failure is not None and started:
        status, body = 200, translation.error_stream(translation.error_of(failure).failure)
    return Replayed(status, _masked(body), _masked(upstream_body), translation)


def check_translated(capture: Capture) -> None:
    """Raise NotReplayable for an exchange of a forwarded endpoint."""
    if endpoint := capture.summary.get("endpoint"):
        raise NotReplayable(f"/v1/{endpoint} is forwarded untranslated, so there is nothing to translate again")


def as_captured(capture: Capture, body: bytes) -> bytes:
    """Return a body of a replay as the capture would keep it: without texts, if it has none."""
    if capture.summary["texts"]:
        return body
    names = declared(body_of(capture.exchange["client"]["request"]))
    for attempt in capture.exchange["attempts"]:
        names |= declared(body_of(attempt["request"]))
    return bytes(hide_texts(body, names))


def captured_reply(capture: Capture) -> bytes:
    """Return what the client got, without heartbeats. Raises ValueError or KeyError for a damaged capture."""
    return body_of(capture.exchange["client"]["reply"])


def captured_upstream_request(capture: Capture) -> bytes:
    """Return the body that was sent upstream last. Raises NotReplayable without one."""
    return body_of(_last_attempt(capture)["request"])


def captured_upstream_reply(capture: Capture) -> bytes:
    """Return the body of the last upstream reply. Raises NotReplayable without one."""
    reply = _last_attempt(capture)["reply"]
    if reply is None:
        raise NotReplayable("the upstream did not reply")
    return body_of(reply)


def _masked(body: bytes) -> bytes:
    """Return the body as captures keep one. The secrets themselves are not known here; they were masked before."""
    buffer = bytearray(body)
    mask_secrets(buffer, ())
    return bytes(buffer)


def _last_attempt(capture: Capture) -> Json:
    attempts: Sequence[Json] = capture.exchange.get("attempts") or ()
    if not attempts:
        raise NotReplayable("the request was not sent upstream")
    return attempts[-1]


def _translation(capture: Capture, facts: Mapping[str, Any]) -> Translation:
    """Return the translation of the captured request."""
    return translate(
        DIRECTIONS[Dialect(facts["client"]), Dialect(facts["upstream"])],
        body_of(capture.exchange["client"]["request"]),
        upstream_model=facts["upstream_model"],
        profile=Profile(**_known(Profile, facts["profile"])),
        knobs=Knobs(**_known(Knobs, facts["knobs"])),
        limits=Limits(**_known(Limits, facts["limits"])),
        options=ReplyOptions(
            created=facts["created"],
            request_id=facts["request_id"],
            clock=_clock(facts["clock"]),
            request_usage=facts.get("request_usage", False),
        ),
    )


def _for_other_client(facts: Mapping[str, Any], client: Dialect) -> Translation:
    translation = Translation.for_reply(
        DIRECTIONS[client, Dialect(facts["upstream"])],
        facts["upstream_model"],
        profile=Profile(**_known(Profile, facts["profile"])),
        knobs=Knobs(**_known(Knobs, facts["knobs"])),
    )
    translation.stream = facts["stream"]
    context = translation.context
    context.created, context.request_id = facts["created"], facts["request_id"]
    context.limits, context.clock = Limits(**_known(Limits, facts["limits"])), _clock(facts["clock"])
    return translation


def _known(kind: type[Profile] | type[Knobs] | type[Limits], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that this version has; those that the capture lacks have their default."""
    names = {spec.name for spec in fields(kind)}
    return {n: tuple(value) if type(value) is list else value for n, value in values.items() if n in names}


def _clock(readings: Sequence[float] | None) -> Callable[[], float] | None:
    """Return a clock that returns these readings again, and then the last one."""
    if not readings:
        return None
    left: Iterator[float] = iter(readings)
    return lambda: next(left, readings[-1])


def _is_stream(reply: Json) -> bool:
    return _EVENT_STREAM in header_of(reply["headers"], "content-type")


async def _reply(translation: Translation, error: Json | None, reply: Json | None) -> tuple[int, bytes, Failure | None]:
    """Return status and body of the client's reply, as `proxy.exchange` makes them, and the failure if it is an error.

    Raises DragomanError for a failure before the reply.
    """
    failure = _failure(error)
    if reply is None:
        if failure is None:
            raise NotReplayable("the client disconnected before the upstream replied")
        raise DragomanError(failure)
    status, headers = reply["status"], dict(reply["headers"])
    if not 200 <= status < 300:
        refused = translation.error(status, b"" if failure is not None else body_of(reply), headers)
        return refused.status, refused.body, refused.failure
    translation.reply_headers(headers)  # it reads the clock, as it did then
    if not translation.stream:
        if failure is not None:
            raise DragomanError(failure)
        return status, translation.reply(body_of(reply), headers), None
    response = _CapturedResponse(pieces_of(reply, "reads"), failure)
    timers = StreamTimers(Timeouts())
    try:
        stream = await open_proxy_stream(translation, response, timers)
        async with aclosing(stream.batches):
            return 200, b"".join([data async for data in stream.batches]), None
    finally:
        timers.stop()


class _CapturedResponse:
    """An upstream's stream that is read from a capture, up to the failure in which it ended."""

    def __init__(self, pieces: Sequence[bytes], failure: Failure | None) -> None:
        self._pieces = pieces
        self._failure = failure
        self.status = 200
        self.headers: Mapping[str, str] = {}

    async def read(self, limit: int) -> bytes:
        """Return the whole body."""
        return b"".join(self._pieces)

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the reads. Raises DragomanError for the failure."""
        for data in self._pieces:
            yield data
        if self._failure is not None:
            raise DragomanError(self._failure)

    async def close(self) -> None:
        """Release nothing: there is no connection."""


def _failure(facts: Json | None) -> Failure | None:
    if facts is None:
        return None
    kinds = {"kind": FailureKind(facts["kind"]), "origin": FailureOrigin(facts["origin"])}
    return Failure(**{**facts, **kinds, "headers": {}})
