"""The error for an invalid configuration."""

from __future__ import annotations

import pytest

from dragoman_server.config.config_error import ConfigError, join


def test_one_error_has_all_problems() -> None:
    error = ConfigError.of([("", "has no provider"), ("server.port", "is required")])
    assert str(error) == "has no provider\nserver.port: is required"
    assert repr(error) == "<ConfigError 2 problems>"
    assert (error.problems[1], error.file) == (("server.port", "is required"), None)


@pytest.mark.parametrize(
    ("path", "key", "joined"),
    [("", "a", "a"), ("a", "b-1", "a.b-1"), ("a", "b.c", 'a."b.c"'), ("a", '\\"', 'a."\\\\\\""'), ("a", "", 'a.""')],
)
def test_a_path_is_quoted_as_in_toml(path: str, key: str, joined: str) -> None:
    assert join(path, key) == joined
