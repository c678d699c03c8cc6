"""`GET /v1/models` in both dialects: every model is on exactly one page, whichever way a client goes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ClientRequestError
from dragoman.gateway import ModelSizes
from dragoman_server.endpoints.models import anthropic_models, openai_models
from dragoman_server.routing.model_names import KnownModel

MODELS = [KnownModel(f"m{number}", "up") for number in range(5)]


def names(models: list[KnownModel], query: Mapping[str, str]) -> tuple[list[str], bool]:
    page = anthropic_models(models, query)
    listed = [model["id"] for model in page["data"]]
    assert (page["first_id"], page["last_id"]) == ((listed[0], listed[-1]) if listed else (None, None))
    return listed, page["has_more"]


def test_what_a_model_is_in_both_forms() -> None:
    models = [KnownModel("a", "up", 1_789_948_800, "Model A"), KnownModel("b", "up")]
    assert openai_models(models)["data"] == [
        {"id": "a", "object": "model", "created": 1_789_948_800, "owned_by": "up"},
        {"id": "b", "object": "model", "created": 0, "owned_by": "up"},
    ]
    first, second = anthropic_models(models, {})["data"]
    assert (first["display_name"], first["created_at"]) == ("Model A", "2026-09-21T00:00:00Z")
    assert (second["display_name"], second["created_at"]) == ("b", "1970-01-01T00:00:00Z")


def test_the_sizes_that_are_known_have_the_names_of_each_form() -> None:
    models = [KnownModel("a", "up", sizes=ModelSizes(200_000, 64_000)), KnownModel("b", "up", sizes=ModelSizes(4096))]
    first, second = openai_models(models)["data"]
    assert (first["context_window"], first["max_output_tokens"]) == (200_000, 64_000)
    assert second == {"id": "b", "object": "model", "created": 0, "owned_by": "up", "context_window": 4096}
    first, second = anthropic_models(models, {})["data"]
    assert (first["max_input_tokens"], first["max_tokens"]) == (200_000, 64_000)
    assert second["max_input_tokens"] == 4096
    assert "max_tokens" not in second


@pytest.mark.parametrize(
    ("query", "page", "more"),
    [
        ({}, ["m0", "m1", "m2", "m3", "m4"], False),
        ({"limit": "2"}, ["m0", "m1"], True),
        ({"limit": "5"}, ["m0", "m1", "m2", "m3", "m4"], False),
        ({"limit": "2", "after_id": "m1"}, ["m2", "m3"], True),
        ({"limit": "2", "after_id": "m2"}, ["m3", "m4"], False),
        ({"after_id": "m4"}, [], False),
        ({"limit": "2", "before_id": "m4"}, ["m2", "m3"], True),
        ({"limit": "2", "before_id": "m2"}, ["m0", "m1"], False),
        ({"before_id": "m0"}, [], False),
        ({"limit": "1", "after_id": "m0", "before_id": "m4"}, ["m3"], True),
    ],
)
def test_pages(query: dict[str, str], page: list[str], more: bool) -> None:
    assert names(MODELS, query) == (page, more)


@given(st.integers(0, 12), st.integers(1, 13), st.booleans())
def test_a_walk_over_the_pages_finds_each_model_once(count: int, limit: int, backwards: bool) -> None:
    models = [KnownModel(f"m{number}", "up") for number in range(count)]
    everything = [model.name for model in models]
    found: list[str] = []
    cursor, more = {}, True
    if backwards and models:
        cursor, found = {"before_id": everything[-1]}, everything[-1:]
    while more:
        page, more = names(models, {"limit": str(limit), **cursor})
        found = page + found if backwards else found + page
        if more:
            cursor = {"before_id": page[0]} if backwards else {"after_id": page[-1]}
        if backwards and not models:
            break
    assert found == everything


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": "0"}, "limit: expected a number from 1 to 1000; got '0'"),
        ({"limit": "1001"}, "limit: expected"),
        ({"limit": "-1"}, "limit: expected"),
        ({"limit": ""}, "limit: expected"),
        ({"limit": "²"}, "limit: expected"),
        ({"after_id": "nope"}, "after_id: there is no model 'nope' in the list"),
        ({"before_id": ""}, "before_id: there is no model"),
    ],
)
def test_wrong_queries(query: dict[str, str], message: str) -> None:
    with pytest.raises(ClientRequestError, match=message):
        anthropic_models(MODELS, query)
