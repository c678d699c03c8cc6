"""Blocks of an upstream Responses stream that ends well."""

from __future__ import annotations

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Event,
    Finish,
    Start,
)
from dragoman.reply_context import ReplyContext
from support.responses_frames import (
    Json,
    call,
    created,
    message,
    read,
    text_part,
)

HELLO = message(text_part("Hello"))
TEXT = [BlockStart(0, "text"), Delta(0, "Hello"), BlockEnd(0)]
WHOLE = call(arguments='{"a":1}')
BARE = WHOLE | {"arguments": ""}


def body(*events: Json, context: ReplyContext | None = None) -> list[Event]:
    """The events between the start and the finish, which must be a good one."""
    out = read(created(), *events, context=context)
    assert isinstance(out[0], Start)
    assert isinstance(out[-2], Finish), out
    assert isinstance(out[-1], End)
    return out[1:-2]
