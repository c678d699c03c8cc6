"""References to the environment in a configuration."""

from __future__ import annotations

import pytest

from dragoman_server.config.references import resolve_references, with_references

ENV = {"HOST": "::1", "EMPTY": "", "KEY": "secret-1", "LONGER": "secret-1-2", "SHORT": "abc"}


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("${HOST}/${PORT:-1}", "::1/1"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("$HOST {HOST}", "$HOST {HOST}"),
    ],
)
def test_references_are_resolved(text: str, resolved: str) -> None:
    problems: list[tuple[str, str]] = []
    assert resolve_references(text, ENV, "a", problems) == resolved
    assert problems == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", "the environment variable NONE is not set"),
        ("x${1}", "bad environment reference; expected ${NAME} or ${NAME:-default}"),
    ],
)
def test_a_wrong_reference_is_a_problem_at_its_path(text: str, message: str) -> None:
    problems: list[tuple[str, str]] = []
    assert resolve_references(text, ENV, "a.b", problems) is None
    assert problems == [("a.b", message)]


def test_messages_show_the_text_in_place_of_values() -> None:
    data = {"a": ["${KEY}", {"b": "${LONGER:-x}"}], "c": "${SHORT}"}
    problems = [("a", "got 'secret-1-2' and 'secret-1'"), ("c", "got 'abc'")]
    assert with_references(problems, data, ENV) == [("a", "got '${LONGER:-x}' and '${KEY}'"), ("c", "got 'abc'")]
