"""The responses dialect: what `directions` needs of it."""

from __future__ import annotations

from .failure import read_failure, write_failure
from .observer import ResponsesObserver as Observer
from .reader import ResponsesReader as Reader
from .reply_reader import read_reply
from .reply_writer import write_reply
from .request_reader import read_request
from .request_writer import write_request
from .unseal import unseal_history
from .validator import ResponsesValidator as Validator
from .wire import read_usage
from .writer import ResponsesWriter as Writer

__all__ = (
    "Observer",
    "Reader",
    "Validator",
    "Writer",
    "read_failure",
    "read_reply",
    "read_request",
    "read_usage",
    "unseal_history",
    "write_failure",
    "write_reply",
    "write_request",
)
