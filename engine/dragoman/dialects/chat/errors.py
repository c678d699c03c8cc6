"""Errors of Chat Completions (chat §11, mapping §10.1, §10.3).

Written errors have the envelope `{"error": {message, type, param, code}}`, which `openai/error_envelope.py` builds.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.openai.error_envelope import error_object
from dragoman.errors import Failure


def is_error_frame(payload: Json) -> bool:
    """True if a chunk has a truthy `error`, or has no choices and one of the other forms of errors."""
    return bool(payload.get("error")) or (payload.get("choices") is None and reports_error(payload))


def write_error_frame(failure: Failure, request_id: str | None = None) -> Json:
    """Return the in-band error, which is the stream's last frame: no `[DONE]` follows it (mapping §10.3)."""
    return {"error": error_object(failure)}
