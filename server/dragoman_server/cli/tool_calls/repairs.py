"""The settings that make a profile agree with its host: by the message of an error, and by what a stream has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

from dragoman import Dialect, Profile
from dragoman.gateway import DEFAULT_DIALECT
from dragoman.wire import Json, json_dumps
from dragoman_server.config.config_error import join
from dragoman_server.config.provider import Provider


@dataclass(frozen=True, slots=True)
class Repair:
    """A key of a table of the configuration, and its value."""

    table: str
    key: str
    value: str | bool | int | tuple[str, ...]

    @property
    def path(self) -> str:
        """The path of the setting."""
        return f"{self.table}.{self.key}"

    def __str__(self) -> str:
        """A line of TOML for the table."""
        return f"{self.key} = {json_dumps(self.value).decode()}"


def flag(provider: Provider, name: str, value: str | bool | int | tuple[str, ...]) -> Repair:
    """Return the repair that sets a flag of the provider's profile."""
    return Repair(join("providers", provider.name), f"profile_flags.{name}", value)


class Rule(NamedTuple):
    """An error whose message has `pattern`, for a request that has `sent`, is repaired by one of the values of a flag.

    It is the first value, or the one behind the present one, which has not helped.
    """

    pattern: str
    sent: str
    flag: str
    values: tuple[Any, ...]


_SCHEMA_WORDS: Final = ("additionalProperties", "anyOf", "oneOf", "allOf", "format", "minimum", "maximum", "pattern")
PARALLEL: Final = Rule("parallel_tool_calls", '"parallel_tool_calls"', "parallel_tool_calls", (False,))
OBFUSCATION: Final = Rule("include_obfuscation", '"include_obfuscation"', "stream_obfuscation", (False,))
_NEEDED: Final = frozenset(
    ("model", "tools", "stream", "max_tokens", "system", "instructions", *(each.facts.conversation for each in Dialect))
)
"""Top-level fields that a request cannot do without."""


def of_error(provider: Provider, message: str, sent: Json) -> Repair | None:
    """Return the repair for a request that the host rejected with `message`; None if none is known.

    `sent` is the body of the request. Only what it has is a reason for the error.
    """
    profile: Profile = provider.profile
    text = json_dumps(sent).decode()
    for rule in import_module(f"dragoman_server.cli.tool_calls.{provider.dialect}").RULES:
        if rule.sent in text and _names(message, rule.pattern):
            now = getattr(profile, rule.flag)
            left = rule.values[rule.values.index(now) + 1 :] if now in rule.values else rule.values
            if left:
                return flag(provider, rule.flag, left[0])
    for word in _SCHEMA_WORDS:
        if word in text and _names(message, word) and word not in profile.schema_refused:
            return flag(provider, "schema_refused", (*profile.schema_refused, word))
    return _without_field(provider, message, sent)


def _names(message: str, pattern: str) -> bool:
    """True if the message has the pattern as a whole word."""
    return re.search(rf"(?<![A-Za-z0-9_])(?:{pattern})(?![A-Za-z0-9_])", message) is not None


def _without_field(provider: Provider, message: str, sent: Json) -> Repair | None:
    for name in _named_fields(message, sent):
        if provider.dialect.facts.vendor == DEFAULT_DIALECT.facts.vendor:
            refused = provider.profile.refused_fields
            return None if name in refused else flag(provider, "refused_fields", (*refused, name))
        if not provider.profile.rewrite:
            return flag(provider, "rewrite", True)
        return Repair(join("providers", provider.name), "omit", (*provider.door.omit, name))
    return None


def _named_fields(message: str, sent: Json) -> Iterator[str]:
    """Yield the top-level fields of a request that the message names, the one that it names first in front."""
    found = [(at.start(), name) for name in sent if (at := re.search(rf"\b{re.escape(name)}\b", message))]
    return (name for _, name in sorted(found) if name not in _NEEDED)
