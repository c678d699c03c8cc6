"""Errors of Chat Completions (chat §11, mapping §10.1, §10.3).

Written errors have the envelope `{"error": {message, type, param, code}}`, which `openai/error_envelope.py` builds.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.openai.error_envelope import error_object
from dragoman.errors import Failure


def is_error_frame(payload: Json) -> bool:
    """True if a chunk, or a complete 2xx body, has a truthy `error` or is a flat error shape without `choices`."""
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
    """Returns the in-band error, which is the stream's last frame: no `[DONE]` follows it (mapping §10.3)."""
    return {"error": error_object(failure)}
