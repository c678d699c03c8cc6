"""The dialect of Anthropic's Messages API: readers and writers of requests, whole replies, streams and errors.

It imports `canonical`, `wire`, `tools`, `reasoning`, `profiles`, `stages`, `dialects.shared` and `dialects.errors`;
`dialects.codec` imports the names below. Start with `wire.py`, then `stream/reader.py` and `request/read.py`.
"""

from __future__ import annotations

from dragoman.dialects.messages.errors import read_failure, write_failure
from dragoman.dialects.messages.reply.read import read_reply
from dragoman.dialects.messages.reply.write import write_reply
from dragoman.dialects.messages.request.drop_billing_line import strip_billing_line
from dragoman.dialects.messages.request.read import read_request
from dragoman.dialects.messages.request.restore_reasoning import restore_reasoning
from dragoman.dialects.messages.request.write import write_request
from dragoman.dialects.messages.stop_and_usage import read_usage
from dragoman.dialects.messages.stream.observer import MessagesObserver as Observer
from dragoman.dialects.messages.stream.reader import MessagesReader as Reader
from dragoman.dialects.messages.stream.validator import MessagesValidator as Validator
from dragoman.dialects.messages.stream.writer import MessagesWriter as Writer

__all__ = (
    "Observer",
    "Reader",
    "Validator",
    "Writer",
    "read_failure",
    "read_reply",
    "read_request",
    "read_usage",
    "restore_reasoning",
    "strip_billing_line",
    "write_failure",
    "write_reply",
    "write_request",
)
