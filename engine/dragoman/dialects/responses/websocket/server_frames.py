"""Frames that are sent without an upstream's stream: errors, heartbeats, and the answers to warm-ups and steering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.echoed_settings import echoed_settings
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.dialects.responses.stream.keepalive import keepalive_payload
from dragoman.dialects.responses.websocket.client_frame import ClientFrame
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps, loads

_NO_USAGE: Final[Json] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def stream_id_tail(stream_id: str | None) -> bytes:
    """Return the end of each event of a lane: the event's closing brace, after the lane's id if it has one."""
    return b"}" if stream_id is None else b',"stream_id":%b}' % dumps(stream_id)


def error_frame(
    status: int, body: bytes, headers: Mapping[str, str], stream_id: str | None = None, *, code: str | None = None
) -> bytes:
    """Return the frame for an error response over HTTP: its status, body and headers. `code` replaces the body's.

    The schema has the headers in the error; Codex reads them next to it.
    """
    error: Json = dict(loads(body)["error"])
    if code is not None:
        error["code"] = code
    frame: Json = {"type": "error", "status": status, "error": error}
    if kept := {name.lower(): value for name, value in headers.items() if not name.lower().startswith("content-")}:
        error["headers"] = frame["headers"] = kept
    if stream_id is not None:
        frame["stream_id"] = stream_id
    return dumps(frame)


def heartbeat_frame(stream_id: str | None) -> bytes:
    """Return the heartbeat of a turn whose first event has not come, for clients that count events only."""
    return keepalive_payload(0)[:-1] + stream_id_tail(stream_id)


def warm_up_frames(frame: ClientFrame, request_id: str, created: int) -> tuple[str, list[bytes]]:
    """Return the response id and the events of a response without output, for a frame that requests none.

    Ids are made from `request_id`; `created` is in Unix seconds.
    """
    payload = frame.payload
    try:
        echo = echoed_settings(payload)
    except (AttributeError, KeyError, TypeError):
        echo = {}  # malformed settings are rejected when they are used
    context = ReplyContext(str(payload.get("model") or ""), created, request_id, echo=echo)
    response = ResponseObject(context, "", "", None)
    previous = frame.previous
    events = [
        ("response.created", response.started()),
        ("response.in_progress", response.started()),
        ("response.completed", response.ended("completed", [], usage=_NO_USAGE) | {"completed_at": created}),
    ]
    tail = stream_id_tail(frame.stream_id)
    frames = [
        dumps({"type": kind, "sequence_number": number, "response": state | {"previous_response_id": previous}})[:-1]
        + tail
        for number, (kind, state) in enumerate(events)
    ]
    return events[0][1]["id"], frames


def steer_failed_frame(frame: ClientFrame) -> bytes:
    """Return the answer to `response.steer`, which returns the input that was not used."""
    payload = frame.payload
    return dumps(
        {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "error": {
                "type": "invalid_request_error",
                "code": "steering_not_supported",
                "message": "this gateway cannot steer a running response: send the input with the next response.create",
            },
            "steer": {key: payload.get(key) for key in ("previous_response_id", "input")},
        }
    )
