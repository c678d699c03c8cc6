"""A gateway on a socket between every client dialect and every upstream dialect: what groups G, H and I are about."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from oracles.grammar import Accumulated
from regressions.dialect_bodies import Part, assistant_turn
from support.directions import Json, judge
from support.gateways import Gate
from support.samples import request

CHAT, MESSAGES, RESPONSES, GENERATE = Dialect
EVERY = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]
every_direction = pytest.mark.parametrize(("client", "upstream"), EVERY)

REASONING = "Hm… 東京?"
WORDS = "Grüße, 東京 👋🏽!"
CITY = '{"city": "Köln 👍🏽"}'
PARTS: list[Part] = [("reasoning", REASONING), ("text", WORDS), ("call", "call_a", "look", CITY)]
"""A reply whose every kind of text has characters of two, three and four bytes."""


def whole_stream(upstream: Dialect, *parts: Part) -> list[bytes]:
    """A stream of the parts as `spoken` makes it; in Responses with the numbers that a server counts."""
    frames = assistant_turn(upstream, *parts)
    if upstream is not RESPONSES:
        return frames
    return [_FIRST.sub(b'"sequence_number": %d' % number, frame, count=1) for number, frame in enumerate(frames)]


_FIRST = re.compile(rb'"sequence_number": 0')


def asked(client: Dialect, **fields: Any) -> Json:
    """A request for a stream; of Chat with the counts."""
    counted = {"include_usage": True} if client is CHAT else None
    return request(client, stream=True, stream_options=counted, **fields)


def ask(entrance: Gate, client: Dialect, *, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    """The request's reply, as a context manager."""
    return entrance.post(client, asked(client, **fields), headers=headers or {})


def received(client: Dialect, upstream: Dialect, got: bytes, sent: list[bytes]) -> Accumulated | None:
    """Return what the client makes of a stream, or None where it must be the upstream's bytes and is."""
    if client is upstream:
        assert got == b"".join(sent)
        return None
    return judge(client, got)


def holds_all(client: Dialect, upstream: Dialect, got: bytes, sent: list[bytes]) -> None:
    """The client read every part, whole."""
    if (noted := received(client, upstream, got, sent)) is not None:
        assert (noted.text, noted.reasoning, noted.error) == (WORDS, REASONING, None)
        assert [(call.name, json.loads(call.arguments)) for call in noted.calls] == [("look", json.loads(CITY))]
