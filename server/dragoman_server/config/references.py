"""References to the environment in a configuration: `${NAME}` and `${NAME:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman_server.config.config_error import Problem

_SHORTEST = 6
_REFERENCE = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


def resolve_references(text: str, env: Mapping[str, str], where: str, problems: list[Problem]) -> str | None:
    """Return the text with `${NAME}` and `${NAME:-default}` replaced; the default also replaces an empty value.

    None for a reference that is wrong, which becomes a problem at the path `where`.
    """
    failed = False

    def value(match: re.Match[str]) -> str:
        nonlocal failed
        name, default = match[1], match[2]
        if name is None:
            problems.append((where, "bad environment reference; expected ${NAME} or ${NAME:-default}"))
        elif default is not None:
            return env.get(name) or default
        elif name in env:
            return env[name]
        else:
            problems.append((where, f"the environment variable {name} is not set"))
        failed = True
        return ""

    out = _REFERENCE.sub(value, text)
    return None if failed else out


def with_references(problems: list[Problem], data: Mapping[str, Any], env: Mapping[str, str]) -> list[Problem]:
    """Return the problems with the text of the configuration in place of values of the environment, such as keys.

    Values of a few characters stay, as they may be a part of any message.
    """
    written: dict[str, str] = {}
    values: list[Any] = [data]
    while values:
        value = values.pop()
        if isinstance(value, str):
            written |= {env.get(found[1] or "", ""): found[0] for found in _REFERENCE.finditer(value)}
        elif isinstance(value, Mapping):
            values += value.values()
        elif isinstance(value, list):
            values += value
    for known in sorted((each for each in written if len(each) >= _SHORTEST), key=len, reverse=True):
        problems = [(path, message.replace(known, written[known])) for path, message in problems]
    return problems
