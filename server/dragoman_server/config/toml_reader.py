"""Reader of TOML tables that collects all problems: a getter that fails returns None, and reading goes on.

A table records the keys that its getters read. At the end all other keys are reported as unknown, with the closest
known key as a suggestion. References to the environment and to files are resolved here; messages show the text of the
configuration, never the resolved value, which may be a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, date, datetime, time
from typing import Any
from urllib.parse import quote, unquote

from dragoman.gateway import tidy
from dragoman_server.config.config_error import Problem, join
from dragoman_server.config.file_paths import located
from dragoman_server.config.references import resolve_references
from dragoman_server.config.secret_file import PREFIX, SecretFileError, read_secret
from dragoman_server.config.value_problems import (
    KINDS,
    as_toml,
    choice_problem,
    closest,
    kind_of,
    value_problem,
    wrong_type,
)

_UNIX = "unix://"
SYNONYMS = {
    **dict.fromkeys(("api_base", "url", "endpoint", "baseurl", "base-url"), "base_url"),
    **dict.fromkeys(("key", "apikey", "api-key", "token"), "api_key"),
    **dict.fromkeys(("type", "kind", "wire_api", "api", "protocol"), "dialect"),
    **dict.fromkeys(("model_name", "name", "match", "pattern"), "model"),
    **dict.fromkeys(("upstream", "to"), "provider"),
    **dict.fromkeys(("target", "rewrite", "target_model"), "upstream_model"),
}
"""Key as other tools name it → key here, for suggestions."""
_GETTERS = {
    "str": "text",
    "str | None": "text",
    "bool": "boolean",
    "int": "integer",
    "int | None": "integer",
    "float": "number",
    "float | None": "number",
    "tuple[str, ...]": "texts",
    "tuple[str, ...] | None": "texts",
}
"""Annotation of a field → the method of `Table` that reads it, if the field names none."""


class Table:
    """One table of the file. Getters return None or an empty value for a key that is absent or invalid.

    Relative paths are in `directory`; if it is empty, they stay as they are.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        path: str,
        env: Mapping[str, str],
        problems: list[Problem],
        directory: str = "",
    ) -> None:
        self._data = data
        self._env = env
        self._known_keys: set[str] = set()
        self.path = path
        self.problems = problems
        self.directory = directory

    def at(self, key: str) -> str:
        """Return the path of a key of this table."""
        return join(self.path, key)

    def report(self, key: str, message: str) -> None:
        """Add a problem of a key."""
        self.problems.append((self.at(key), message))

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def _get(self, key: str, *kinds: type, secret: bool = False) -> Any:
        self._known_keys.add(key)
        if key not in self._data:
            return None
        value = self._data[key]
        if type(value) not in kinds:
            self.report(key, wrong_type(KINDS[kinds[0]], value, secret=secret))
            return None
        return value

    def _resolve(self, text: str, where: str) -> str | None:
        return resolve_references(text, self._env, where, self.problems)

    def _secret(self, text: str, where: str) -> str | None:
        """Return the text with references resolved, or the content of the file that it names as `file:PATH`."""
        if not text.startswith(PREFIX):
            return self._resolve(text, where)
        path = self._resolve(text.removeprefix(PREFIX), where)
        if path is None:
            return None
        file = located(path, self.directory)
        try:
            return read_secret(file)
        except SecretFileError as error:
            self.problems.append((where, str(error) if file == path else f"{error} ({file})"))
            return None

    def secret(self, key: str) -> str | None:
        """Return a string with environment references resolved; `file:PATH` stands for the content of a file."""
        value = self._get(key, str, secret=True)
        return None if value is None else self._secret(value, self.at(key))

    def bare_secret(self, key: str) -> str | None:
        """Return a secret without white space around it, or None if nothing is left."""
        return (self.secret(key) or "").strip() or None

    def named_secrets(self, key: str) -> dict[str, str]:
        """Return a table of secrets by the operator's names."""
        table = self.table(key)
        return {name: value for name in table if (value := table.secret(name)) is not None}

    def named_integers(self, key: str) -> tuple[tuple[str, int], ...]:
        """Return a table of integers by the operator's names, in pairs."""
        table = self.table(key)
        return tuple((name, value) for name in table if (value := table.integer(name)) is not None)

    def text(self, key: str, *, required: bool = False, literal: bool = False) -> str | None:
        """Return a string with environment references resolved, or with `literal` unchanged."""
        value = self._get(key, str)
        if value is None:
            if required and key not in self._data:
                self.report(key, "is required")
            return None
        return value if literal else self._resolve(value, self.at(key))

    def text_or_variable(self, key: str, variable: str) -> str | None:
        """Return a string, or the value of an environment variable if the key is absent; None for an empty one."""
        value = self.text(key)
        return (value if key in self else self._env.get(variable)) or None

    def file_path(self, key: str) -> str | None:
        """Return the path of a file or directory (`located`)."""
        value = self.text(key)
        return None if value is None else located(value, self.directory)

    def address(self, key: str) -> str | None:
        """Return a secret that is a URL. The path of `unix://PATH` is that of a file (`located`)."""
        url = self.secret(key)
        if url is None or not url.startswith(_UNIX) or "@" in url.removeprefix(_UNIX).partition("/")[0]:
            return url
        path, mark, query = url.removeprefix(_UNIX).partition("?")
        return f"{_UNIX}{quote(located(unquote(path), self.directory))}{mark}{query}"

    def texts(self, key: str, *, secret: bool = False) -> list[str] | None:
        """Return an array of strings, or None if it is absent.

        With `secret`, `file:PATH` stands for a file, and white space around a string is removed.
        """
        values = self._get(key, list, secret=secret)
        if values is None:
            return None
        out = []
        for index, value in enumerate(values):
            if type(value) is str:
                resolve = self._secret if secret else self._resolve
                resolved = resolve(value, f"{self.at(key)}[{index}]")
                if resolved is not None:
                    out.append(resolved.strip() if secret else resolved)
            else:
                self.problems.append((f"{self.at(key)}[{index}]", wrong_type(KINDS[str], value, secret=secret)))
        return out

    def boolean(self, key: str) -> bool | None:
        """Return a boolean."""
        value: bool | None = self._get(key, bool)
        return value

    def number(self, key: str) -> float | None:
        """Return a number."""
        value = self._get(key, float, int)
        return None if value is None else float(value)

    def share(self, key: str) -> float | None:
        """Return a share, from 0 to 1. A boolean is one as well: true is 1, false is 0."""
        value = self._get(key, float, int, bool)
        return None if value is None else float(value)

    def moment(self, key: str) -> float | None:
        """Return a date or a time of TOML in Unix seconds. Without an offset it is in UTC; a date is its beginning."""
        value = self._get(key, datetime, date)
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def integer(self, key: str, *, auto: int | None = None) -> int | None:
        """Return an integer, also one from an environment reference (`port = "${PORT:-8080}"`).

        If `auto` is given, the key also accepts the word `auto`, which means that number.
        """
        value = self._data.get(key)
        if value == "auto" and auto is not None:
            self._known_keys.add(key)
            return auto
        if auto is not None and type(value) is str and "${" not in value:
            self._known_keys.add(key)
            self.report(key, f'expected an integer or "auto"; got {tidy(as_toml(value))}')
            return None
        if type(value) is not str or "${" not in value:
            number: int | None = self._get(key, int)
            return number
        self._known_keys.add(key)
        resolved = self._resolve(value, self.at(key))
        if resolved is None:
            return None
        if resolved == "auto" and auto is not None:
            return auto
        if not re.fullmatch(r"[0-9]{1,18}", resolved):
            self.report(key, f"expected an integer from {value}")
            return None
        return int(resolved)

    def word(
        self, key: str, words: Iterable[str], *, required: bool = False, hints: Mapping[str, str] | None = None
    ) -> str | None:
        """Return a string that is one of `words`, which may be members of an enumeration.

        `hints` maps other words to a hint for the message.
        """
        self._known_keys.add(key)
        if key not in self._data:
            if required:
                self.report(key, f"is required: one of {', '.join(words)}")
            return None
        raw = self._data[key]
        value = self._resolve(raw, self.at(key)) if type(raw) is str else raw
        if type(raw) is str and value is None:
            return None
        if choice_problem(value, words):
            wrong = choice_problem(raw, words) or f"expected one of {', '.join(words)}"
            hint = hints.get(value.lower()) if hints and type(value) is str else None
            self.report(key, f"{wrong}: {hint}" if hint else wrong)
            return None
        return next(word for word in words if word == value)  # the member of an enumeration

    def table(self, key: str) -> Table:
        """Return a table, empty if absent. For a value that is not a table, only that is reported."""
        value = self._get(key, dict)
        problems = [] if value is None and key in self._data else self.problems
        return Table(value or {}, self.at(key), self._env, problems, self.directory)

    def tables(self, key: str) -> Iterator[Table]:
        """Yield the members of an array of tables."""
        for index, item in enumerate(self._get(key, list) or ()):
            where = f"{self.at(key)}[{index}]"
            if type(item) is dict:
                yield Table(item, where, self._env, self.problems, self.directory)
            else:
                self.problems.append((where, f"expected a table, got {kind_of(item)}"))

    def require_one(self, *keys: str) -> None:
        """Report the first of these keys if the table has none of them."""
        if not any(key in self._data for key in keys):
            self.report(keys[0], "is required")

    def texts_and_tables(self, key: str) -> Iterator[str | Table]:
        """Yield the members of an array of strings and tables."""
        for index, item in enumerate(self._get(key, list) or ()):
            where = f"{self.at(key)}[{index}]"
            if type(item) is dict:
                yield Table(item, where, self._env, self.problems, self.directory)
            elif type(item) is not str:
                self.problems.append((where, f"expected a string or a table, got {kind_of(item)}"))
            elif (resolved := self._resolve(item, where)) is not None:
                yield resolved

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, for tables whose keys are the operator's names."""
        return iter(self._data)

    def values_of(self, kind: type) -> dict[str, Any]:
        """Return the valid fields of the dataclass `kind` in this table; invalid values and unknown keys are
        reported."""
        out: dict[str, Any] = {}
        for spec in fields(kind):
            self._known_keys.add(spec.name)
            if spec.name not in self._data:
                continue
            value = self._data[spec.name]
            if wrong := value_problem(spec, value):
                self.report(spec.name, wrong)
            else:
                out[spec.name] = tuple(value) if type(value) is list else value
        self.finish()
        return out

    def values(self, key: str, kind: type) -> dict[str, Any]:
        """Return the `values_of` a table."""
        return self.table(key).values_of(kind)

    def settings(self, kind: type) -> dict[str, Any]:
        """Return the fields of the dataclass `kind` that are settings (`config.setting`), those that have a value."""
        found = {}
        for spec in fields(kind):
            if (getter := spec.metadata.get("getter")) is not None:
                read = getattr(self, getter or _GETTERS[str(spec.type)])
                if (value := read(spec.name, **spec.metadata["options"])) is not None:
                    found[spec.name] = tuple(value) if type(value) is list else value
        return found

    def section(self, key: str, kind: type) -> Any:
        """Return a table as a dataclass of settings, or of values if it has no settings."""
        return _instance(self.table(key), kind)

    def section_list(self, key: str, kind: type) -> list[Any] | None:
        """Return the members of an array of tables, each as a dataclass; None without any."""
        return [_instance(table, kind) for table in self.tables(key)] or None

    def optional_section(self, key: str, kind: type) -> Any:
        """Return a table as a dataclass of settings, or None if it is absent."""
        section = self.section(key, kind)
        return section if key in self._data else None

    def json_object(self, key: str) -> dict[str, Any] | None:
        """Return a table whose values are sent as JSON, so it may have no dates and no special numbers."""
        value: dict[str, Any] | None = self._get(key, dict)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            self.report(key, "has a value that JSON does not have")
            return None
        return value

    def sections(self, key: str, kind: type) -> dict[str, Any]:
        """Return the tables by the operator's names in a table, each as a dataclass."""
        table = self.table(key)
        return {name: table.section(name, kind) for name in table}

    def finish(self) -> None:
        """Report the keys that no getter has read."""
        for key in self._data:
            if key not in self._known_keys:
                meant = SYNONYMS.get(key.lower())
                hint = (
                    f' (did you mean "{meant}"?)'
                    if meant in self._known_keys
                    else closest(key, sorted(self._known_keys))
                )
                self.report(key, f"unknown key{hint}")


def _instance(table: Table, kind: type) -> Any:
    """Return a table as the dataclass `kind`, of settings or else of values."""
    if any("getter" in spec.metadata for spec in fields(kind)):
        found = table.settings(kind)
        table.finish()
        return kind(**found)
    return kind(**table.values_of(kind))
