"""Canonical conversations in a few words, and bodies translated with a profile's flags and knobs."""

from __future__ import annotations

import json
from typing import Any

from dragoman.canonical.parts import Image, Inline, Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Role, Turn
from dragoman.dialects import Dialect
from dragoman.dialects.directions import direction
from dragoman.knobs import Knobs
from dragoman.profiles.profile import builtin_profile
from dragoman.translate_request import Translation, translate

PNG = "iVBORw0KGgo="


def user(*parts: Part | str) -> Turn:
    """A turn of the user's."""
    return _turn("user", parts)


def assistant(*parts: Part | str) -> Turn:
    """A turn of the assistant's."""
    return _turn("assistant", parts)


def system(text: str) -> Turn:
    """An instruction."""
    return _turn("instruction", (text,))


def _turn(role: Role, parts: tuple[Part | str, ...]) -> Turn:
    return Turn(role, [Text(part) if isinstance(part, str) else part for part in parts])


def call(call_id: str = "c1", name: str = "f") -> ToolCall:
    """A call without arguments."""
    return ToolCall(call_id, name, "{}")


def result(call_id: str = "c1", *content: Part | str) -> ToolResult:
    """A result of parts; of the text `ok` without parts."""
    parts: list[Part] = [Text(part) if isinstance(part, str) else part for part in content]
    return ToolResult(call_id, parts or "ok")


def image(name: str = "") -> Image:
    """A screenshot; `name` distinguish it ."""
    return Image(Inline("image/png", PNG), ("messages", name))


def reasoned(text: str, family: str | None = "messages") -> Reasoning:
    """Thinking that a Messages upstream of `family` signed, brought back in an envelope."""
    block = {"type": "thinking", "thinking": text, "signature": "sig"}
    return Reasoning(text, origin="messages", proof="sig", native=block, family=family)


def request(*turns: Turn) -> Request:
    """A request with these turns."""
    return Request("responses", "m", list(turns))


CAPS = {"chat": ("max_tokens", "max_completion_tokens"), "responses": ("max_output_tokens",)}
"""The fields of the output limit."""


def translated(
    client: str, upstream: str, body: Any, *, profile: str | None = None, flags: Any = None, **knobs: Any
) -> tuple[Any, Translation]:
    """The body sent upstream, parsed, and the translation. `profile` names a shipped one, `flags` change it.

    A Messages upstream needs an output limit: a request without one gets 9000, so that it is not a row.
    """
    if upstream == "messages" != client and not any(name in body for name in CAPS[client]):
        body = {**body, CAPS[client][0]: 9000}
    chosen = builtin_profile(upstream, profile).replace(flags or {})
    row = direction(Dialect(client), Dialect(upstream))
    made = translate(row, json.dumps(body).encode(), profile=chosen, knobs=Knobs(**knobs))
    return json.loads(made.body), made
