"""The messages about values of a wrong type, and about those that are close to a right one."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.value_problems import choice_problem, unknown


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"server": {"port": "eighty"}}, 'server.port: expected an integer; got "eighty"'),
        ({"server": {"port": 8.5}}, "server.port: expected an integer; got 8.5"),
        ({"server": {"ui": "yes"}}, 'server.ui: expected a boolean; got "yes"'),
        ({"server": {"host": 5}}, "server.host: expected a string; got 5"),
        ({"server": {"host": ["x"]}}, "server.host: expected a string, got an array"),
        ({"server": {"allowed_hosts": "x"}}, 'server.allowed_hosts: expected an array; got "x"'),
        ({"server": {"allowed_hosts": [5]}}, "server.allowed_hosts[0]: expected a string; got 5"),
        ({"knobs": {"token_budget": []}}, "knobs.token_budget: expected one of"),
        ({"retries": {"attempts": "3"}}, 'retries.attempts: expected an integer; got "3"'),
        ({"server": {"keys": "topsecret"}}, "server.keys: expected an array, got a string"),
        ({"server": {"keys": [4711]}}, "server.keys[0]: expected a string, got an integer"),
        ({"providers": {"a": {"api_key": 4711}}}, "providers.a.api_key: expected a string, got an integer"),
        ({"providers": {"a": {"headers": "topsecret"}}}, "providers.a.headers: expected a table, got a string"),
        ({"providers": {"a": {"headers": {"x": 4711}}}}, "providers.a.headers.x: expected a string, got an integer"),
        ({"store": {"url": 4711}}, "store.url: expected a string, got an integer"),
        ({"server": {"port": "sk-topsecret0123456789abcdef"}}, 'server.port: expected an integer; got "'),
    ],
)
def test_a_wrong_type_is_shown_with_its_value_unless_it_may_be_a_secret(data: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(data, {})
    assert any(line.startswith(expected) for line in str(caught.value).splitlines()), str(caught.value)
    assert "topsecret" not in str(caught.value)
    assert "4711" not in str(caught.value)


def test_a_word_that_is_close_to_a_right_one_is_named() -> None:
    assert unknown("provider", "locla", ["local"]) == (
        'unknown provider "locla"; there are: local (did you mean "local"?)'
    )
    assert unknown("provider", "local", []) == 'unknown provider "local"; there is no provider'
    assert choice_problem("warn", ["warn", "reject"]) is None
    assert choice_problem("rejct", ["warn", "reject"]) == (
        'expected one of warn, reject; got "rejct" (did you mean "reject"?)'
    )
    assert choice_problem(True, ["on", "off"]) == 'expected one of on, off; got true (did you mean "on"?)'
