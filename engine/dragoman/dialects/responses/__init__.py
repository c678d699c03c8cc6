"""The Responses dialect: requests, replies, streams and errors of OpenAI's Responses API.

Imports no other dialect. Start with `wire.py` for names and counts, `stream/reader.py` for the order of events.
"""

from __future__ import annotations

from dragoman.dialects.openai.error_envelope import write_failure
from dragoman.dialects.responses.errors import read_failure
from dragoman.dialects.responses.reply.read import read_reply
from dragoman.dialects.responses.reply.write import write_reply
from dragoman.dialects.responses.request.read import read_request
from dragoman.dialects.responses.request.restore_reasoning import restore_reasoning
from dragoman.dialects.responses.request.write import write_request
from dragoman.dialects.responses.stop_and_usage import read_usage
from dragoman.dialects.responses.stream.observer import ResponsesObserver as Observer
from dragoman.dialects.responses.stream.reader import ResponsesReader as Reader
from dragoman.dialects.responses.stream.validator import ResponsesValidator as Validator
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer

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
    "write_failure",
    "write_reply",
    "write_request",
)
