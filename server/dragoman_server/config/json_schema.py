"""JSON Schema of the configuration file, for editors: `dragoman schema`, docs/reference/dragoman.schema.json.

The schema is recorded: the reader of the configuration (`load.read_tables`) runs on a table that notes which keys are
read, and as what. So the schema has the keys that the reader has, and no others.

It uses keywords of Draft 4 only, which is what Taplo supports (Even Better TOML in VS Code). It checks less than
`dragoman check`: names that refer to other tables, and most ranges, are left to the reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from dragoman.gateway import EFFORTS
from dragoman_server.config.config_error import join
from dragoman_server.config.field_texts import field_texts
from dragoman_server.config.load import read_tables
from dragoman_server.config.schema import Config
from dragoman_server.config.toml_reader import Table

SCHEMA_FILE = "dragoman.schema.json"
"""Name of the schema's file, next to the configuration that refers to it."""
DIRECTIVE = f"#:schema ./{SCHEMA_FILE}"
"""First line of a configuration file, by which Taplo finds the schema; the path is relative to that file."""
ANY_NAME = "NAME"
"""Stands for the operator's names in tables such as `[providers.NAME]`."""

Node = dict[str, Any]
_SECRET = "Write ${VARIABLE} for a variable of the environment, or file:PATH for the content of a file."
_TEXTS = {
    "telemetry.headers.NAME": "Value of the header.",
    "prices.NAME.tiers.NAME": "Prices of a tier or a speed, such as flex, priority, batch or fast.",
    "prices": "Prices by the upstream's model, in any currency.",
    "prices.file": "A file with further prices, for models without a price here; `dragoman prices import` writes it.",
    "prices.NAME": "Prices per million tokens of a model; `*` and `?` match.",
    "keys.NAME": "A key of a client; `dragoman keys add NAME --toml` prints the table.",
    "providers.NAME": "An upstream: its API, address and key.",
    "providers.NAME.profile_flags": "Single flags of the profile.",
    "providers.NAME.headers.NAME": "Value of the header.",
    "providers.NAME.prices.NAME.tiers.NAME": "Prices of a tier or a speed, such as flex, priority, batch or fast.",
    "providers.NAME.prices.NAME": "Prices per million tokens of a model; `*` and `?` match.",
    "routes.providers": "Several providers in place of provider, tried in this order: names or tables.",
    "models.listed": "Additional names for GET /v1/models.",
    "models.context_windows.NAME": "The context window of these models in tokens.",
    "state.compaction.context_windows.NAME": "The context window of these models in tokens.",
}
"""Paths of the keys that are no field of a dataclass → their texts, with NAME for the operator's names."""
_REFERENCE: Node = {"type": "string", "pattern": r"\$\{"}


def json_schema() -> Node:
    """Return the schema."""
    absent, present = _RecordingTable("", present=False), _RecordingTable("", present=True)
    for root in (absent, present):
        root.add_texts(Config)
        read_tables(root)
    title = {"$schema": "http://json-schema.org/draft-04/schema#", "title": "Configuration of a Dragoman gateway"}
    return title | _merged(absent.node, present.node)


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _merged(one: Node, other: Node) -> Node:
    """Return the schema of two recordings: with the keys of both, of which those are required that both require."""
    out = {**other, **one}
    if "required" in out:
        required = [key for key in one.get("required", ()) if key in other.get("required", ())]
        out.pop("required")
        out |= {"required": required} if required else {}
    for key in ("items", "additionalProperties"):
        if isinstance(one.get(key), dict) and isinstance(other.get(key), dict):
            out[key] = _merged(one[key], other[key])
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    if properties := {key: _merged(mine.get(key, node), node) for key, node in theirs.items()}:
        out["properties"] = {**mine, **properties}
    return out


class _RecordingTable(Table):
    """An empty table that records the keys that are read. All getters return what they return for an absent key.

    `present` is the answer to whether the table has a key, on which it may depend which other keys are required.
    """

    def __init__(self, path: str, *, present: bool) -> None:
        super().__init__({}, path, {}, [])
        self._present = present
        self._any_name = False
        self._texts: dict[str, str] = {}
        self.node: Node = {"type": "object", "properties": {}, "additionalProperties": False}

    def _record(self, key: str, node: Node, *, required: bool = False, secret: bool = False) -> None:
        # In place: the node of a table is filled after it was recorded.
        if text := _TEXTS.get(self.at(key)) or self._texts.get(key):
            node["description"] = f"{text} {_SECRET}" if secret else text
        if self._any_name and key == ANY_NAME:
            self.node["additionalProperties"] = node
            return
        self.node["properties"][key] = node
        if required:
            self.node.setdefault("required", []).append(key)

    def __contains__(self, key: str) -> bool:
        return self._present

    def __iter__(self) -> Iterator[str]:
        self._any_name = True
        return iter([ANY_NAME])

    def text(self, key: str, *, required: bool = False, literal: bool = False) -> str | None:
        self._record(key, {"type": "string"}, required=required)
        return None

    def secret(self, key: str) -> str | None:
        self._record(key, {"type": "string"}, secret=not self._any_name)
        return None

    def named_secrets(self, key: str) -> dict[str, str]:
        found = super().named_secrets(key)
        self._record(key, self.node["properties"][key], secret=True)
        return found

    def texts(self, key: str, *, secret: bool = False) -> list[str] | None:
        self._record(key, {"type": "array", "items": {"type": "string"}}, secret=secret)
        return None

    def boolean(self, key: str) -> bool | None:
        self._record(key, {"type": "boolean"})
        return None

    def number(self, key: str) -> float | None:
        self._record(key, {"type": "number"})
        return None

    def share(self, key: str) -> float | None:
        self._record(key, {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "boolean"}]})
        return None

    def moment(self, key: str) -> float | None:
        # Editors pass dates of TOML to the schema as strings.
        self._record(key, {"type": "string"})
        return None

    def integer(self, key: str, *, auto: int | None = None) -> int | None:
        words = [{"enum": ["auto"]}] if auto is not None else []
        self._record(key, {"anyOf": [{"type": "integer"}, *words, _REFERENCE]})
        return None

    def word(
        self, key: str, words: Iterable[str], *, required: bool = False, hints: Mapping[str, str] | None = None
    ) -> str | None:
        choices = [str(word) for word in words]
        self._record(key, {"anyOf": [{"enum": choices}, _REFERENCE]}, required=required)
        return None

    def table(self, key: str) -> Table:
        child = _RecordingTable(join(self.path, key), present=self._present)
        self._record(key, child.node)
        return child

    def json_object(self, key: str) -> dict[str, Any] | None:
        self._record(key, {"type": "object", "properties": {}, "additionalProperties": {}})
        return None

    def tables(self, key: str) -> Iterator[Table]:
        child = _RecordingTable(join(self.path, key), present=self._present)
        self._record(key, {"type": "array", "items": child.node})
        yield child

    def require_one(self, *keys: str) -> None:
        self.node["anyOf"] = [{"required": [key]} for key in keys]

    def texts_and_tables(self, key: str) -> Iterator[str | Table]:
        child = _RecordingTable(join(self.path, key), present=self._present)
        self._record(key, {"type": "array", "items": {"anyOf": [{"type": "string"}, child.node]}})
        yield child

    def settings(self, kind: type) -> dict[str, Any]:
        self.add_texts(kind)
        return super().settings(kind)

    def values_of(self, kind: type) -> dict[str, Any]:
        self.add_texts(kind)
        for spec in fields(kind):
            self._record(spec.name, _field_node(spec))
        return {}

    def add_texts(self, kind: type) -> None:
        """Add the texts of the dataclass `kind` to the keys that are read from now on."""
        texts = field_texts(kind)
        settings = [spec for spec in fields(kind) if "getter" in spec.metadata]
        self._texts |= texts | {spec.name: _with_default(texts[spec.name], spec.default) for spec in settings}


def _field_node(spec: Field[Any]) -> Node:
    """Return the schema of a dataclass field, by the rules of `value_problems.value_problem`."""
    words = [word for word in spec.metadata.get("values") or () if isinstance(word, str)]
    kind: type = type(spec.default)
    node: Node
    if "number" in spec.metadata:
        number, least, most = spec.metadata["number"]
        range_ = {"type": "integer" if number is int else "number", "minimum": least, "maximum": most}
        node = {"anyOf": [{"enum": words}, range_]}
    elif words:
        node = {"enum": words}
    elif kind is tuple:
        items = spec.metadata.get("items")
        item: Node = {"type": "string", "pattern": f"^(?:{items})$"} if items else {"enum": [str(e) for e in EFFORTS]}
        node = {"type": "array", "items": item}
    elif kind is bool:
        node = {"type": "boolean"}
    elif kind in (int, float):
        node = {"type": "integer" if kind is int else "number", "minimum": 0}
    else:
        node = {"type": "string"}
    if spec.default is not MISSING:
        node["default"] = list(spec.default) if kind is tuple else spec.default
    return node


def _with_default(text: str, default: Any) -> str:
    """Return the text of a key with its default, unless that is empty or the text has it."""
    if default in (MISSING, None, "", ()) or "(default" in text:
        return text
    shown = f"{default:.10g}" if isinstance(default, float) else str(default)
    return f"{text.removesuffix('.')} (default {shown.lower() if isinstance(default, bool) else shown})."
