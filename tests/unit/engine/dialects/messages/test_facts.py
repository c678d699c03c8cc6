"""The facts about Messages."""

from __future__ import annotations

from dragoman.dialects.messages.facts import FACTS
from dragoman.dialects.messages.request.read import FIELDS


def test_its_fields_are_those_that_the_reader_knows() -> None:
    assert FACTS.signs.fields <= FIELDS
    assert {FACTS.conversation, FACTS.instructions, FACTS.output_cap} <= FIELDS
