"""Errors of Chat Completions, read and written (chat §11, mapping §10.1, §10.3).

The envelope `{"error": {message, type, param, code}}` has all four keys always. Responses shares it and its statuses:
its own modules use `read_error_object` and `error_object`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.openai.error_envelope import error_object
from dragoman.errors import Failure


def read_failure(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """What an upstream's error answer says; also of an error body under a 2xx status. Never raises.

    The status is the upstream's; under 400 it is the one that the body's type or code tells, else 502.
    """
    return read_error_response(status, body, headers, Dialect.CHAT)


def read_error_frame(payload: Json) -> Failure:
    """What a stream's error frame says: `{"error": …}` or one of the flat shapes of other servers. Never raises."""
    return read_error_payload(payload, Dialect.CHAT)


def is_error_frame(payload: Json) -> bool:
    """Whether a chunk (or a whole 2xx body) is an error: a truthy `error`, or a flat error shape without `choices`."""
    if payload.get("error"):
        return True
    if "choices" in payload:
        return False
    return (
        payload.get("object") == "error"
        or "error_message" in payload
        or "error_type" in payload
        or bool(payload.get("detail"))
    )


def write_error_frame(failure: Failure, request_id: str | None = None) -> Json:
    """The payload of the in-band error: the last frame of the stream, no `[DONE]` after it (mapping §10.3)."""
    return {"error": error_object(failure)}
