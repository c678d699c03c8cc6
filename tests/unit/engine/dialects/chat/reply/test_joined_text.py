"""The texts of a whole Chat reply as one."""

from __future__ import annotations

from dragoman.dialects.chat.reply.joined_text import JoinedText


def test_adjacent_texts_join_and_parted_ones_get_a_blank_line() -> None:
    text = JoinedText()
    text.gap()
    assert [text.add("one"), text.add(" two")] == [0, 3]
    text.gap()
    text.gap()
    assert text.add("three") == 9
    assert str(text) == "one two\n\nthree"
