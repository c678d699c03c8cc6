"""Captures made without sockets: a request, its translation, and an upstream's reply in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman import Dialect, Failure, translate
from dragoman.aio import Timeouts, UpstreamRequest
from dragoman.gateway import DIRECTIONS, ReplyOptions
from dragoman.wire import json_loads
from dragoman_server.observability.captures.document import CaptureDocument
from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.captures.store import Capture
from dragoman_server.receipt import Receipt
from support.samples import request

STREAM = {"content-type": "text/event-stream"}
JSON_TYPE = {"content-type": "application/json"}


def recording(limit: int = 1_000_000, secrets: tuple[str, ...] = ()) -> Recording:
    """A new recording; a second passes each time that its clock is read."""
    times = iter(range(1_000_000))
    return Recording("req_1", "share", limit, lambda: float(next(times)), secrets, lambda *_: None)


def recorded(
    client: Dialect,
    upstream: Dialect,
    pieces: Iterable[bytes] | None,
    *,
    status: int = 200,
    headers: Mapping[str, str] = STREAM,
    error: Failure | None = None,
    stream: bool = True,
    limit: int = 1_000_000,
    secrets: tuple[str, ...] = (),
    **fields: Any,
) -> Recording:
    """The recording of an exchange. `pieces` are the upstream's reply, None if there was none."""
    made = recording(limit, secrets)
    body = json.dumps(request(client, stream=stream, **fields)).encode()
    made.requested("POST", "/v1/x", [("content-type", "application/json")])
    made.received(body)
    translation = translate(
        *(DIRECTIONS[client, upstream], body),
        upstream_model="up-m",
        options=ReplyOptions(request_id="req_1", created=7, clock=lambda: 9.0),
    )
    made.translated(translation)
    call = UpstreamRequest("http://up/v1", {"x-api-key": "k"}, translation.body, stream, Timeouts())
    attempt = made.sent(call, "up")
    attempt.error = error
    if pieces is not None:
        attempt.status, attempt.reply_headers, attempt.answered = status, headers, made.seconds()
        for piece in pieces:
            attempt.reply.add(piece, made.seconds())
    made.replied(200, STREAM if stream else JSON_TYPE)
    return made


def capture_of(made: Recording, *, texts: bool = True, ended: str = "completed") -> Capture:
    """The capture of a recording, as it is read from its file."""
    receipt = Receipt("req_1", Dialect.CHAT, 7, model="m")
    receipt.complete(ended, 200)
    facts = {
        "created": 7,
        "client": "chat",
        "upstream": "chat",
        "model": "m",
        "status": 200,
        "ended": ended,
        "key": None,
    }
    lines = CaptureDocument(made, facts, json_loads(receipt.json()), texts=texts).lines().split(b"\n")
    return Capture(json_loads(lines[0]), json_loads(lines[1]))
