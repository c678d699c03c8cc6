"""Fields of the configuration's dataclasses. Each key of the file is described once, where its field is declared:

    timeout: float = setting(0.25, Above("seconds", 10))
    '''Seconds that one call may take.'''

The name is the key, the annotation its type, and the rule states which values are valid. `Table.settings` reads such
fields, `setting_problems` checks them, and the JSON Schema is recorded while they are read. The docstring is the text
that editors show for the key; only what makes the schema and the reference pages reads it (`field_texts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, Protocol

from dragoman_server.config.config_error import Problem
from dragoman_server.config.value_problems import unknown


class Rule(Protocol):
    """Decides which values of a field are valid."""

    def problems(self, at: str, value: Any) -> Iterator[Problem]:
        """Yield the problems of a value; `at` is its path in the configuration."""
        ...


def setting(
    default: Any, rule: Rule | None = None, getter: str = "", *, shown: bool = True, hashed: bool = True, **options: Any
) -> Any:
    """Return a field that is a key of the file. If `default` is a class, the default is an instance of it.

    `rule`, `getter` and `options` are those of `described`. A field that is not `shown` is left out of the `repr`.
    """
    kind = "default_factory" if isinstance(default, type) else "default"
    given: dict[str, Any] = {kind: default, "repr": shown, "hash": None if hashed else False}
    return field(**given, metadata=described(rule, getter, **options))


def section(kind: type, rule: Rule | None = None) -> Any:
    """Return a field that is a table of the file: a dataclass that has a default for each of its own fields."""
    return setting(kind, rule, "section", kind=kind)


def described(rule: Rule | None = None, getter: str = "", **options: Any) -> dict[str, Any]:
    """Return the metadata of a field that is a key of the file.

    `getter` is the name of the method of `Table` that reads it, and `options` are its arguments. Without a name, the
    rule or else the annotation selects the method.
    """
    if isinstance(rule, Words) and not getter:
        getter, options = "word", {"words": rule.words, "hints": rule.hints, **options}
    return {"rule": rule, "getter": getter, "options": options}


def checked(default: Any, rule: Rule) -> Any:
    """Return a field of a table that is read with `Table.values_of`, which takes no references to the environment."""
    return field(default=default, metadata={"rule": rule})


def setting_problems(at: str, options: Any) -> Iterator[Problem]:
    """Yield the problems of a dataclass by the rules of its fields; `at` is its path in the configuration."""
    for spec in fields(options):
        rule, value = spec.metadata.get("rule"), getattr(options, spec.name)
        if rule is not None and value is not None:
            yield from rule.problems(f"{at}.{spec.name}", value)


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`. The words are for the message: the meaning of `least`, a unit, and a noun."""

    least: float = 0
    most: float = inf
    meaning: str = ""
    unit: str = ""
    noun: str = ""

    def __str__(self) -> str:
        start = f"{self.noun and f'{self.noun} from '}{self.least}{self.meaning and f' ({self.meaning})'}"
        return f"{start}{self.unit and f' {self.unit}'} {'or more' if self.most == inf else f'to {self.most}'}"

    def problems(self, at: str, value: float) -> Iterator[Problem]:
        """Yield a problem unless the number is in the range. Infinity never is."""
        if not (self.least <= value <= self.most and value < inf):
            yield at, f"expected {self}; got {_number(value)}"


@dataclass(frozen=True)
class Above:
    """Numbers above 0, up to `most`. With `zero`, the meaning of 0, also that."""

    unit: str = "a number"
    most: float = inf
    zero: str = ""

    def __str__(self) -> str:
        most = "" if self.most == inf else f", up to {self.most:g}"
        return f"{self.unit} above 0{most}{self.zero and f' or 0 ({self.zero})'}"

    def problems(self, at: str, value: float) -> Iterator[Problem]:
        """Yield a problem unless the number is in the range. Infinity never is."""
        if not ((0 < value <= self.most and value < inf) or (self.zero and value == 0)):
            yield at, f"expected {self}; got {_number(value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True)
class Members:
    """A dataclass whose fields follow `rule`, or that of their name in `others`."""

    rule: Rule
    others: Mapping[str, Rule] = field(default_factory=dict)

    def problems(self, at: str, value: Any) -> Iterator[Problem]:
        """Yield the problems of the fields."""
        for spec in fields(value):
            rule = self.others.get(spec.name, self.rule)
            yield from rule.problems(f"{at}.{spec.name}", getattr(value, spec.name))


@dataclass(frozen=True)
class Each:
    """A list whose items follow `rule`."""

    rule: Rule

    def problems(self, at: str, value: Any) -> Iterator[Problem]:
        """Yield the problems of the items."""
        for index, item in enumerate(value):
            yield from self.rule.problems(f"{at}[{index}]", item)


@dataclass(frozen=True)
class Words:
    """One of `words`. `noun` is for the message, `hints` are those of `Table.word`."""

    words: Iterable[str]
    noun: str = "value"
    hints: Mapping[str, str] | None = None

    def problems(self, at: str, value: str) -> Iterator[Problem]:
        """Yield a problem for another word."""
        if value not in tuple(self.words):
            yield at, unknown(self.noun, value, self.words)


@dataclass(frozen=True)
class Form:
    """A string that matches a pattern as a whole. `expected` describes it."""

    pattern: re.Pattern[str]
    expected: str

    def problems(self, at: str, value: str) -> Iterator[Problem]:
        """Yield a problem for another string."""
        if not self.pattern.fullmatch(value):
            yield at, f'expected {self.expected}; got "{value}"'


class Filled:
    """A string that is not empty."""

    def problems(self, at: str, value: str) -> Iterator[Problem]:
        """Yield a problem for an empty one."""
        if not value:
            yield at, "is empty"
