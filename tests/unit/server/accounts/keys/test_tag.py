"""The texts that may be a tag."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.keys.tag import is_tag


@pytest.mark.parametrize("text", ["a", "Team-7/web:2027@x.y_z+1", "x" * 64])
def test_words_are_tags(text: str) -> None:
    assert is_tag(text)


@pytest.mark.parametrize("text", ["", "a b", "a\n", "x" * 65, "a,b", "Grüße", "=1", '"', "\udcff"])
def test_other_texts_are_not(text: str) -> None:
    assert not is_tag(text)
