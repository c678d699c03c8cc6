"""The hash of a configuration, by which hosts that run different ones are found. No secret is hashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.provider import Secret
from dragoman_server.config.schema import Config, Server

LENGTH = 12
"""Hexadecimal digits of a hash."""
_OF_ONE_HOST = ("host", "port", "name", "workers")
"""Settings of `[server]` that may differ between the hosts of one gateway."""


def fingerprint(config: Config) -> str:
    """Return a hash that is equal for configurations that treat requests alike, on whatever host.

    Keys, passwords and the values of headers do not count, only that there are some. Paths are those relative to the
    configuration's directory.
    """
    default = Server()
    server = replace(config.server, **{name: getattr(default, name) for name in _OF_ONE_HOST})
    plain = _plain(replace(config, server=server, directory=""), f"{config.directory}/" if config.directory else "")
    return sha256(json_dumps(plain)).hexdigest()[:LENGTH]


def _plain(value: Any, directory: str) -> Any:
    """Return a value as JSON, in an order that does not depend on the process."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return _without_password(value.removeprefix(directory))
    if isinstance(value, KeyRecord):
        return _plain({**value.as_data(), "hash": value.id}, directory)
    if is_dataclass(value):
        # What is not shown in a `repr` may hold a secret.
        found = {spec.name: _plain(getattr(value, spec.name), directory) for spec in fields(value) if spec.repr}
        headers = getattr(value, "headers", None)
        return found | {"headers": sorted(headers)} if isinstance(headers, Mapping) else found
    if isinstance(value, Mapping):
        return [[str(name), _plain(each, directory)] for name, each in value.items()]
    if isinstance(value, Set):
        return sorted(str(_plain(each, directory)) for each in value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(each, directory) for each in value]
    if isinstance(value, Secret):
        return "secret"
    return type(value).__name__


def _without_password(text: str) -> str:
    """Return a text; of a URL without its user, its password and the values of its query."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
        names = "&".join(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, names, ""))
    except ValueError:
        return text.partition("://")[0]
