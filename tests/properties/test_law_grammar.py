"""Law: whatever an upstream sends, the client gets a stream of its own dialect that ends, and ends honestly."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Direction
from grammar import GrammarError, chat, messages, sse
from support.directions import CROSS, PASSTHROUGH, judge, profiles, stream_through, translated, upstream_streams
from support.mutations import mutated_streams
from support.strategies import splits


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_legal_streams_become_grammatical_streams_and_end_cleanly(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    profile = "compatible" if upstream.notes.get("needs_last_seen") else data.draw(profiles(row))
    out = stream_through(translated(row, profile=profile), data.draw(splits(upstream.data)))
    note(out.decode())
    assert judge(row.client.dialect, out).error is None


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_mutated_streams_become_grammatical_streams_or_end_in_an_error(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    broken = data.draw(mutated_streams(upstream.data))
    note(repr(broken))
    translation = translated(row, profile=data.draw(profiles(row)))
    out = stream_through(translation, data.draw(splits(broken)))
    note(out.decode())
    result = judge(row.client.dialect, out)
    # The engine knows how it ended what it ended.
    assert (translation.context.failure is None) is (result.error is None)
