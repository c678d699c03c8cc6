"""Law: a reader makes of a server's stream what that server meant, whatever its habits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, builtin_profile
from dragoman.dialects.all_codecs import CODECS
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse_parser import Parser
from oracles.grammar import Accumulated
from support import canonical
from support.directions import upstream_streams
from support.responses_upstreams import responses_streams
from support.strategies import RESPONSES_ONLY
from support.upstreams import Upstream

STREAMS = {
    Dialect.CHAT: upstream_streams(Dialect.CHAT),
    Dialect.MESSAGES: upstream_streams(Dialect.MESSAGES),
    Dialect.RESPONSES: st.one_of(upstream_streams(Dialect.RESPONSES), responses_streams(RESPONSES_ONLY)),
}


def meaning(held: Accumulated, *, usage: bool) -> dict[str, Any]:
    """Return what no habit of a server may change."""
    return {
        "id": held.id,
        "model": held.model,
        "text": held.text,
        "reasoning": held.reasoning,
        "refusal": held.refusal,
        "calls": held.meant_calls(),
        "finish": held.finish,
        "sequence": held.sequence,
        "signatures": [proof for proof in held.signatures if proof],
        "annotations": sorted(json.dumps(annotation, sort_keys=True) for annotation in held.annotations),
        "usage": held.usage if usage else None,
        "error": held.error,
    }


def counted(upstream: Upstream) -> bool:
    """Messages always has counts, even where the events know none."""
    return canonical.check(upstream.events).usage is not None


@pytest.mark.parametrize("dialect", STREAMS, ids=str)
@given(data=st.data())
def test_a_stream_is_read_as_it_was_meant(dialect: Dialect, data: st.DataObject) -> None:
    upstream = data.draw(STREAMS[dialect])
    note(upstream.data.decode())
    profile = builtin_profile(dialect, "compatible" if upstream.notes.get("needs_last_seen") else None)
    context = ReplyContext("m", profile=profile)
    parser, reader = Parser(), CODECS[dialect].reader(context)
    events = reader.feed(parser.parse(upstream.data) + parser.finish())
    if not reader.done:
        events += reader.finish()
    found, meant = canonical.check(events), canonical.check(upstream.events)
    usage = counted(upstream)
    assert meaning(found, usage=usage) == meaning(meant, usage=usage)
