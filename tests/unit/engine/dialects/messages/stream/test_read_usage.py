"""Counts of a Messages stream: cumulative, and final with `message_delta` (mapping §9.4)."""

from __future__ import annotations

from dragoman.dialects.messages.stream.read_usage import UsageReader


def test_T31_later_counts_replace_earlier_ones_and_nulls_change_nothing() -> None:
    reader = UsageReader()
    assert reader.canonical() is None
    reader.start({"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 1})
    assert reader.is_preliminary()
    reader.update({"input_tokens": None, "output_tokens": 7})
    usage = reader.canonical()
    assert usage is not None
    assert (usage.input_total, usage.cache_read, usage.output_total) == (12, 4, 7)
    assert not reader.is_preliminary()


def test_what_is_no_object_counts_nothing() -> None:
    reader = UsageReader()
    reader.start(None)
    reader.update([1])
    assert reader.canonical() is None
    assert not reader.is_preliminary()
