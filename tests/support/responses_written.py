"""Canonical requests, written for a Responses upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.parts import Part, Text, ToolCall, ToolResult
from dragoman.canonical.request import Json, Request, Tool
from dragoman.canonical.turn import Turn
from dragoman.dialects.responses.request.write import write_request
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable

OPENAI = builtin_profile("responses", "openai")
COMPATIBLE = builtin_profile("responses", "compatible")
MARK: Json = {"ttl": None}
KEPT: Json = {"mode": "explicit"}
"""`MARK` as it is written."""


def user(*parts: Part, plain: bool = False) -> Turn:
    """A user turn at `messages[0]`."""
    return Turn("user", list(parts), ("messages", 0), plain=plain)


def assistant(*parts: Part) -> Turn:
    """An assistant turn at `messages[1]`."""
    return Turn("assistant", list(parts), ("messages", 1))


def system(*texts: str, plain: bool = False, original: str = "top") -> Turn:
    """Instructions, by default of a top-level field."""
    return Turn("instruction", [Text(t, ("system", i)) for i, t in enumerate(texts)], ("system",), original, plain)


def call(name: str = "f", call_id: str = "c1", arguments: str = "{}", **more: Any) -> ToolCall:
    """A call."""
    return ToolCall(call_id, name, arguments, ("call",), **more)


def result(content: str | list[Part] = "out", call_id: str = "c1", **more: Any) -> ToolResult:
    """A result."""
    return ToolResult(call_id, content, ("result",), **more)


def function(name: str = "f", **more: Any) -> Tool:
    """A function tool."""
    schema = {"type": "object", "properties": {}}
    return Tool("function", name, **{"at": ("tools", 0), "schema": schema, "origin": "messages", **more})


HI = user(Text("hi"), plain=True)
ANSWERED_HI: Json = {"type": "message", "role": "user", "content": "hi"}


def ask(
    *turns: Turn,
    profile: Profile = OPENAI,
    knobs: Knobs | None = None,
    origin: str = "messages",
    names: NameTable | None = None,
    strict: bool = False,
    **fields: Any,
) -> tuple[Json, list[tuple[LossCode, str]]]:
    """The body, and code and path of each loss."""
    losses = Losses(strict=strict)
    body = write_request(
        Request(origin, "client-model", list(turns or (HI,)), **fields),
        model="m",
        profile=profile,
        knobs=knobs or Knobs(),
        losses=losses,
        names=names or NameTable(profile.tool_name_max),
    )
    return body, [(row.code, row.path) for row in losses.rows]


def state(*turns: Turn, **more: Any) -> tuple[list[Json], list[LossCode]]:
    """The items of the input, and the codes of the losses."""
    body, losses = ask(*turns, **more)
    return body["input"], [code for code, _ in losses]


def refused(*turns: Turn, **more: Any) -> str | None:
    """The field that a refusal names."""
    with pytest.raises(Unsupported) as caught:
        ask(*turns, **more)
    return caught.value.failure.param


def flags(**changed: Any) -> Profile:
    """The vendor's profile with flags changed."""
    return OPENAI.replace(changed)


def texts(*values: str) -> list[Json]:
    """Input texts."""
    return [{"type": "input_text", "text": value} for value in values]


def answer(*values: str, **more: Any) -> Json:
    """An assistant's message."""
    content = [{"type": "output_text", "text": value} for value in values]
    return {"type": "message", "role": "assistant", "content": content, **more}
