"""Every key of the configuration has a description, and no other has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman_server.config.json_schema import json_schema
from dragoman_server.config.key_descriptions import DESCRIPTIONS
from support.paths import ROOT


def keys(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The keys of a schema by their paths."""
    inside = node.get("items", node)
    named = inside.get("additionalProperties")
    children = {**inside.get("properties", {}), **({"NAME": named} if named else {})}
    for key, child in children.items():
        where = f"{path}.{key}" if path else key
        yield where, child
        yield from keys(child, where)


def test_every_key_has_a_description_and_every_description_a_key() -> None:
    found = dict(keys(json_schema(), ""))
    missing = [path for path, node in found.items() if not node.get("description")]
    assert missing == [], "describe the key in config/key_descriptions.py"
    assert [path for path in DESCRIPTIONS if path not in found] == []


def test_every_key_is_on_the_page_of_the_configuration() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    names = {path.rpartition(".")[2] for path, node in keys(json_schema(), "") if node.get("type") != "object"}
    assert [name for name in sorted(names - {"NAME", "routes"}) if f"| `{name}` |" not in page] == []
