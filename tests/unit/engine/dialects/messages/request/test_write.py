"""Writing Messages requests: laws, and input that no reader makes. The rest is in `tests/golden`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from dragoman.canonical.events import Citation
from dragoman.canonical.parts import Image, Native, Part, Reasoning, Text, ToolCall, ToolReference, ToolResult, Url
from dragoman.canonical.request import Request, Tool, ToolChoice
from dragoman.canonical.turn import Role, Turn
from dragoman.dialects.messages.request.read import read_request
from dragoman.dialects.messages.request.write import write_request
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.repair_orphan_calls import repair_history
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable
from support.paths import FIXTURES

ANTHROPIC = builtin_profile("messages")
COMPATIBLE = builtin_profile("messages", "compatible")


def user(*parts: Part | str) -> Turn:
    return _turn("user", parts)


def assistant(*parts: Part | str) -> Turn:
    return _turn("assistant", parts)


def system(*parts: Part | str) -> Turn:
    return _turn("instruction", parts)


def _turn(role: Role, parts: tuple[Part | str, ...]) -> Turn:
    plain = len(parts) == 1 and isinstance(parts[0], str)
    return Turn(role, [Text(p) if isinstance(p, str) else p for p in parts], ("messages", 0), plain=plain)


def call(call_id: str = "c1", name: str = "f", arguments: str = "{}", **more: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments, ("messages", 1, "tool_calls", 0), **more)


def result(call_id: str = "c1", content: Any = "ok", **more: Any) -> ToolResult:
    return ToolResult(call_id, content, ("messages", 2), **more)


def function(name: str = "f", **more: Any) -> Tool:
    return Tool("function", name, ("tools", 0), origin="chat", **more)


class Written:
    """A body as it reaches the wire, with what was lost on the way."""

    def __init__(self, request: Request, profile: Profile = ANTHROPIC, **knobs: Any) -> None:
        self.losses = Losses()
        self.names = NameTable(profile.tool_name_max)
        body = write_request(
            request, model=MODEL, profile=profile, knobs=Knobs(**knobs), losses=self.losses, names=self.names
        )
        self.bytes = orjson.dumps(body)
        self.body: Any = orjson.loads(self.bytes)
        self.codes = dict(self.losses.counts)

    @property
    def messages(self) -> Any:
        return self.body["messages"]


def write(*turns: Turn, profile: Profile = ANTHROPIC, knobs: dict[str, Any] | None = None, **fields: Any) -> Written:
    given = list(turns) or [user("hi")]
    return Written(
        Request(**{"origin": "chat", "model": "m", "max_tokens": 9000, "turns": given, **fields}),
        profile,
        **(knobs or {}),
    )


MODEL = "claude-opus-5-5"
HOISTING = ANTHROPIC.replace({"system_inline": False})


# --- instructions (mapping §3) --------------------------------------------------------------------------------


def test_instructions_are_text_only() -> None:
    with pytest.raises(Unsupported, match="instructions can only be text"):
        write(system(Image(Url("https://a.test"), ("messages", 0, "content", 0))), user("hi"))


CONVERSATION = [
    system("top"),
    user("a"),
    system("s1"),
    assistant(call("1"), call("2")),
    user(result("1")),
    system("s2"),
    user(result("2")),
    assistant("b"),
    system("s3"),
    assistant("c"),
    user("d"),
    assistant("e"),
    system("s4"),
    user("f"),
    user("g"),
]


@pytest.mark.parametrize("mid_system", ["inline", "user"])
def test_a_longer_history_extends_a_shorter_one(mid_system: str) -> None:
    knobs = {"mid_system": mid_system}
    whole = write(*CONVERSATION, knobs=knobs).messages
    for length in range(2, len(CONVERSATION)):
        ends_a_request = CONVERSATION[length].role == "assistant"
        if ends_a_request and CONVERSATION[length - 1].role != "assistant":
            shorter = write(*CONVERSATION[:length], knobs=knobs).messages
            assert shorter == whole[: len(shorter)]


@pytest.mark.parametrize("mid_system", ["inline", "user", "hoist"])
def test_system_messages_stand_only_where_the_api_takes_them(mid_system: str) -> None:
    roles = [m["role"] for m in write(*CONVERSATION, knobs={"mid_system": mid_system}).messages]
    assert roles[0] != "system"
    for before, role, after in zip(roles[:-1], roles[1:], [*roles[2:], None], strict=True):
        assert role != before
        if role == "system":
            assert before == "user"
            assert after in (None, "assistant")


# --- content ----------------------------------------------------------------------------------------------------------


AT = ("messages", 0, "content", 0)


@pytest.mark.parametrize("part", [ToolReference("x", AT), Reasoning("x", AT)])
def test_content_without_a_place_is_refused(part: Part) -> None:
    with pytest.raises(Unsupported, match=r"^messages\[0\].content\[0\]: "):
        write(user(part))


def test_own_citations_stay_and_foreign_ones_go() -> None:
    own = {"type": "char_location", "cited_text": "x"}
    foreign = Citation("chat", {"type": "url_citation"}, "https://a.test")
    turns = [user("a"), assistant(Text("x", citations=[Citation("messages", own), foreign])), user("b")]
    written = write(*turns)
    assert written.messages[1]["content"] == [{"type": "text", "text": "x", "citations": [own]}]
    assert written.codes == {LossCode.CITATIONS: 1}


def test_blocks_of_another_provider_are_left_out_with_their_code() -> None:
    foreign = Native("responses", "web_search_call", {"type": "web_search_call"}, LossCode.HOSTED_HISTORY)
    own = Native("messages", "server_tool_use", {"type": "server_tool_use", "id": "x"}, LossCode.HOSTED_HISTORY)
    written = write(user("a"), assistant(foreign, own, "b"), user("c"))
    assert written.messages[1]["content"] == [{"type": "server_tool_use", "id": "x"}, {"type": "text", "text": "b"}]
    assert written.codes == {LossCode.HOSTED_HISTORY: 1}


# --- calls and results ------------------------------------------------------------------------------------------------


def test_free_text_tools_are_refused_everywhere() -> None:
    custom = Tool("custom", "patch", ("tools", 0), native={"type": "custom"}, origin="chat")
    with pytest.raises(Unsupported, match=r"^tools\[0\]: "):
        write(tools=[custom])
    with pytest.raises(Unsupported, match=r"^tool_choice: "):
        write(tools=[function()], tool_choice=ToolChoice("tool", ("tool_choice",), ["patch"], custom=True))
    with pytest.raises(Unsupported, match=r"^messages\[1\].tool_calls\[0\]: "):
        write(user("a"), assistant(call(custom=True)), user(result()))
    with pytest.raises(Unsupported, match=r"^messages\[2\]: "):
        write(user("a"), assistant(call()), user(result(custom=True)))


def test_a_tool_reference_stays_in_a_result() -> None:
    written = write(user("a"), assistant(call()), user(result(content=[ToolReference("WebSearch")])))
    assert written.messages[2]["content"][0]["content"] == [{"type": "tool_reference", "tool_name": "WebSearch"}]


def test_blank_stop_sequences_are_left_out() -> None:
    written = write(stop=["END", " \n"], stop_at=("stop",))
    assert written.body["stop_sequences"] == ["END"]
    assert [row.path for row in written.losses.rows] == ["stop[1]"]


# --- tools ------------------------------------------------------------------------------------------------------------


def test_typed_tools_of_another_dialect_are_refused() -> None:
    shell = Tool("typed", "local_shell", ("tools", 0), native={"type": "local_shell"}, origin="responses")
    with pytest.raises(Unsupported, match=r"^tools\[0\]: "):
        write(tools=[shell])


# --- whole bodies -----------------------------------------------------------------------------------------------------


def test_T81_the_same_request_is_the_same_bytes() -> None:
    def build() -> bytes:
        return write(*CONVERSATION, tools=[function("b"), function("a")], temperature=0.5, end_user="u").bytes

    assert build() == build()


def recorded(dialect: str, path: str) -> list[Path]:
    return [file for file in sorted(FIXTURES.glob("*.json")) if _is(json.loads(file.read_bytes()), dialect, path)]


def _is(recording: Any, dialect: str, path: str) -> bool:
    return bool(recording["dialect"] == dialect and recording["request"]["path"] == path)


def read_back(body: Any) -> Request:
    return read_request(body, Losses(), Knobs())


@pytest.mark.parametrize("path", recorded("anthropic", "/v1/messages"), ids=lambda path: path.stem)
def test_a_messages_request_survives_the_round_trip(path: Path) -> None:
    body = json.loads(path.read_bytes())["request"]["body"]
    if body["messages"][-1]["role"] == "assistant":
        pytest.skip("ends on an assistant message, which is left out")
    request = read_request(body, Losses(), Knobs())
    written = Written(request, ANTHROPIC.replace({"sampling": "free"}))
    again = read_back(written.body)
    assert written.codes == {}
    assert again.tools == request.tools
    assert [turn.role for turn in again.turns] == [turn.role for turn in request.turns]
    for before, after in zip(request.turns, again.turns, strict=True):
        assert [type(part) for part in before.parts] == [type(part) for part in after.parts]
        assert [getattr(part, "text", None) for part in before.parts] == [
            getattr(part, "text", None) for part in after.parts
        ]
    assert (again.end_user, again.stream, again.stop) == (request.end_user, request.stream, request.stop)
    if request.thinking is not None:
        assert again.thinking is not None
        assert (again.thinking.effort, again.thinking.display) == (request.thinking.effort, request.thinking.display)
    assert written.bytes == Written(again).bytes


def valid(messages: list[Any]) -> None:
    """The API's own rules for `messages`."""
    assert messages
    before: Any = None
    for message in messages:
        role, given = message["role"], message["content"]
        assert given
        blocks = [{"type": "text", "text": given}] if isinstance(given, str) else given
        assert before is None or before["role"] != role
        assert role != "system" or (before is not None and before["role"] == "user")
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        results = [block["type"] == "tool_result" for block in blocks]
        assert results == sorted(results, reverse=True)
        called = _ids(before, "tool_use", "id") if before is not None else set()
        assert called == _ids(message, "tool_result", "tool_use_id")
        before = message if role != "system" else before | {"role": "system", "content": []}
    assert messages[-1]["role"] != "assistant"


def _ids(message: Any, kind: str, key: str) -> set[str]:
    given = message["content"]
    return set() if isinstance(given, str) else {block[key] for block in given if block["type"] == kind}


@pytest.mark.parametrize("profile", [ANTHROPIC, COMPATIBLE, HOISTING], ids=["anthropic", "compatible", "hoisting"])
@pytest.mark.parametrize("path", recorded("chat", "/v1/chat/completions"), ids=lambda path: path.stem)
def test_every_recorded_chat_request_becomes_a_valid_one(path: Path, profile: Profile) -> None:
    reader = pytest.importorskip("dragoman.dialects.chat.request.read")
    body = json.loads(path.read_bytes())["request"]["body"]
    losses = Losses()
    request = reader.read_request(body, losses, Knobs())
    repair_history(request, Knobs(), losses)
    written = Written(request, profile)
    valid(written.messages)
    assert [tool["name"] for tool in written.body.get("tools", [])] == [
        tool["function"]["name"] for tool in body.get("tools", [])
    ]
    read_back(written.body)
