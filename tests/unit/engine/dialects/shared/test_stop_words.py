"""The table of the vendors' stop reasons, and what counts as shown. The kinds are in tests/regressions."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import StopReason
from dragoman.canonical.parts import Reasoning, Refusal, Text
from dragoman.dialects.shared.stop_words import check_shown, is_shown, read_stop_word
from dragoman.errors import UpstreamProtocolError, UpstreamStatusError


def test_a_word_is_read_without_case_separators_and_prefix() -> None:
    for word in ("content_filter", "CONTENT-FILTER", "contentFilter", "FINISH_REASON_CONTENT_FILTER"):
        assert read_stop_word(word, "finish_reason") is StopReason.FILTERED
    assert read_stop_word("", "finish_reason") is read_stop_word("_", "finish_reason") is None
    with pytest.raises(UpstreamStatusError, match="finish_reason 'Time-Out'") as caught:
        read_stop_word("Time-Out", "finish_reason")
    assert caught.value.failure.status == 504


def test_reasoning_and_empty_texts_show_nothing() -> None:
    assert not is_shown([])
    assert not is_shown([Reasoning("t", (), "chat"), Text("", ())])
    assert is_shown([Text("Hi", ())])
    assert is_shown([Refusal("No", ())])


def test_a_reply_that_shows_nothing_names_its_word() -> None:
    check_shown(None, "finish_reason", shown=True)
    with pytest.raises(UpstreamProtocolError, match="with no finish_reason"):
        check_shown(None, "finish_reason", shown=False)
    with pytest.raises(UpstreamProtocolError, match="with the unknown finish_reason 'novel'"):
        check_shown("novel", "finish_reason", shown=False)
