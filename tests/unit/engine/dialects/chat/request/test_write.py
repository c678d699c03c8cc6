"""Writing Chat requests: laws, and input that no reader makes. The rest is in `tests/golden`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.parts import Image, Inline, Native, Part, Text, ToolCall, ToolResult
from dragoman.canonical.request import Json, Request, Tool
from dragoman.canonical.turn import Turn
from dragoman.dialects.chat.request.read import read_request
from dragoman.dialects.chat.request.write import write_request
from dragoman.dialects.shared.effort import round_effort
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable
from support.paths import FIXTURES

OPENAI = builtin_profile("chat", "openai")
COMPATIBLE = builtin_profile("chat", "compatible")
PNG = Inline("image/png", "QUJD")


def user(*parts: Part, plain: bool = False) -> Turn:
    return Turn("user", list(parts), ("messages", 0), plain=plain)


def assistant(*parts: Part) -> Turn:
    return Turn("assistant", list(parts), ("messages", 1))


def call(name: str = "f", call_id: str = "c1", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, name, arguments, ("call",))


def result(content: str | list[Part] = "out", call_id: str = "c1", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, content, ("result",), is_error)


HI = user(Text("hi"), plain=True)


def ask(
    *turns: Turn,
    profile: Profile = OPENAI,
    knobs: Knobs | None = None,
    origin: str = "messages",
    names: NameTable | None = None,
    **fields: Any,
) -> tuple[Json, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = Request(origin, "client-model", list(turns or (HI,)), **fields)
    body = write_request(
        request,
        model="m",
        profile=profile,
        knobs=knobs or Knobs(),
        losses=losses,
        names=names or NameTable(profile.tool_name_max),
    )
    return body, [(row.code, row.path) for row in losses.rows]


def refused(*turns: Turn, **more: Any) -> str | None:
    with pytest.raises(Unsupported) as caught:
        ask(*turns, **more)
    return caught.value.failure.param


def flags(**changed: Any) -> Profile:
    return OPENAI.replace(changed)


# --- instructions -----------------------------------------------------------------------------------------------------


def test_instruction_never_parts_calls_from_results() -> None:
    middle = Turn("instruction", [Text("note")], ("messages", 2), "system", True)
    turns = [HI, assistant(call(), call(call_id="c2")), middle, user(result()), user(result(call_id="c2"))]
    body, losses = ask(*turns)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "tool", "developer"]
    assert losses == [(LossCode.SYSTEM_REORDERED, "messages[2]")]
    longer, _ = ask(*turns, assistant(Text("done")), HI)
    assert longer["messages"][:5] == body["messages"]


def test_image_in_instructions_is_refused() -> None:
    assert refused(Turn("instruction", [Image(PNG, ("system", 0))])) == "system[0]"


# --- user content -----------------------------------------------------------------------------------------------------


def test_native_block_of_a_user_is_left_out_with_its_code() -> None:
    native = Native("messages", "x", {}, "vendor_block", ("n",))
    body, losses = ask(user(Text("a"), native))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "a"}]
    assert losses == [(LossCode.VENDOR_BLOCK, "n")]


# --- tools ------------------------------------------------------------------------------------------------------------


def test_typed_tools_are_refused() -> None:
    assert refused(tools=[Tool("typed", "bash", ("tools", 0), origin="messages")]) == "tools[0]"


# --- controls ---------------------------------------------------------------------------------------------------------


def test_an_output_cap_of_zero_is_refused() -> None:
    assert refused(max_tokens=0, max_tokens_at=("max_tokens",)) == "max_tokens"


@pytest.mark.parametrize(
    ("effort", "efforts", "written"),
    [
        ("high", ("low", "high"), "high"),
        ("max", ("low", "high"), "high"),
        ("medium", ("low", "high"), "low"),
        ("minimal", ("none", "low", "high"), "low"),
        ("low", ("none", "high"), "high"),
        ("none", ("low", "high"), "low"),
        ("none", ("none", "low"), "none"),
        ("low", ("none",), None),
        ("high", (), None),
    ],
)
def test_effort_rounds_down_but_never_to_none(effort: str, efforts: tuple[str, ...], written: str | None) -> None:
    assert round_effort(effort, efforts) == written


@pytest.mark.parametrize(
    ("origin", "tier", "written"),
    [
        ("messages", "auto", "auto"),
        ("messages", "standard_only", "default"),
        ("messages", "priority", None),
        ("responses", "flex", "flex"),
        ("responses", "ultrafast", None),
        ("chat", "priority", "priority"),
    ],
)
def test_service_tier(origin: str, tier: str, written: str | None) -> None:
    body, losses = ask(origin=origin, service_tier=tier, service_tier_at=("service_tier",))
    assert body.get("service_tier") == written
    assert losses == ([] if written else [(LossCode.SERVICE_TIER, "service_tier")])


# --- laws -------------------------------------------------------------------------------------------------------------


def _reread(body: Json) -> tuple[Request, Json]:
    losses = Losses()
    request = read_request(body, losses, Knobs())
    written = write_request(
        request, model=body["model"], profile=OPENAI, knobs=Knobs(), losses=losses, names=NameTable(64)
    )
    assert losses.rows == []
    return request, written


def _bodies() -> list[tuple[str, Json]]:
    fixtures = [(path.stem, json.loads(path.read_bytes())) for path in sorted(FIXTURES.glob("*.json"))]
    return [(name, f["request"]["body"]) for name, f in fixtures if f["dialect"] == "chat"]


BODIES = _bodies()


@pytest.mark.parametrize("body", [body for _, body in BODIES], ids=[name for name, _ in BODIES])
def test_writing_and_reading_again_keeps_the_request(body: Json) -> None:
    request, written = _reread(body)
    again, rewritten = _reread(written)
    again.include_usage = request.include_usage
    again.max_tokens_at = request.max_tokens_at
    for turn, other in zip(request.turns, again.turns, strict=True):
        if turn.role == "assistant" and not any(isinstance(part, Text) for part in turn.parts):
            other.plain = turn.plain  # `""` and null both mean that there is no text
    assert again == request
    assert rewritten == written
