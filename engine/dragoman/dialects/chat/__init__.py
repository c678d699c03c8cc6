"""Chat Completions: its requests, replies, streams and errors.

It imports `dialects.openai`, `dialects.shared` and `dialects.errors`; `dialects.codec` imports it.
Start with `stream/reader.py`.
"""

from __future__ import annotations

from dragoman.dialects.chat.errors import read_failure
from dragoman.dialects.chat.reply.read import read_reply
from dragoman.dialects.chat.reply.write import write_reply
from dragoman.dialects.chat.request.read import read_request
from dragoman.dialects.chat.request.write import write_request
from dragoman.dialects.chat.stop_and_usage import read_usage
from dragoman.dialects.chat.stream.observer import ChatObserver as Observer
from dragoman.dialects.chat.stream.reader import ChatReader as Reader
from dragoman.dialects.chat.stream.validator import ChatValidator as Validator
from dragoman.dialects.chat.stream.writer import ChatWriter as Writer
from dragoman.dialects.openai.error_envelope import write_failure

__all__ = (
    "Observer",
    "Reader",
    "Validator",
    "Writer",
    "read_failure",
    "read_reply",
    "read_request",
    "read_usage",
    "write_failure",
    "write_reply",
    "write_request",
)
