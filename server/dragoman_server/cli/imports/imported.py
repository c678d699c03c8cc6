"""The result of an import: providers, routes and settings, and the settings of the origin without a counterpart."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman_server.config.config_error import ConfigError, Problem, join
from dragoman_server.config.json_schema import DIRECTIVE
from dragoman_server.config.load import parse_config

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(slots=True)
class ImportedProvider:
    """A provider as in the file. Values are texts of the configuration: keys are references to the environment."""

    dialect: str
    base_url: str
    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ImportedTarget:
    """A further provider of a route. Without a `priority`, it is used when those before it fail."""

    provider: str
    upstream_model: str | None = None
    priority: int | None = None
    weight: float | None = None


@dataclass(slots=True)
class ImportedRoute:
    """A route as in the file: to one provider, or with `further` ones to several."""

    model: str
    provider: str
    upstream_model: str | None = None
    weight: float | None = None
    further: list[ImportedTarget] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """Return the keys of the route's table."""
        if not self.further:
            names = {"model": self.model, "provider": self.provider, "upstream_model": self.upstream_model}
            return {key: value for key, value in names.items() if value is not None}
        shared = any(target.priority == 1 for target in self.further)
        first = ImportedTarget(self.provider, self.upstream_model, 1 if shared else None, self.weight)
        # A target without a priority has that of its place, which is behind those that share the first one.
        return {"model": self.model, "providers": [_target(target) for target in (first, *self.further)]}


@dataclass(slots=True)
class Imported:
    """The content of another gateway's configuration.

    `notes` explain settings that became something else, `unmatched` are the settings without a counterpart. Both are
    pairs of a path in the origin and a sentence, and hold no values, which may be keys.
    """

    origin: str
    server: dict[str, Any] = field(default_factory=dict)
    timeouts: dict[str, float] = field(default_factory=dict)
    providers: dict[str, ImportedProvider] = field(default_factory=dict)
    routes: list[ImportedRoute] = field(default_factory=list)
    knobs: dict[str, Any] = field(default_factory=dict)
    retries: dict[str, Any] = field(default_factory=dict)
    balance: str | None = None
    listed: list[str] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    unmatched: list[Problem] = field(default_factory=list)

    def note(self, path: str, text: str) -> None:
        """Add a note on what a setting became."""
        self.notes.append((path, text))

    def skip(self, path: str, why: str = "has no counterpart") -> None:
        """Add a setting without a counterpart."""
        self.unmatched.append((path, why))

    def add_provider(self, name: str, provider: ImportedProvider) -> str:
        """Add a provider, unless there is an equal one. Return its name, which is `name` or begins with it."""
        base = provider_name(name)
        number, chosen = 1, base
        while (present := self.providers.get(chosen)) is not None:
            if present == provider:
                return chosen
            number += 1
            chosen = f"{base}-{number}"
        self.providers[chosen] = provider
        return chosen

    def variables(self) -> list[str]:
        """Return the environment variables to which the file refers, in its order."""
        return list(dict.fromkeys(_VARIABLE.findall("\n".join(_lines_without_comments(self.toml())))))

    def problems(self) -> list[Problem]:
        """Return what `dragoman check` would report if all variables were set."""
        try:
            parse_config(tomllib.loads(self.toml()), dict.fromkeys(self.variables(), "http://example.com"))
        except ConfigError as error:
            return error.problems
        return []

    def toml(self) -> str:
        """Return the configuration file."""
        lines = [DIRECTIVE, f"# Imported from {self.origin}. Check it: dragoman check FILE"]
        lines += ["", "[server]", *_pairs(self.server)]
        if self.timeouts:
            lines += ["", "[server.timeouts]", *_pairs(self.timeouts)]
        if self.knobs:
            lines += ["", "[knobs]", *_pairs(self.knobs)]
        if self.retries:
            lines += ["", "[retries]", *_pairs(self.retries)]
        for name, provider in self.providers.items():
            lines += ["", f"[{join('providers', name)}]"]
            lines += _pairs({"dialect": provider.dialect, "base_url": provider.base_url})
            if provider.api_key is not None:
                lines += _pairs({"api_key": provider.api_key})
            if provider.headers:
                lines += _pairs({"headers": provider.headers})
            if provider.max_output_tokens is not None:
                lines += _pairs({"profile_flags": {"max_output_tokens": provider.max_output_tokens}})
        for route in self.routes:
            lines += ["", "[[routes]]", *_pairs(route.settings())]
            if self.balance is not None and any(target.priority for target in route.further):
                lines += _pairs({"balance": self.balance})
        if self.listed:
            lines += ["", "[models]", *_pairs({"listed": self.listed})]
        lines += _remarks("Notes:", self.notes)
        lines += _remarks("Without a counterpart here:", self.unmatched)
        return "\n".join(lines) + "\n"


def provider_name(name: str) -> str:
    """Return the name with only the characters that a provider's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "upstream"


def variable_name(*words: str) -> str:
    """Return the name of an environment variable made of the words."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words)).strip("_").upper()
    return f"_{name}" if name[:1].isdigit() else name


def exact_model(name: str) -> str:
    """Return a route's `model` that matches exactly this name, in which only `*` is a placeholder."""
    if any(mark in name for mark in "?[") or (len(name) > 2 and name[0] == name[-1] == "/"):
        return f"/{re.escape(name).replace(re.escape('*'), '(.*)')}/"
    return name


def toml_value(value: Any) -> str:
    """Return a string, number, boolean, list or table as TOML, in one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(_pairs(value))} }}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _target(target: ImportedTarget) -> dict[str, Any]:
    return {key: value for key, value in asdict(target).items() if value is not None}


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{join('', key)} = {toml_value(value)}" for key, value in values.items()]


def _remarks(title: str, remarks: list[Problem]) -> list[str]:
    if not remarks:
        return []
    return ["", f"# {title}", *(f"#   {printable(path)}: {printable(text)}" for path, text in remarks)]


def printable(text: str) -> str:
    """Return the text without characters that could end a comment's line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _lines_without_comments(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if not line.startswith("#"))
