"""The facts about Responses."""

from __future__ import annotations

from dragoman.dialects.responses.facts import FACTS
from dragoman.dialects.responses.request.read import FIELDS


def test_its_fields_are_those_that_the_reader_knows() -> None:
    assert {FACTS.conversation, FACTS.instructions} <= FIELDS
    assert FACTS.count is not None
    assert FACTS.count.fields <= FIELDS
