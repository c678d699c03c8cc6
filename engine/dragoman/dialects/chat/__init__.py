"""The chat dialect: what `directions` needs of it."""

from __future__ import annotations

from .failure import read_failure, write_failure
from .observer import ChatObserver as Observer
from .reader import ChatReader as Reader
from .reply import read_reply, write_reply
from .request_reader import read_request
from .request_writer import write_request
from .validator import ChatValidator as Validator
from .wire import read_usage
from .writer import ChatWriter as Writer

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
