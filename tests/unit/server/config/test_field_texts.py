"""Docstrings of fields: every key of the configuration has one, and a start of the gateway does not read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from subprocess import check_output
from typing import Any

from dragoman_server.config.field_texts import field_texts
from dragoman_server.config.json_schema import _TEXTS, json_schema
from support.paths import ROOT


def keys(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The keys of a schema by their paths."""
    inside = node.get("items", node)
    inside = next((each for each in inside.get("anyOf", ()) if "properties" in each), inside)  # a name or a table
    named = inside.get("additionalProperties")
    children = {**inside.get("properties", {}), **({"NAME": named} if named else {})}
    for key, child in children.items():
        where = f"{path}.{key}" if path else key
        yield where, child
        yield from keys(child, where)


@dataclass
class Sample:
    """The docstring of the class."""

    first: int = 1
    """One line."""
    second: int = 2
    third: int = 3
    """Two
    lines."""

    @property
    def other(self) -> int:
        """The docstring of a method."""
        return 4


def test_docstrings_by_field() -> None:
    assert field_texts(Sample) == {"first": "One line.", "third": "Two lines."}


def test_every_key_has_a_description() -> None:
    found = dict(keys(json_schema(), ""))
    missing = [path for path, node in found.items() if not node.get("description")]
    assert missing == [], "write a docstring under the field"
    assert [path for path in _TEXTS if path not in found] == []


def test_a_description_has_the_default_of_the_field() -> None:
    found = {path: node["description"] for path, node in keys(json_schema(), "")}
    assert found["server.port"] == "Port to listen on, 0 for any free one (default 8080)."
    assert found["server.ui"].endswith("at /ui (default false).")
    assert found["routes.providers.weight"].endswith("(default 1).")
    assert found["routes.providers.priority"] == "1 is tried first (default: the place in the list)."
    assert found["capture.directory"].endswith("configuration's file.")


def test_a_description_of_a_secret_names_the_references() -> None:
    ends = {path for path, node in keys(json_schema(), "") if "or file:PATH" in node["description"]}
    providers = {f"providers.NAME.{key}" for key in ("api_key", "api_keys", "headers", "proxy")}
    others = {"server.keys", "state.encryption_key", "telemetry.headers"}
    stores = {"store.url", "store.limits_url", "state.url", "state.runs_url", "usage.url"}
    assert ends == providers | others | stores


def test_a_start_does_not_read_the_source() -> None:
    """Nor does it import what reads it."""
    code = "import sys, dragoman_server.cli.main, dragoman_server.app, dragoman_server.config.load as load\n"
    code += "load.parse_config({}, {}).check()\n"
    code += "print([name for name in sys.modules if name.endswith(('config.field_texts', 'config.json_schema'))])"
    assert check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_every_key_is_on_the_page_of_the_configuration() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    names = {path.rpartition(".")[2] for path, node in keys(json_schema(), "") if node.get("type") != "object"}
    assert [name for name in sorted(names - {"NAME", "routes"}) if f"| `{name}` |" not in page] == []
