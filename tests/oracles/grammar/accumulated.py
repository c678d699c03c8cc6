"""The content that a client has after the last byte of a stream, in one shape for every dialect, so that tests can
compare streams."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

Json = dict[str, Any]


class GrammarError(AssertionError):
    """The bytes break a rule of their dialect."""


def require(condition: object, message: str) -> None:
    """Raise GrammarError unless `condition` holds."""
    if not condition:
        raise GrammarError(message)


class Call(NamedTuple):
    """A tool call, its arguments as one string exactly as they were received (free text if `kind` is custom)."""

    id: str
    name: str
    arguments: str
    namespace: str | None = None
    kind: str = "function"


@dataclass(slots=True)
class Accumulated:
    """`blocks` is (kind, content) in start order; a chat stream has none on the wire, so runs of one kind count.

    `finish` is the dialect's own word. `error` is the in-band error's body if the stream ended in one.
    """

    id: str = ""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str | None = None
    sequence: str | None = None
    stop_details: Json | None = None
    usage: Json | None = None
    error: Json | None = None
    blocks: list[tuple[str, str]] = field(default_factory=list)
    annotations: list[Json] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    pings: int = 0

    @property
    def order(self) -> list[str]:
        """The kinds of the blocks in start order."""
        return [kind for kind, _ in self.blocks]

    def parsed_calls(self) -> list[tuple[str, str, Any]]:
        """The calls with their arguments parsed; none at all count as `{}` (mapping §6.1)."""
        return [
            (call.id, call.name, call.arguments if call.kind == "custom" else json.loads(call.arguments or "{}"))
            for call in self.calls
        ]

    def meant_calls(self) -> list[Any]:
        """The calls with their JSON parsed where it is whole (a cut call's is not)."""
        return [(*call[:2], _meant(call), *call[3:]) for call in self.calls]


def _meant(call: Call) -> Any:
    if call.kind == "custom":
        return call.arguments
    try:
        return json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse(data: bytes | str) -> Any:
    """Strict JSON: no NaN, no Infinity, no key twice in one object. Raises GrammarError."""

    def pairs(items: list[tuple[str, Any]]) -> Json:
        keys = [key for key, _ in items]
        require(len(set(keys)) == len(keys), f"a key twice in one object: {keys}")
        return dict(items)

    try:
        return json.loads(data, parse_constant=_no_constant, object_pairs_hook=pairs)
    except ValueError as error:
        raise GrammarError(f"not JSON ({error}): {data[:200]!r}") from None


def parse_object(data: bytes | str) -> Json:
    """`parse`, and it must be an object."""
    value = parse(data)
    require(type(value) is dict, f"not a JSON object: {data[:200]!r}")
    assert isinstance(value, dict)
    return value


def keys(value: Any, required: set[str], optional: set[str], where: str) -> Json:
    """Require an object with all of `required` and nothing beyond `optional`."""
    require(type(value) is dict, f"{where}: not an object: {value!r}")
    assert isinstance(value, dict)
    require(required <= value.keys(), f"{where}: lacks {sorted(required - value.keys())}: {value!r}")
    extra = value.keys() - required - optional
    require(not extra, f"{where}: unknown keys {sorted(extra)}: {value!r}")
    return value


def string(value: Any, where: str, *, empty: bool = True) -> str:
    """Require a string."""
    require(type(value) is str, f"{where}: not a string: {value!r}")
    require(empty or value, f"{where}: empty")
    assert isinstance(value, str)
    return value


def integer(value: Any, where: str) -> int:
    """Require an integer of at least 0 (a bool is not one)."""
    require(type(value) is int and value >= 0, f"{where}: not a count: {value!r}")
    assert isinstance(value, int)
    return value
