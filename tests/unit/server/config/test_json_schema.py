"""The JSON Schema of the configuration accepts what the reader accepts, and has its keys and no others."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from dragoman.knobs import KNOBS
from dragoman.profiles.profile import PROFILE_FIELDS
from dragoman_server.cli.starter_config import STARTER
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.json_schema import DIRECTIVE, SCHEMA_FILE, json_schema, schema_text
from dragoman_server.config.load import parse_config
from support.json_schemas import schema_problems
from support.paths import TESTS

ENV = dict.fromkeys(("GATEWAY_KEY", "LOCAL_KEY", "PORT", "REDIS_URL"), "1")
ENV["HASH"] = f"sha256:ykwcg7ip:{'5e' * 16}:{'9f' * 32}"
WHOLE = """
[server]
port = "${PORT}"
workers = "auto"
keys = ["${GATEWAY_KEY}"]
[server.timeouts]
idle = 30.5
[server.limits]
tools = 10
[server.connections]
idle = 7
[knobs]
on_loss = "reject"
token_budget = 0.5
tool_prefixes = ["a=b"]
[store]
kind = "sqlite"
timeout = 1
[keys.alice]
hash = "${HASH}"
expires = 2027-01-31
daily_tokens = 5
[providers.local]
dialect = "chat"
base_url = "http://127.0.0.1:9000/v1"
headers = { "x-team" = "a" }
[providers.local.profile_flags]
efforts = ["low", "high"]
max_temperature = 1
[[routes]]
model = "*"
provider = "local"
knobs = { on_loss = "record" }
[[routes]]
model = "m-*"
providers = ["local", { provider = "local", upstream_model = "x-*", priority = 2, weight = 0.5 }]
balance = "least-busy"
attempts = 2
[retries]
wait = 5
[models]
big = "local/large"
"""


def tables(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the tables of a schema with keys of their own: `[]` for a member of an array, NAME for a name."""
    if node.get("type") == "array":
        yield from tables(node["items"], (*path, "[]"))
    if node.get("type") != "object":
        return
    named = node["additionalProperties"]
    if named is False:
        yield path
    else:
        yield from tables(named, (*path, "NAME"))
    for key, child in node["properties"].items():
        yield from tables(child, (*path, key))


TABLES = list(tables(json_schema()))


def problems(data: Any) -> list[str]:
    """The problems that the reader finds."""
    try:
        parse_config(data, ENV)
    except ConfigError as error:
        return [f"{path}: {message}" for path, message in error.problems]
    return []


@cache
def configurations() -> list[tuple[str, dict[str, Any]]]:
    """The configurations that are literal strings in a test, each with its place."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if "[providers" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "[providers" in node.value:
                try:
                    found.append((f"{path.name}:{node.lineno}", tomllib.loads(node.value)))
                except tomllib.TOMLDecodeError:
                    continue
    return found


def test_a_whole_configuration_suits_both() -> None:
    data = tomllib.loads(WHOLE)
    assert problems(data) == []
    assert schema_problems(data) == []


def test_the_tables() -> None:
    some = {
        (),
        ("server", "limits"),
        ("keys", "NAME"),
        ("providers", "NAME", "profile_flags"),
        ("routes", "[]", "knobs"),
    }
    assert some <= set(TABLES)
    assert len(TABLES) == len(set(TABLES))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: ".".join(table) or "root")
def test_an_unknown_key_is_refused_by_both(table: tuple[str, ...]) -> None:
    """Of each table, with nothing else in the configuration."""
    data: Any = {"no_such_key": 1}
    for step in reversed(table):
        data = [data] if step == "[]" else {step: data}
    assert any("unknown key" in problem for problem in problems(data))
    assert any("no_such_key" in problem for problem in schema_problems(data))


def test_what_the_reader_takes_suits_the_schema() -> None:
    """And a key that the reader does not know does not suit it, in the configurations of all tests."""
    differ = []
    for place, data in configurations():
        found, unsuited = problems(data), schema_problems(data)
        unknown = any(": unknown key" in problem for problem in found)
        if (unsuited and not found) or (unknown and not unsuited):
            differ.append((place, found, unsuited))
    assert differ == []


def test_there_are_configurations_in_the_tests() -> None:
    assert len(configurations()) > 15
    assert len([place for place, data in configurations() if not problems(data)]) > 8


@pytest.mark.parametrize(
    "change",
    [
        '[server]\nport = "eighty"',
        "[server]\nkeys = 1",
        '[knobs]\non_loss = "no"',
        "[knobs]\ntoken_budget = 7.5",
        '[knobs]\ntool_prefixes = ["ab"]',
        "[server.timeouts]\nidle = -1",
        '[providers.a]\ndialect = "openai"\nbase_url = "http://h"',
        '[providers.a]\ndialect = "chat"',
        '[providers.a]\ndialect = "chat"\nbase_url = "http://h"\nprofile = "none-such"',
        '[[routes]]\nmodel = "m"',
        '[[routes]]\nmodel = "m"\nproviders = [{ weight = 1 }]',
        '[[routes]]\nmodel = "m"\nproviders = ["a"]\nbalance = "random"',
        "[retries]\nwait = -1",
        '[keys.a]\nmodels = ["m"]',
        '[store]\nkind = "file"',
        "[models]\ndiscover = 1",
    ],
)
def test_both_refuse_wrong_values(change: str) -> None:
    data = tomllib.loads(change)
    assert problems(data)
    assert schema_problems(data)


def test_the_values_of_knobs_and_flags_are_in_it() -> None:
    properties = json_schema()["properties"]
    knobs = properties["knobs"]["properties"]
    assert list(knobs) == list(KNOBS)
    assert knobs["on_loss"]["enum"] == ["record", "reject"]
    assert knobs["on_loss"]["default"] == "record"
    provider = properties["providers"]["additionalProperties"]
    assert list(provider["properties"]["profile_flags"]["properties"]) == list(PROFILE_FIELDS)
    assert provider["required"] == ["dialect", "base_url"]


def test_the_starting_file_refers_to_it() -> None:
    assert STARTER.splitlines()[0] == DIRECTIVE == f"#:schema ./{SCHEMA_FILE}"
    assert schema_problems(tomllib.loads(STARTER)) == []
    assert json.loads(schema_text()) == json_schema()
