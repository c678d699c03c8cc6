"""The structural difference between two requests."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire import Json
from dragoman_server.endpoints.console.request_diff import EXCERPT_MAX, ROWS_MAX, request_diff

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def changes(received: Any, sent: Any, losses: list[Json] | None = None) -> dict[tuple[str | None, str | None], str]:
    return {(row["path"], row["to"]): row["change"] for row in request_diff(received, sent, losses or [])}


def loss(path: str) -> Json:
    return {"code": "code", "path": path, "done": "dropped", "meaning": "m"}


def test_equal_requests_have_no_rows() -> None:
    assert request_diff({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}, []) == []


def test_each_kind_of_change() -> None:
    received = {
        "model": "claude-x",
        "max_tokens": 500,
        "top_k": 40,
        "system": "Be brief.",
        "tools": [{"name": "w", "input_schema": SCHEMA}],
    }
    sent = {
        "model": "up",
        "max_completion_tokens": 500,
        "messages": [{"role": "system", "content": "Be brief."}],
        "tools": [{"type": "function", "function": {"name": "w", "parameters": SCHEMA}}],
    }
    assert changes(received, sent) == {
        ("model", "model"): "changed",
        ("max_tokens", "max_completion_tokens"): "renamed",
        ("top_k", None): "dropped",
        ("system", "messages[0].content"): "moved",
        ("tools[0].name", "tools[0].function.name"): "moved",
        ("tools[0].input_schema", "tools[0].function.parameters"): "moved",
        (None, "messages[0].role"): "added",
        (None, "tools[0].type"): "added",
    }


def test_a_part_that_is_dropped_or_added_is_one_row() -> None:
    assert changes({"a": {"b": {"c": 1}, "d": [2]}}, {"x": {"y": [3, {"z": 4}]}}) == {
        ("a", None): "dropped",
        (None, "x"): "added",
    }


def test_values_that_are_equal_by_chance_are_not_moved() -> None:
    assert changes({"a": True, "b": None, "c": ""}, {"x": True, "y": None, "z": ""}) == {
        ("a", None): "dropped",
        ("b", None): "dropped",
        ("c", None): "dropped",
        (None, "x"): "added",
        (None, "y"): "added",
        (None, "z"): "added",
    }


def test_a_loss_is_at_its_place() -> None:
    received = {"top_k": 40, "system": [{"type": "text", "text": "T", "cache_control": {"type": "ephemeral"}}]}
    sent = {"messages": [{"role": "system", "content": [{"type": "text", "text": "T"}]}]}
    hint = "system[0].cache_control"
    paths = ("top_k", f"{hint}.type", "nowhere")
    rows = request_diff(received, sent, [loss(path) for path in paths])
    by_loss = {each["path"]: row["path"] for row in rows for each in row["losses"]}
    assert by_loss == {
        "top_k": "top_k",
        "system[0].cache_control.type": "system[0].cache_control",
        "nowhere": "nowhere",
    }
    assert rows[-1]["change"] == "loss"


def test_rows_and_excerpts_are_bounded() -> None:
    received = {f"f{number}": "x" * 1000 + str(number) for number in range(ROWS_MAX + 50)}
    rows = request_diff(received, {}, [loss(f"f{ROWS_MAX + 20}")])
    assert len(rows) == ROWS_MAX
    assert max(len(row["before"]) for row in rows) == EXCERPT_MAX
    assert rows[0]["losses"], "rows with losses are kept first"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("ab", min_size=1, max_size=2), JSON), st.dictionaries(st.text("abc", min_size=1), JSON))
def test_only_equal_requests_have_no_difference(received: Any, sent: Any) -> None:
    rows = request_diff(received, sent, [])
    assert request_diff(received, received, []) == []
    for row in rows:
        assert (row["path"] is None) == (row["change"] == "added")
        assert (row["to"] is None) == (row["change"] == "dropped")
        if row["change"] in ("moved", "renamed"):
            assert row["before"] == row["after"]
