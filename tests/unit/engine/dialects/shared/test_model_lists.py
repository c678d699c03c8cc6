"""Lists of models as upstreams send them: both vendors' forms, what imitators make of them, and what is no list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import Dialect
from dragoman.dialects.shared.model_lists import NAME_MAX, ListedModel, model_list_query, read_model_list


def test_openais_list() -> None:
    data = [{"id": "gpt-5", "object": "model", "created": 1_700_000_000, "owned_by": "openai"}, {"id": "o4"}]
    assert read_model_list({"object": "list", "data": data}) == (
        [ListedModel("gpt-5", 1_700_000_000), ListedModel("o4")],
        None,
    )


def test_anthropics_page_has_a_cursor_if_there_is_more() -> None:
    data = [{"type": "model", "id": "claude-x", "display_name": "Claude X", "created_at": "2026-09-21T00:00:00Z"}]
    page = {"data": data, "has_more": True, "first_id": "claude-x", "last_id": "claude-x"}
    assert read_model_list(page) == ([ListedModel("claude-x", 1_789_948_800, "Claude X")], "claude-x")
    assert read_model_list(page | {"has_more": False}).after is None
    assert read_model_list(page | {"last_id": None}).after is None


@pytest.mark.parametrize("answer", [{"data": None}, {"data": []}, []])
def test_lists_without_models(answer: object) -> None:
    assert read_model_list(answer) == ([], None)


def test_other_names_of_the_list_and_of_the_model() -> None:
    """Codex's catalogue, and others."""
    assert read_model_list({"models": [{"slug": "gpt-5.5", "display_name": "GPT", "context_window": 272_000}]}) == (
        [ListedModel("gpt-5.5", 0, "GPT", 272_000)],
        None,
    )
    assert read_model_list({"data": [{"id": "a", "slug": "b", "name": "c"}], "models": 7}).models == [ListedModel("a")]
    assert read_model_list({"models": None}).models == []


GEMINI: dict[str, object] = {
    "name": "models/gemini-x",
    "displayName": "Gemini X",
    "inputTokenLimit": 9,
    "outputTokenLimit": 7,
}


def test_a_page_of_googles_list() -> None:
    methods = ("generateContent", "countTokens"), ("embedContent",)
    entries = [{**GEMINI, "supportedGenerationMethods": [*each]} for each in methods]
    page = read_model_list({"models": entries, "nextPageToken": "p 2"})
    assert page == ([ListedModel("gemini-x", 0, "Gemini X", 9, 7)], "p 2")
    assert model_list_query(Dialect.GENERATE) == "pageSize=1000"
    assert model_list_query(Dialect.GENERATE, "p 2") == "pageSize=1000&pageToken=p%202"
    assert read_model_list({"models": [GEMINI], "nextPageToken": ""}).after is None


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"name": "publishers/google/models/gemini-x"}, "gemini-x"),
        ({"name": "tunedModels/mine"}, "tunedModels/mine"),
        ({"id": "models/file.gguf"}, "models/file.gguf"),
    ],
)
def test_only_googles_names_have_a_folder(entry: dict[str, str], name: str) -> None:
    assert read_model_list({"publisherModels": [entry]}).models == [ListedModel(name)]


@pytest.mark.parametrize("empty", [{"nextPageToken": "x"}, {"publisherModels": []}])
def test_an_empty_list_of_google(empty: dict[str, object]) -> None:
    assert read_model_list(empty).models == []


def test_a_bare_array_is_a_list() -> None:
    assert read_model_list([{"id": "a"}, {"id": "b"}]).models == [ListedModel("a"), ListedModel("b")]


@pytest.mark.parametrize("answer", [None, "x", 7, {}, {"error": {"message": "no"}}, {"data": {"id": "a"}}])
def test_what_is_no_list(answer: object) -> None:
    with pytest.raises(ValueError, match="not a list of models"):
        read_model_list(answer)


@pytest.mark.parametrize(
    "entry", ["gpt", None, {}, {"id": ""}, {"id": 7}, {"id": "a\nb"}, {"id": "x" * (NAME_MAX + 1)}]
)
def test_entries_without_a_usable_name_are_left_out(entry: object) -> None:
    assert read_model_list({"data": [entry, {"id": "good"}]}).models == [ListedModel("good")]


@pytest.mark.parametrize(
    ("fields", "created"),
    [
        ({"created": 5.9}, 5),
        ({"created": True}, 0),
        ({"created": -5}, 0),
        ({"created": 1e300}, 0),
        ({"created": float("nan")}, 0),
        ({"created_at": "1970-01-01T00:00:09"}, 9),
        ({"created_at": "yesterday"}, 0),
        ({"created_at": None}, 0),
    ],
)
def test_dates(fields: dict[str, Any], created: int) -> None:
    assert read_model_list([{"id": "m", **fields}]).models == [ListedModel("m", created)]


def test_a_long_title_is_cut_and_an_unprintable_one_left_out() -> None:
    models = read_model_list([{"id": "a", "display_name": "x" * 999}, {"id": "b", "display_name": "\x1b[31m"}]).models
    assert [len(model.title) for model in models] == [200, 0]


def test_only_messages_has_pages() -> None:
    assert model_list_query(Dialect.CHAT, "m") == model_list_query(Dialect.RESPONSES) == ""
    assert model_list_query(Dialect.MESSAGES) == "limit=1000"
    assert model_list_query(Dialect.MESSAGES, "a b&c") == "limit=1000&after_id=a%20b%26c"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["id", "data", "models", "limits", "has_more", "last_id", "created", "created_at", "display_name"]
            ),
            inner,
        )
    ),
    max_leaves=20,
)


@given(_JSON)
def test_any_json_is_a_list_or_a_value_error(answer: object) -> None:
    try:
        page = read_model_list(answer)
    except ValueError:
        return
    assert all(model.name and model.name.isprintable() for model in page.models)


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"max_model_len": 40960}, 40960),
        ({"context_length": 131072, "top_provider": {"context_length": 1}}, 131072),
        ({"context_window": 8192}, 8192),
        ({"max_input_tokens": 200_000, "max_tokens": 64_000}, 200_000),
        ({"max_context_length": 4096}, 4096),
        ({"meta": {"n_ctx": 8192, "n_ctx_train": 131072}}, 8192),
        ({"meta": {"n_ctx_train": 131072}}, 131072),
        ({"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}, 1_048_576),
        ({"limits": {"max_context_length": 8192, "max_completion_tokens": 4096}}, 8192),
        ({"limits": {"max_input_tokens": 9000, "max_output_tokens": 4096}}, 9000),
        ({"metadata": {"context_length": 163_840, "max_tokens": 16_384}}, 163_840),
        ({"model_info": {"max_input_tokens": 7000, "max_output_tokens": 4096}}, 7000),
        ({"top_provider": {"context_length": 32_768}}, 32_768),
        ({"capabilities": {"limits": {"max_context_window_tokens": 200_000, "max_prompt_tokens": 128_000}}}, 128_000),
        ({"capabilities": {"limits": {"max_context_window_tokens": 16_384}}}, 16_384),
        ({"context_size": 131_072}, 131_072),
        ({"capabilities": {"limits": [1]}, "limits": 4, "metadata": "x"}, 0),
        ({"meta": None}, 0),
        ({"max_model_len": None, "context_length": "4096"}, 0),
        ({"max_model_len": True}, 0),
        ({"max_model_len": -1}, 0),
        ({"max_model_len": 10**400}, 0),
    ],
)
def test_context_windows(fields: dict[str, Any], window: int) -> None:
    (model,) = read_model_list([{"id": "m", **fields}]).models
    assert model[:4] == ("m", 0, "", window)


@pytest.mark.parametrize(
    ("fields", "most", "limit"),
    [
        ({"max_input_tokens": 200_000, "max_tokens": 64_000}, 64_000, 64_000),
        ({"max_output_tokens": 128_000}, 128_000, 128_000),
        ({"max_completion_tokens": 32_768, "context_window": 131_072}, 32_768, 32_768),
        ({"context_length": 9, "top_provider": {"max_completion_tokens": 7}}, 7, 7),
        ({"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}, 65_536, 65_536),
        ({"capabilities": {"limits": {"max_output_tokens": 4096}}}, 4096, 4096),
        ({"limits": {"max_completion_tokens": 5000}}, 5000, 5000),
        ({"max_model_len": 32_768}, 0, 16_384),
        ({"max_model_len": 1_000_000}, 0, 64_000),
        ({"max_tokens": None, "top_provider": None}, 0, 0),
        ({"max_tokens": True, "max_output_tokens": "9"}, 0, 0),
        ({"max_tokens": 10**400}, 0, 0),
    ],
)
def test_output_limits(fields: dict[str, Any], most: int, limit: int) -> None:
    (model,) = read_model_list([{"id": "m", **fields}]).models
    assert (model.max_output, model.output_limit) == (most, limit)
