"""The readers and writers of one dialect. The package of each dialect has one, in its `codec.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.dialects.shared.stream_reader import StreamReader
from dragoman.dialects.shared.stream_writer import StreamWriter
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile
from dragoman.reply_context import ReplyContext
from dragoman.short_repr import short_repr
from dragoman.stages.grammar.checker import Grammar
from dragoman.stages.observer import Observer
from dragoman.stages.passthrough import Passthrough


@dataclass(frozen=True, slots=True)
class Codec:
    """The readers and writers of one dialect. Its facts, which need none of its code, are `dialect.facts`."""

    dialect: Dialect
    read_request: Callable[..., Any]
    """Reads a request's JSON object as a canonical `Request`."""
    write_request: Callable[..., Any]
    """Writes a canonical `Request` as a JSON object."""
    read_reply: Callable[..., Any]
    """Reads a complete reply's JSON object as a canonical `Reply`."""
    write_reply: Callable[..., Any]
    """Writes a canonical `Reply` as a JSON object."""
    note_service: Callable[[Any, Any], Usage | None]
    """Notes what a forwarded reply states about its service, in an object with an attribute `service`, and returns its
    token counts."""
    is_usual: Callable[[Any, ReplyContext], bool]
    """True if clients read a complete reply, given as its JSON object, as it was meant."""
    reader: Callable[[ReplyContext], StreamReader]
    """Makes the stage that reads frames as events."""
    writer: Callable[[ReplyContext], StreamWriter]
    """Makes the stage that writes events as frames."""
    grammar: Callable[[ReplyContext], Grammar]
    """Makes the grammar against which a written stream is checked."""
    observer: Callable[[], Observer]
    """Makes the observer of a forwarded stream."""
    write_failure: Callable[..., tuple[int, Any]]
    """Writes an error's status and JSON object."""
    model_paths: tuple[tuple[str, ...], ...]
    """The paths at which payloads of a stream name the model."""
    conversation: tuple[str, ...] = ("prompt_cache_key",)
    """The path at which a request may name its conversation."""
    restore_reasoning: Callable[[Any, Profile, Losses], bool] | None = None
    """Restores or drops the enveloped reasoning in a request of this dialect, in place, for an upstream of the same
    dialect, and drops the unsigned reasoning that its profile does not take. Returns True if there was any. None if
    clients of the dialect send none back."""
    sign_history: Callable[[Any, Losses], bool] | None = None
    """Signs the calls in a request of this dialect for upstreams that reject unsigned ones, in place at the top level.
    Returns True if there were any. None if no upstream of the dialect does."""
    strip_billing_line: Callable[[Any, Losses], bool] | None = None
    """Removes the billing line, which only the vendor of the dialect's best-known client reads, from a request of this
    dialect, in place at the top level. Returns True if there was one. None if the dialect has no such line."""
    has_agent_items: Callable[[Any], bool] | None = None
    """True if a request of this dialect, given as its JSON object, holds what upstreams without the profile flag
    `agent_messages` do not take. None if requests of the dialect never do."""
    check_end: Callable[[Any], None] | None = None
    """Raises `UpstreamStatusError` for the JSON object of a complete reply whose stop reason reports an interruption.
    None if replies of the dialect have a status instead."""
    request_usage: Callable[[bytes, Any], bytes | None] | None = None
    """Returns the body of a request for a stream, given with its JSON object, with a request for token counts; None if
    it has one or cannot have one. None if streams of the dialect always have counts."""
    several: Callable[[Any], bool] | None = None
    """True if a request of this dialect, given as its JSON object, is for several replies in one, or for calls in a
    former form. None if none is."""
    usage_remover: type[Passthrough] = Passthrough
    """The stage that forwards a stream without the counts that `request_usage` requested."""

    join_block: Callable[[Any, list[Any]], Any] | None = None
    """Returns an opaque block of a stream with what its deltas add to it. None if opaque blocks have no deltas."""
    snapshot: Callable[[bytes], bytes | None] | None = None
    """Returns the complete reply that the last frame of a stream holds, given its data; None if it holds none. None if
    frames of the dialect never do."""

    def __repr__(self) -> str:
        return short_repr(self, self.dialect)
