"""The bytes of a JSON object in which a value is replaced, against the object decoded, changed and encoded again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.json_edit import JsonStringRewriter

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ['"', "\\", '","model":"x"', "{"]
)
_KEYS = _TEXTS | st.sampled_from(["model", "response", "message"])
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(_KEYS, _VALUES, max_size=5)


@given(value=_OBJECTS, name=_TEXTS, plain=st.booleans(), indent=st.sampled_from([None, 1]))
def test_a_renamed_model_is_the_only_change(value: dict[str, Any], name: str, plain: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=plain, indent=indent).encode()
    expected = json.loads(data)
    if isinstance(expected.get("model"), str):
        expected["model"] = name
    inner = expected.get("response")
    if isinstance(inner, dict) and isinstance(inner.get("model"), str):
        inner["model"] = name
    edited = JsonStringRewriter(name, ("model",), ("response", "model")).apply(data)
    assert json.loads(edited) == expected
    assert list(json.loads(edited)) == list(expected)
