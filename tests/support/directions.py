"""One call for a translation in any direction, and one for a whole stream through it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from grammar import Accumulated, chat, messages
from hypothesis import strategies as st

from dragoman import CODECS, DIRECTIONS, Dialect, Direction, Knobs, Translation, direction, shipped, translate

from .upstreams import Upstream, chat_streams, messages_streams

Json = dict[str, Any]

CROSS = [row for row in DIRECTIONS.values() if not row.passthrough]
PASSTHROUGH = [row for row in DIRECTIONS.values() if row.passthrough]
DIALECTS = list(CODECS)


def ask(dialect: str, **fields: Any) -> Json:
    """A small valid request of a client dialect that asks for a stream."""
    body: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    if dialect == "messages":
        body["max_tokens"] = 1000
    else:
        body["stream_options"] = {"include_usage": True}
    return body | fields


def translated(row: Direction, *, profile: str | None = None, knobs: Knobs | None = None, **fields: Any) -> Translation:
    """A translated small request, ready for its reply."""
    body = json.dumps(ask(row.client.dialect, **fields)).encode()
    return translate(
        row,
        body,
        profile=shipped(row.upstream.dialect, profile),
        knobs=knobs or Knobs(),
        created=1_790_000_000,
        request_id="req_1",
    )


def stream_through(translation: Translation, pieces: Iterable[bytes]) -> bytes:
    """What the client gets, by the drivers' rule: nothing is read behind a stage that is done."""
    machine = translation.stream_machine()
    out = []
    for piece in pieces:
        if fed := machine.feed(piece):
            out.append(fed)
        if machine.done:
            break
    out.append(machine.finish() or b"")
    return b"".join(out)


def judge(dialect: str, data: bytes, *, refused: bool = True) -> Accumulated:
    """The strict grammar of a client's stream. Raises GrammarError."""
    if dialect == "messages":
        return messages.check(data)
    return chat.check(data, include_usage=True, refused=refused)


def upstream_streams(dialect: Dialect, *, quirks: bool = True) -> st.SearchStrategy[Upstream]:
    """Legal (and tolerated) streams of an upstream dialect."""
    return messages_streams(quirks=quirks) if dialect is Dialect.MESSAGES else chat_streams(quirks=quirks)


def profiles(row: Direction) -> st.SearchStrategy[str | None]:
    """The shipped profiles of a direction's upstream."""
    return st.sampled_from((None, "compatible"))


__all__ = ("CROSS", "DIALECTS", "PASSTHROUGH", "ask", "direction", "judge", "profiles", "stream_through", "translated")
