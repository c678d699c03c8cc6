"""The messages dialect: what `directions` needs of it."""

from __future__ import annotations

from .failure import read_failure, write_failure
from .noise import drop_noise
from .observer import MessagesObserver as Observer
from .reader import MessagesReader as Reader
from .reply import read_reply, write_reply
from .request_reader import read_request
from .request_writer import write_request
from .unseal import unseal_history
from .validator import MessagesValidator as Validator
from .wire import read_usage
from .writer import MessagesWriter as Writer

__all__ = (
    "Observer",
    "Reader",
    "Validator",
    "Writer",
    "drop_noise",
    "read_failure",
    "read_reply",
    "read_request",
    "read_usage",
    "unseal_history",
    "write_failure",
    "write_reply",
    "write_request",
)
