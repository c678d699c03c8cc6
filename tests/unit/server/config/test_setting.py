"""Fields that are keys of the file, and their rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import pytest

from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import (
    Above,
    Each,
    Filled,
    Form,
    Members,
    Range,
    Rule,
    Words,
    checked,
    described,
    section,
    setting,
    setting_problems,
)
from dragoman_server.config.toml_reader import Table


@dataclass(frozen=True)
class Inner:
    size: int = checked(1, Range(1))
    other: float = 0.0


@dataclass(frozen=True)
class Deep:
    words: tuple[str, ...] = setting(("a",))


@dataclass(frozen=True)
class Options:
    name: str = field(metadata=described(Filled(), "text", required=True))
    kind: str = setting("one", Words(("one", "two"), "kind"))
    count: int | None = setting(None, Range(0, 9, "none"))
    inner: Inner = section(Inner)
    deep: Deep = section(Deep)
    key: str = setting("", getter="secret", shown=False)
    not_a_key: int = 7


def read(data: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    table = Table(data, "at", {"KIND": "two", "K": "canary"}, [])
    found = table.settings(Options)
    table.finish()
    return found, table.problems


def test_settings_are_read_by_their_annotations_and_rules() -> None:
    data = {"name": "n", "kind": "${KIND}", "count": 3, "inner": {"size": 2}, "deep": {"words": ["x"]}, "key": "${K}"}
    found, problems = read(data)
    assert problems == []
    options = Options(**found)
    assert options == Options("n", "two", 3, Inner(2), Deep(("x",)), "canary")
    assert "canary" not in repr(options)


def test_absent_keys_are_left_to_the_defaults() -> None:
    assert read({"name": "n"}) == ({"name": "n", "inner": Inner(), "deep": Deep()}, [])


def test_problems_of_reading() -> None:
    wrong = {"kind": "three", "count": "x", "inner": {"size": "x", "siz": 1}, "deep": {"word": 1}, "not_a_key": 1}
    assert {path for path, _ in read(wrong)[1]} == {
        "at.name",
        "at.kind",
        "at.count",
        "at.inner.size",
        "at.inner.siz",
        "at.deep.word",
        "at.not_a_key",
    }


def test_problems_of_values() -> None:
    options = Options("", "three", 10)
    assert list(setting_problems("at", options)) == [
        ("at.name", "is empty"),
        ("at.kind", 'unknown kind "three"; there are: one, two'),
        ("at.count", "expected 0 (none) to 9; got 10"),
    ]
    assert list(setting_problems("at", Options("n"))) == []
    assert list(setting_problems("at", Inner(0))) == [("at.size", "expected 1 or more; got 0")]


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (Range(), -1, "expected 0 or more; got -1"),
        (Range(), inf, "expected 0 or more; got inf"),
        (Range(), nan, "expected 0 or more; got nan"),
        (Range(), 10**400, None),
        (Range(unit="seconds"), -0.5, "expected 0 seconds or more; got -0.5"),
        (Range(0, 65535, "any free one", noun="a port"), 70_000,
         "expected a port from 0 (any free one) to 65535; got 70000"),
        (Range(1, 10**10), 10**11, "expected 1 to 10000000000; got 100000000000"),
        (Range(1, 3), 3, None),
        (Above(), 0, "expected a number above 0; got 0"),
        (Above("seconds", 60), 61.5, "expected seconds above 0, up to 60; got 61.5"),
        (Above("seconds", 60), 60, None),
        (Above("days"), inf, "expected days above 0; got inf"),
        (Above("days"), nan, "expected days above 0; got nan"),
        (Above("seconds", zero="never"), -1, "expected seconds above 0 or 0 (never); got -1"),
        (Above("seconds", zero="never"), 0, None),
        (Form(re.compile("[a-z]+"), "letters"), "a1", 'expected letters; got "a1"'),
        (Form(re.compile("[a-z]+"), "letters"), "a", None),
    ],
)  # fmt: skip
def test_messages(rule: Rule, value: Any, message: str | None) -> None:
    assert list(rule.problems("at", value)) == ([] if message is None else [("at", message)])


def test_problems_of_items_and_members() -> None:
    assert list(Each(Filled()).problems("at", ("", "a", ""))) == [("at[0]", "is empty"), ("at[2]", "is empty")]
    rule = Members(Above(), {"other": Range()})
    assert list(rule.problems("at", Inner(0, 0))) == [("at.size", "expected a number above 0; got 0")]
