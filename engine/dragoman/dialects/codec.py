"""The readers and writers of each dialect, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect, chat, messages, responses
from dragoman.dialects.shared.stream_codec import StreamReader, StreamWriter
from dragoman.errors import Failure
from dragoman.losses import Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import Validator
from dragoman.stages.passthrough import Observer


@dataclass(frozen=True, slots=True)
class Codec:
    """All that is known of one dialect."""

    dialect: Dialect
    path: str
    """The endpoint below the vendor's base URL."""
    read_request: Callable[..., Any]
    write_request: Callable[..., Any]
    read_reply: Callable[..., Any]
    write_reply: Callable[..., Any]
    read_usage: Callable[[Any], Usage | None]
    reader: Callable[[ReplyContext], StreamReader]
    writer: Callable[[ReplyContext], StreamWriter]
    validator: Callable[[ReplyContext], Validator]
    observer: Callable[[], Observer]
    read_failure: Callable[[int, bytes, Mapping[str, str]], Failure]
    write_failure: Callable[..., tuple[int, Any]]
    model_paths: tuple[tuple[str, ...], ...]
    """Where a stream's payloads name the model."""
    restore_reasoning: Callable[[Any, str, Losses], bool] | None
    """Restore or leave out the enveloped reasoning in a request of this dialect, in place, for an upstream of the same
    dialect and of the given family; was there any? None if the dialect's clients bring no reasoning back."""
    strip_billing_line: Callable[[Any, Losses], bool] | None
    """Take what only the vendor of the dialect's best-known client reads from a request of this dialect, in place at
    the top level; was there any? None if there is no such thing."""
    prompt: tuple[str | None, str]
    """The fields of a request that hold instructions, if they stand apart, and the conversation."""
    conversation: tuple[str, ...]
    """Where a request may name its conversation."""


def _codec(
    dialect: Dialect,
    package: ModuleType,
    path: str,
    *model_paths: tuple[str, ...],
    prompt: tuple[str | None, str],
    conversation: tuple[str, ...] = ("prompt_cache_key",),
    seals: bool = False,
) -> Codec:
    return Codec(
        dialect,
        path,
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
    Dialect.CHAT: _codec(Dialect.CHAT, chat, "chat/completions", ("model",), prompt=(None, "messages")),
    Dialect.MESSAGES: _codec(
        Dialect.MESSAGES,
        messages,
        "messages",
        ("message", "model"),
        prompt=("system", "messages"),
        conversation=("metadata", "user_id"),
        seals=True,
    ),
    Dialect.RESPONSES: _codec(
        Dialect.RESPONSES,
        responses,
        "responses",
        ("response", "model"),
        prompt=("instructions", "input"),
        seals=True,
    ),
}
