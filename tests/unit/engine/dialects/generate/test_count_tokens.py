from __future__ import annotations

import pytest
from google.genai import types

from dragoman.dialects import COUNT_ENDPOINTS, Dialect
from dragoman.dialects.generate.count_tokens import COUNT
from support.generate import send

BODY = {
    "system": "Be short.",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}


def test_a_question() -> None:
    sent = send("messages", BODY).body
    question = COUNT.question({**sent, "serviceTier": "flex"}, "gemini-3-pro")["generateContentRequest"]
    assert COUNT.question(sent, "models/x")["generateContentRequest"]["model"] == "models/x"
    assert question.pop("model") == "models/gemini-3-pro"
    assert question == sent


@pytest.mark.parametrize(
    ("answer", "count"),
    [({"totalTokens": 31}, 31), ({"totalTokens": 0}, None), ({}, None), ([], None), ({"totalTokens": "31"}, None)],
)
def test_an_answer(answer: object, count: int | None) -> None:
    assert COUNT.read(answer) == count


def test_the_answer_is_that_of_googles_types() -> None:
    assert types.CountTokensResponse.model_validate(COUNT.write(31)).total_tokens == 31
    assert COUNT_ENDPOINTS[Dialect.GENERATE] is COUNT
