from __future__ import annotations

import pytest
from google.genai import types

from dragoman.dialects import COUNT_ENDPOINTS, Dialect
from dragoman.dialects.generate.count_tokens import COUNT
from support.generate import send

STUDIO = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:countTokens"
VERTEX = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/m:countTokens"
BODY = {
    "system": "Be short.",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}


def test_a_question() -> None:
    sent = send("messages", BODY).body
    question = COUNT.question({**sent, "serviceTier": "flex"}, "gemini-3-pro", STUDIO)["generateContentRequest"]
    for name in ("models/x", "tunedModels/x"):
        assert COUNT.question(sent, name, STUDIO)["generateContentRequest"]["model"] == name
    assert question.pop("model") == "models/gemini-3-pro"
    assert question == sent


def test_a_question_for_vertex_is_flat() -> None:
    sent = send("messages", {**BODY, "tool_choice": {"type": "any"}}).body
    assert "toolConfig" in sent
    question = COUNT.question({**sent, "serviceTier": "flex"}, "gemini-3-pro", VERTEX)
    assert question == {name: value for name, value in sent.items() if name != "toolConfig"}


@pytest.mark.parametrize(
    ("answer", "count"),
    [({"totalTokens": 31}, 31), ({"totalTokens": 0}, None), ({}, None), ([], None), ({"totalTokens": "31"}, None)],
)
def test_an_answer(answer: object, count: int | None) -> None:
    assert COUNT.read(answer) == count


def test_the_answer_is_that_of_googles_types() -> None:
    assert types.CountTokensResponse.model_validate(COUNT.write(31)).total_tokens == 31
    assert COUNT_ENDPOINTS[Dialect.GENERATE] is COUNT
