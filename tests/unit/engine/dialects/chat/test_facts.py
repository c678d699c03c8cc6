"""The facts about Chat Completions."""

from __future__ import annotations

from dragoman.dialects.chat.facts import FACTS
from dragoman.dialects.chat.request.read import FIELDS


def test_its_fields_are_those_that_the_reader_knows() -> None:
    assert FACTS.signs.fields <= FIELDS
    assert FACTS.conversation in FIELDS
