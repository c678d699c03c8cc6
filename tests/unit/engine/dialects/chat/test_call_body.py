"""The kind of a tool call, where a server sends the members of both kinds."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.chat.call_body import call_body
from dragoman.errors import UpstreamProtocolError

FUNCTION, CUSTOM = {"name": "f", "arguments": "{}"}, {"name": "c", "input": "x"}
EMPTY: list[Any] = [None, {}, "", [], {"name": "", "input": None}, {"name": None}]


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": ""}, {"type": "function"}])
def test_an_empty_custom_member_does_not_make_a_function_call_custom(empty: Any, kind: dict[str, Any]) -> None:
    assert call_body({**kind, "function": FUNCTION, "custom": empty}) == (False, FUNCTION)


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": ""}, {"type": "custom"}])
def test_an_empty_function_member_does_not_make_a_custom_call_a_function(empty: Any, kind: dict[str, Any]) -> None:
    assert call_body({**kind, "function": empty, "custom": CUSTOM}) == (True, CUSTOM)


def test_the_type_decides_between_two_that_are_not_empty() -> None:
    assert call_body({"type": "function", "function": FUNCTION, "custom": CUSTOM}) == (False, FUNCTION)
    assert call_body({"type": "custom", "function": FUNCTION, "custom": CUSTOM}) == (True, CUSTOM)


def test_a_call_without_either_is_empty() -> None:
    assert call_body({"type": "function"}) == (False, {})


def test_a_call_of_another_type_is_an_error() -> None:
    with pytest.raises(UpstreamProtocolError, match="mcp"):
        call_body({"type": "mcp", "function": FUNCTION})
