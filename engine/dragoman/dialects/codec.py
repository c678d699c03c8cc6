"""The codec of each dialect: its readers, writers and facts, collected from its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect, chat, messages, responses
from dragoman.dialects.chat.request.read import FIELDS as CHAT_FIELDS
from dragoman.dialects.messages.request.read import FIELDS as MESSAGES_FIELDS
from dragoman.dialects.responses.request.read import FIELDS as RESPONSES_FIELDS
from dragoman.dialects.shared.fields_of_other_dialects import REQUEST_FIELDS
from dragoman.dialects.shared.stream_base import StreamReader, StreamWriter
from dragoman.errors import Failure
from dragoman.losses import Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import Validator
from dragoman.stages.passthrough import Observer


@dataclass(frozen=True, slots=True)
class Codec:
    """The readers, writers and facts of one dialect."""

    dialect: Dialect
    path: str
    """The endpoint below the vendor's base URL."""
    read_request: Callable[..., Any]
    """Reads a request's JSON object as a canonical `Request`."""
    write_request: Callable[..., Any]
    """Writes a canonical `Request` as a JSON object."""
    read_reply: Callable[..., Any]
    """Reads a complete reply's JSON object as a canonical `Reply`."""
    write_reply: Callable[..., Any]
    """Writes a canonical `Reply` as a JSON object."""
    read_usage: Callable[[Any], Usage | None]
    """Reads the token counts of a reply."""
    reader: Callable[[ReplyContext], StreamReader]
    """Makes the stage that reads frames as events."""
    writer: Callable[[ReplyContext], StreamWriter]
    """Makes the stage that writes events as frames."""
    validator: Callable[[ReplyContext], Validator]
    """Makes the stage that encodes frames and checks them."""
    observer: Callable[[], Observer]
    """Makes the observer of a forwarded stream."""
    read_failure: Callable[[int, bytes, Mapping[str, str]], Failure]
    """Reads an upstream's error response."""
    write_failure: Callable[..., tuple[int, Any]]
    """Writes an error's status and JSON object."""
    model_paths: tuple[tuple[str, ...], ...]
    """The paths at which payloads of a stream name the model."""
    restore_reasoning: Callable[[Any, str, Losses], bool] | None
    """Restores or drops the enveloped reasoning in a request of this dialect, in place, for an upstream of the same
    dialect and of the given family. Returns True if there was any. None if clients of the dialect send none back."""
    strip_billing_line: Callable[[Any, Losses], bool] | None
    """Removes the billing line, which only the vendor of the dialect's best-known client reads, from a request of this
    dialect, in place at the top level. Returns True if there was one. None if the dialect has no such line."""
    prompt: tuple[str | None, str]
    """The fields of a request that hold the instructions, if there is one, and the conversation."""
    conversation: tuple[str, ...]
    """The path at which a request may name its conversation."""


def _codec(
    dialect: Dialect,
    package: ModuleType,
    *model_paths: tuple[str, ...],
    prompt: tuple[str | None, str],
    conversation: tuple[str, ...] = ("prompt_cache_key",),
    seals: bool = False,
) -> Codec:
    return Codec(
        dialect,
        dialect.path,
        package.read_request,
        package.write_request,
        package.read_reply,
        package.write_reply,
        package.read_usage,
        package.Reader,
        package.Writer,
        package.Validator,
        package.Observer,
        package.read_failure,
        package.write_failure,
        model_paths,
        package.restore_reasoning if seals else None,
        getattr(package, "strip_billing_line", None),
        prompt,
        conversation,
    )


CODECS: dict[Dialect, Codec] = {
    Dialect.CHAT: _codec(Dialect.CHAT, chat, ("model",), prompt=(None, "messages")),
    Dialect.MESSAGES: _codec(
        Dialect.MESSAGES,
        messages,
        ("message", "model"),
        prompt=("system", "messages"),
        conversation=("metadata", "user_id"),
        seals=True,
    ),
    Dialect.RESPONSES: _codec(
        Dialect.RESPONSES,
        responses,
        ("response", "model"),
        prompt=("instructions", "input"),
        seals=True,
    ),
}

REQUEST_FIELDS.update(
    {Dialect.CHAT: CHAT_FIELDS, Dialect.MESSAGES: MESSAGES_FIELDS, Dialect.RESPONSES: RESPONSES_FIELDS}
)
