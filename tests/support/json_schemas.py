"""Validation of configurations by the JSON Schema that editors use."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any

from jsonschema import Draft4Validator

from dragoman_server.config.json_schema import json_schema


@cache
def _validator() -> Draft4Validator:
    schema = json_schema()
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema)


def schema_problems(data: Any) -> list[str]:
    """Return what an editor would underline in a configuration read from TOML, each with its path."""
    found = _validator().iter_errors(_as_json(data))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def _as_json(value: Any) -> Any:
    """Dates are strings to a schema."""
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
