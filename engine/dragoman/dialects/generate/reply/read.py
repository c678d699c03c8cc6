"""Reads a complete reply of `generateContent`: it is a stream of one chunk, and is read as one."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.reply import Reply
from dragoman.dialects.generate.stream.reader import GenerateReader
from dragoman.dialects.shared.json_fields import kind_of
from dragoman.errors import UpstreamProtocolError
from dragoman.reply_context import ReplyContext


def read_reply(body: Any, context: ReplyContext) -> Reply:
    """Return the canonical reply of an upstream's body.

    Raises `UpstreamProtocolError` for a malformed reply and one without a `finishReason`, `UpstreamStatusError` for an
    error and for a `finishReason` that reports one.
    """
    if type(body) is not dict:
        raise UpstreamProtocolError(f"expected a response (an object), got {kind_of(body)}")
    return GenerateReader(context).read_reply(body)
