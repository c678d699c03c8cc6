"""Errors of `generateContent`: `{"error": {code, message, status, details}}`, alone or in an array of one.

`dialects.errors` reads them, with those of all dialects: it knows the words of `google.rpc.Code` and the details. A
stream may end in the bare object, without `data:` (`wire.sse_parser`). Clients of this dialect are not served, so no
error is written in its form.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.errors.fields import reports_error


def is_error(chunk: Json) -> bool:
    """True if a chunk or a reply is an error. One with content, feedback or counts is no other vendor's error."""
    if chunk.get("error"):
        return True
    return not (chunk.get("candidates") or chunk.get("promptFeedback") or chunk.get("usageMetadata")) and reports_error(
        chunk
    )
