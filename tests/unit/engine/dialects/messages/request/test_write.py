"""Canonical request → Messages request (mapping §3 to §7)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from dragoman.canonical.events import Citation
from dragoman.canonical.request import (
    Document,
    FileRef,
    Image,
    Inline,
    Native,
    OutputFormat,
    Part,
    Reasoning,
    Refusal,
    Request,
    Role,
    SearchResult,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolReference,
    ToolResult,
    Turn,
    Url,
)
from dragoman.dialects.messages.request.read import read_request
from dragoman.dialects.messages.request.write import write_request
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.repair_orphan_calls import repair_history
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable
from support.paths import FIXTURES

ANTHROPIC = builtin_profile("messages")
COMPATIBLE = builtin_profile("messages", "compatible")


def user(*parts: Part | str) -> Turn:
    return _turn(Role.USER, parts)


def assistant(*parts: Part | str) -> Turn:
    return _turn(Role.ASSISTANT, parts)


def system(*parts: Part | str) -> Turn:
    return _turn(Role.INSTRUCTION, parts)


def _turn(role: Role, parts: tuple[Part | str, ...]) -> Turn:
    plain = len(parts) == 1 and isinstance(parts[0], str)
    return Turn(role, [Text(p) if isinstance(p, str) else p for p in parts], ("messages", 0), plain=plain)


def call(call_id: str = "c1", name: str = "f", arguments: str = "{}", **more: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments, ("messages", 1, "tool_calls", 0), **more)


def result(call_id: str = "c1", content: Any = "ok", **more: Any) -> ToolResult:
    return ToolResult(call_id, content, ("messages", 2), **more)


def function(name: str = "f", **more: Any) -> Tool:
    return Tool(ToolKind.FUNCTION, name, ("tools", 0), origin="chat", **more)


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
    return Written(Request(**{"origin": "chat", "model": "m", "turns": given, **fields}), profile, **(knobs or {}))


def content(*parts: Part | str, profile: Profile = ANTHROPIC, **knobs: Any) -> Any:
    return write(user(*parts), profile=profile, knobs=knobs).messages[0]["content"]


INLINE = ANTHROPIC
MODEL = "claude-opus-5-5"
HOISTING = ANTHROPIC.replace({"system_inline": False})


# --- instructions (mapping §3) --------------------------------------------------------------------------------


def test_one_instruction_is_a_string() -> None:
    assert write(system("You are concise."), user("hi")).body["system"] == "You are concise."


def test_several_instructions_keep_their_boundaries() -> None:
    body = write(system("You are concise."), system("Prefer exact answers."), user("hi")).body
    assert body["system"] == [
        {"type": "text", "text": "You are concise."},
        {"type": "text", "text": "Prefer exact answers."},
    ]


def test_T40_empty_instructions_vanish() -> None:
    written = write(system(""), system("only"), system(Text("")), user("hi"))
    assert written.body["system"] == "only"
    assert "system" not in write(system(""), user("hi")).body


def test_instructions_are_text_only() -> None:
    with pytest.raises(Unsupported, match="instructions can only be text"):
        write(system(Image(Url("https://a.test"), ("messages", 0, "content", 0))), user("hi"))


def test_late_instructions_stay_in_place_where_the_model_takes_them() -> None:
    written = write(user("a"), system("mind"), assistant("b"), user("c"), system("x"), system("y"))
    assert written.messages == [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "mind"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
    ]
    assert written.codes == {}


def test_late_instructions_are_hoisted_elsewhere() -> None:
    written = write(system("top"), user("a"), system("mind"), assistant("b"), user("c"), profile=HOISTING)
    assert written.body["system"] == [{"type": "text", "text": "top"}, {"type": "text", "text": "mind"}]
    assert [m["role"] for m in written.messages] == ["user", "assistant", "user"]
    assert written.codes == {LossCode.SYSTEM_MOVED: 1}


def test_an_instruction_never_parts_a_call_from_its_result() -> None:
    written = write(user("a"), assistant(call()), system("mind"), user(result()), assistant("b"), user("c"))
    assert [m["role"] for m in written.messages] == ["user", "assistant", "user", "system", "assistant", "user"]
    assert written.messages[2]["content"][0]["type"] == "tool_result"
    assert written.codes == {LossCode.SYSTEM_REORDERED: 1}


@pytest.mark.parametrize("more", [[], [assistant("b"), user("c")]])
def test_an_instruction_no_user_message_follows_becomes_one(more: list[Turn]) -> None:
    written = write(user("a"), assistant("x"), system("mind"), *more)
    assert written.messages[2] == {"role": "user", "content": [{"type": "text", "text": "<system>\nmind\n</system>"}]}
    assert written.codes == {LossCode.SYSTEM_DEMOTED: 1}


def test_mid_system_user_wraps_the_text() -> None:
    written = write(user("a"), assistant(call()), user(result()), system("mind"), knobs={"mid_system": "user"})
    assert [b["type"] for b in written.messages[2]["content"]] == ["tool_result", "text"]
    assert written.codes == {LossCode.SYSTEM_DEMOTED: 1}


def test_hoisting_away_from_a_binding_model_invalidates_its_thinking() -> None:
    signed = Reasoning("t", (), "messages", "s", native={"type": "thinking", "thinking": "t", "signature": "s"})
    turns = [user("a"), assistant(signed, "b"), user("c"), system("mind")]
    written = write(*turns, knobs={"mid_system": "hoist"})
    assert written.codes == {LossCode.SYSTEM_MOVED: 1, LossCode.THINKING_INVALIDATED: 1}
    assert LossCode.THINKING_INVALIDATED not in write(*turns).codes


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
        ends_a_request = CONVERSATION[length].role is Role.ASSISTANT
        if ends_a_request and CONVERSATION[length - 1].role is not Role.ASSISTANT:
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


# --- placement and alternation (mapping §3) ---------------------------------------------------------------------------


def test_seed_tool_call_request() -> None:
    turn = assistant("I will look that up.", call("call_1", "lookup", '{"query":"proxai"}'))
    assert write(user("?"), turn, user(result("call_1", "found"))).messages == [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I will look that up."},
                {"type": "tool_use", "id": "call_1", "name": "lookup", "input": {"query": "proxai"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "found"}]},
    ]


def test_seed_user_content_parts() -> None:
    assert content("Summarize this.", Image(Url("https://example.test/a.png"))) == [
        {"type": "text", "text": "Summarize this."},
        {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}},
    ]


def test_results_of_a_turn_stand_first_and_together() -> None:
    image = Image(Inline("image/png", "QQ=="))
    written = write(
        user("a"),
        assistant(call("1"), call("2")),
        user(result("1")),
        user("Attached:", image),
        user(result("2")),
        user("x"),
    )
    blocks = written.messages[2]["content"]
    assert [b["type"] for b in blocks] == ["tool_result", "tool_result", "text", "image", "text"]
    assert len(written.messages) == 3


def test_consecutive_turns_merge_by_blocks() -> None:
    written = write(user("a"), user("b"), assistant("c"), assistant("d"), user("e"))
    assert written.messages == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
        {"role": "user", "content": "e"},
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\n"])
def test_T40_blank_texts_and_empty_turns_are_removed(blank: str) -> None:
    written = write(
        user("a"), assistant(blank), user(Text(blank), Text("b")), assistant(Text(blank), call()), user(result())
    )
    assert written.messages[0] == {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    }
    assert [b["type"] for b in written.messages[1]["content"]] == ["tool_use"]


def test_T40_a_conversation_without_content_is_refused() -> None:
    for turns in ([system("only")], [user("")]):
        with pytest.raises(Unsupported, match=r"^messages: "):
            write(*turns)


def test_participant_names_are_dropped_with_a_row() -> None:
    turn = user("a")
    turn.name = "ann"
    assert write(turn).codes == {LossCode.PARTICIPANT_NAME: 1}


# --- the end of the conversation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefill", ["auto", "drop"])
def test_a_final_assistant_text_is_left_out(prefill: str) -> None:
    written = write(
        user("a"), assistant("b"), assistant(Reasoning("t", origin="chat"), "c"), knobs={"prefill": prefill}
    )
    assert [m["role"] for m in written.messages] == ["user"]
    assert written.codes[LossCode.CONTINUATION] == 1


def test_a_final_assistant_text_may_be_passed_or_refused() -> None:
    assert write(user("a"), assistant("b"), knobs={"prefill": "pass"}).messages[-1]["role"] == "assistant"
    with pytest.raises(Unsupported, match="ends on an assistant message"):
        write(user("a"), assistant("b"), knobs={"prefill": "reject"})


@pytest.mark.parametrize("prefill", ["auto", "drop", "reject", "pass"])
def test_final_calls_are_refused(prefill: str) -> None:
    for turns in ([user("a"), assistant(call())], [user("a"), assistant(call()), system("x")]):
        with pytest.raises(Unsupported, match="ends on tool calls"):
            write(*turns, knobs={"prefill": prefill})


# --- content ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("media_type", ["image/jpeg", "image/png", "image/gif", "image/webp"])
def test_inline_images(media_type: str) -> None:
    (block,) = content(Image(Inline(media_type, "QQ==")))
    assert block == {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": "QQ=="}}


def test_jpg_is_jpeg() -> None:
    assert content(Image(Inline("image/jpg", "QQ==")))[0]["source"]["media_type"] == "image/jpeg"


def test_image_detail() -> None:
    for detail, codes in (("high", {LossCode.IMAGE_DETAIL: 1}), ("auto", {}), (None, {})):
        assert write(user(Image(Url("u"), detail=detail))).codes == codes


AT = ("messages", 0, "content", 0)


@pytest.mark.parametrize(
    ("part", "flags"),
    [
        (Image(Inline("image/tiff", "QQ=="), AT), {}),
        (Image(Url("u"), AT), {"url_sources": False}),
        (Image(FileRef("f", "responses"), AT), {}),
        (Image(Inline("image/png", "QQ=="), AT), {"images": False}),
        (Document(Url("u"), AT), {"url_sources": False}),
        (Document(FileRef("f", "chat"), AT), {}),
        (Document(Inline("application/pdf", "QQ=="), AT), {"pdf": False}),
        (Document(Inline("application/zip", "QQ=="), AT), {}),
        (ToolReference("x", AT), {}),
        (Reasoning("x", AT), {}),
    ],
)
def test_content_without_a_place_is_refused(part: Part, flags: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match=r"^messages\[0\].content\[0\]: "):
        content(part, profile=ANTHROPIC.replace(flags))


def test_documents() -> None:
    pdf = Document(Inline("application/pdf", "QQ=="), name="a.pdf", context="c", cite=True)
    assert content(pdf) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
            "title": "a.pdf",
            "context": "c",
            "citations": {"enabled": True},
        }
    ]
    sources: list[tuple[Any, Any]] = [
        (Url("u"), {"type": "url", "url": "u"}),
        (FileRef("f", "messages"), {"type": "file", "file_id": "f"}),
        (Text("t"), {"type": "text", "media_type": "text/plain", "data": "t"}),
        ([Text("t"), Image(Url("u"))], {"type": "content", "content": content("t", Image(Url("u")))}),
    ]
    for source, written in sources:
        assert content(Document(source)) == [{"type": "document", "source": written}]


@pytest.mark.parametrize(("media_type", "rows"), [("text/plain", 0), ("text/csv", 1), ("application/json", 1)])
def test_text_files_are_decoded(media_type: str, rows: int) -> None:
    written = write(user(Document(Inline(media_type, base64.b64encode("ä;b".encode()).decode()))))
    source = written.messages[0]["content"][0]["source"]
    assert source == {"type": "text", "media_type": "text/plain", "data": "ä;b"}
    assert written.codes.get(LossCode.DOCUMENT_SHAPE, 0) == rows


@pytest.mark.parametrize("data", ["!!", base64.b64encode(b"\xff\xfe").decode()])
def test_text_files_must_be_text(data: str) -> None:
    with pytest.raises(ClientRequestError, match=r"base64 of UTF-8 text"):
        content(Document(Inline("text/plain", data), AT))


def test_search_results() -> None:
    assert content(SearchResult("s", "t", [Text("b"), Text("")], cite=True)) == [
        {
            "type": "search_result",
            "source": "s",
            "title": "t",
            "content": [{"type": "text", "text": "b"}],
            "citations": {"enabled": True},
        }
    ]


def test_refusal_wording_becomes_text() -> None:
    assert write(user("a"), assistant(Refusal("no")), user("b")).messages[1]["content"] == [
        {"type": "text", "text": "no"}
    ]


def test_own_citations_stay_and_foreign_ones_go() -> None:
    own = {"type": "char_location", "cited_text": "x"}
    foreign = Citation("chat", {"type": "url_citation"}, "https://a.test")
    turns = [user("a"), assistant(Text("x", citations=[Citation("messages", own), foreign])), user("b")]
    written = write(*turns)
    assert written.messages[1]["content"] == [{"type": "text", "text": "x", "citations": [own]}]
    assert written.codes == {LossCode.CITATIONS: 1}


def test_the_new_version_takes_no_citations_on_user_text() -> None:
    text = Text("x", citations=[Citation("messages", {"type": "char_location"})])
    written = write(user(text), profile=ANTHROPIC.replace({"anthropic_version": "2026-10-21"}))
    assert "citations" not in written.messages[0]["content"][0]
    assert written.codes == {LossCode.CITATIONS: 1}
    assert write(user(text)).codes == {}


def test_blocks_of_another_provider_are_left_out_with_their_code() -> None:
    foreign = Native("responses", "web_search_call", {"type": "web_search_call"}, LossCode.HOSTED_HISTORY)
    own = Native("messages", "server_tool_use", {"type": "server_tool_use", "id": "x"}, LossCode.HOSTED_HISTORY)
    written = write(user("a"), assistant(foreign, own, "b"), user("c"))
    assert written.messages[1]["content"] == [{"type": "server_tool_use", "id": "x"}, {"type": "text", "text": "b"}]
    assert written.codes == {LossCode.HOSTED_HISTORY: 1}


# --- calls and results ------------------------------------------------------------------------------------------------


def test_T06_arguments_are_an_object_and_survive_as_they_are() -> None:
    text = '{"z": 123456789012345678901234567890, "a": 1.10, "ä": "é"}'
    written = write(user("a"), assistant(call(arguments=text)), user(result()))
    assert text.encode() in written.bytes


def test_arguments_of_a_call_without_any() -> None:
    written = write(user("a"), assistant(call(arguments="")), user(result()))
    assert written.messages[1]["content"][0]["input"] == {}


@pytest.mark.parametrize("arguments", ['{"a":', "[]", "null", '"x"', "3", " ", "nope", '{"a":1} trailing'])
def test_T06_arguments_that_are_no_object_are_never_guessed(arguments: str) -> None:
    where = r"^messages\[1\].tool_calls\[0\].function.arguments: "
    with pytest.raises(Unsupported, match=where):
        write(user("a"), assistant(call(arguments=arguments)), user(result()))


def test_free_text_tools_are_refused_everywhere() -> None:
    custom = Tool(ToolKind.CUSTOM, "patch", ("tools", 0), native={"type": "custom"}, origin="chat")
    with pytest.raises(Unsupported, match=r"^tools\[0\]: "):
        write(tools=[custom])
    with pytest.raises(Unsupported, match=r"^tool_choice: "):
        write(tools=[function()], tool_choice=ToolChoice("tool", ("tool_choice",), ["patch"], custom=True))
    with pytest.raises(Unsupported, match=r"^messages\[1\].tool_calls\[0\]: "):
        write(user("a"), assistant(call(custom=True)), user(result()))
    with pytest.raises(Unsupported, match=r"^messages\[2\]: "):
        write(user("a"), assistant(call()), user(result(custom=True)))


def test_call_ids_are_fitted_alike_in_call_and_result() -> None:
    written = write(user("a"), assistant(call("functions.x:0")), user(result("functions.x:0")))
    call_id = written.messages[1]["content"][0]["id"]
    assert call_id.startswith("call_")
    assert written.messages[2]["content"][0]["tool_use_id"] == call_id
    assert write(user("a"), assistant(call("ok_1")), user(result("ok_1"))).messages[1]["content"][0]["id"] == "ok_1"


def test_T42_names_are_fitted_alike_everywhere() -> None:
    name = "mcp.server/" + "x" * 150
    written = write(
        user("a"),
        assistant(call(name=name)),
        user(result()),
        tools=[function(name)],
        tool_choice=ToolChoice("tool", ("tool_choice",), [name]),
    )
    sent = written.body["tools"][0]["name"]
    assert len(sent) <= 128
    assert written.messages[1]["content"][0]["name"] == written.body["tool_choice"]["name"] == sent
    assert written.names.back == {sent: name}


def test_T42_a_hundred_characters_are_fine_here() -> None:
    assert write(tools=[function("x" * 100)]).body["tools"][0]["name"] == "x" * 100


def test_results_of_all_shapes() -> None:
    parts = [Text("a"), Text(""), Image(Inline("image/png", "QQ==")), ToolReference("WebSearch")]
    for given, written in (
        ("", ""),
        ("text", "text"),
        ([], ""),
        ([Text("")], ""),
        (
            parts,
            [
                {"type": "text", "text": "a"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
                {"type": "tool_reference", "tool_name": "WebSearch"},
            ],
        ),
    ):
        body = write(user("a"), assistant(call()), user(result(content=given)))
        assert body.messages[2]["content"][0]["content"] == written


def test_is_error_is_written_only_when_true() -> None:
    blocks = write(user("a"), assistant(call("1"), call("2")), user(result("1", is_error=True), result("2")))
    assert [b.get("is_error") for b in blocks.messages[2]["content"]] == [True, None]


def test_images_move_out_of_results_where_they_must() -> None:
    image = Image(Inline("image/png", "QQ=="))
    profile = ANTHROPIC.replace({"images_in_tool_results": False})
    written = write(
        user("a"), assistant(call("1"), call("2")), user(result("1", [image]), result("2")), profile=profile
    )
    assert [b["type"] for b in written.messages[2]["content"]] == ["tool_result", "tool_result", "image"]
    assert written.codes == {LossCode.RESULT_MEDIA_MOVED: 1}


# --- reasoning in history ---------------------------------------------------------------------------------------------

SIGNED = {"type": "thinking", "thinking": "t", "signature": "s"}
EMPTY = {"type": "thinking", "thinking": "", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}
UNSIGNED = {"type": "thinking", "thinking": "t", "signature": ""}


def thinking(native: dict[str, Any]) -> Reasoning:
    proof = native.get("signature") or native.get("data")
    return Reasoning(native.get("thinking", ""), AT, "messages", proof, "data" in native, native)


def replayed(*reasoning: Reasoning, replay: str = "verify", **knobs: Any) -> tuple[list[Any], dict[LossCode, int]]:
    profile = ANTHROPIC.replace({"thinking_replay": replay})
    written = write(user("a"), assistant(*reasoning, "b"), user("c"), profile=profile, knobs=knobs)
    body = written.messages[1]["content"]
    return [block for block in body if block != {"type": "text", "text": "b"}], written.codes


def test_T10_signed_thinking_is_replayed_untouched_and_in_order() -> None:
    blocks, codes = replayed(thinking(SIGNED), thinking(EMPTY), thinking(REDACTED))
    assert blocks == [SIGNED, EMPTY, REDACTED]
    assert codes == {}


def test_T45_cache_marks_never_stand_on_thinking() -> None:
    native = {**SIGNED, "cache_control": {"type": "ephemeral"}}
    assert replayed(thinking(native))[0] == [SIGNED]
    assert "cache_control" in native


@pytest.mark.parametrize(
    ("reasoning", "replay", "blocks", "codes"),
    [
        (thinking(UNSIGNED), "verify", [], {LossCode.REASONING_UNSIGNED: 1}),
        (thinking(UNSIGNED), "own_required", [UNSIGNED], {}),
        (thinking(SIGNED), "drop", [], {LossCode.REASONING_FOREIGN: 1}),
        (thinking(REDACTED), "drop", [], {LossCode.REASONING_ENCRYPTED: 1}),
        (Reasoning("t", AT, "chat"), "verify", [], {LossCode.REASONING_UNSIGNED: 1}),
        (Reasoning("t", AT, "chat"), "drop", [], {LossCode.REASONING_UNSIGNED: 1}),
        (Reasoning("t", AT, "chat"), "own_required", [UNSIGNED], {}),
        (Reasoning("", AT, "chat"), "verify", [], {}),
        (Reasoning("", AT, "responses", "blob"), "verify", [], {LossCode.REASONING_FOREIGN: 1}),
        (Reasoning("", AT, "responses", "blob"), "own_required", [], {LossCode.REASONING_FOREIGN: 1}),
    ],
)
def test_T11_only_what_the_endpoint_can_check_is_replayed(
    reasoning: Reasoning, replay: str, blocks: list[Any], codes: Any
) -> None:
    assert replayed(reasoning, replay=replay) == (blocks, codes)


def test_foreign_reasoning_can_be_demoted_to_text() -> None:
    blocks, codes = replayed(Reasoning("t", AT, "chat"), demote_reasoning="on")
    assert blocks == [{"type": "text", "text": "t"}]
    assert codes == {LossCode.REASONING_UNSIGNED: 1}


# --- tools ------------------------------------------------------------------------------------------------------------


def test_function_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "$schema": "x"}
    written = write(tools=[function("b", description="d", schema=schema, strict=True), function("a", strict=False)])
    assert written.body["tools"] == [
        {"name": "b", "description": "d", "input_schema": schema, "strict": True},
        {"name": "a", "input_schema": {"type": "object", "properties": {}}},
    ]


def test_a_schema_without_type_gets_one() -> None:
    written = write(tools=[function(schema={"properties": {}}), function("g", schema={"type": None})])
    assert [tool["input_schema"] for tool in written.body["tools"]] == [
        {"type": "object", "properties": {}},
        {"type": "object"},
    ]


@pytest.mark.parametrize("schema", [{"anyOf": []}, {"type": "object", "oneOf": []}, {"allOf": []}, {"type": "string"}])
def test_T43_schemas_the_api_refuses_are_refused_by_name(schema: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match=r"^tools\[0\].function.parameters\."):
        write(tools=[function(schema=schema)])


def test_T44_foreign_tool_options_do_not_leak() -> None:
    options = {"defer_loading": True, "output_schema": {"a": 1}, "eager_input_streaming": False}
    written = write(tools=[function(options=options)])
    assert set(written.body["tools"][0]) == {"name", "input_schema"}
    assert written.codes == {LossCode.TOOL_SEARCH: 1, LossCode.TOOL_OPTION: 1}


def search(**options: Any) -> Tool:
    return Tool(ToolKind.HOSTED, "web_search", ("web_search_options",), options=options, native={}, origin="chat")


def test_hosted_tools() -> None:
    written = write(tools=[search()])
    assert "tools" not in written.body
    assert written.codes == {LossCode.HOSTED_TOOL: 1}
    with pytest.raises(Unsupported, match=r"^web_search_options: "):
        write(tools=[search()], knobs={"hosted_tools": "reject"})
    location = {"type": "approximate", "city": "Rome", "region": None}
    mapped = write(
        tools=[search(user_location=location, search_context_size="high", allowed_domains=["a.test"])],
        knobs={"hosted_tools": "map"},
    )
    assert mapped.body["tools"] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "user_location": {"type": "approximate", "city": "Rome"},
            "allowed_domains": ["a.test"],
        }
    ]
    assert mapped.codes == {LossCode.TOOL_OPTION: 1}


@pytest.mark.parametrize("location", ["Rome", ["Rome"], 7])
def test_a_place_to_search_from_that_is_no_object_is_left_out(location: Any) -> None:
    """Messages clients' options are read as they are."""
    mapped = write(tools=[search(user_location=location)], knobs={"hosted_tools": "map"})
    assert mapped.body["tools"] == [{"type": "web_search_20250305", "name": "web_search"}]
    assert mapped.codes == {LossCode.TOOL_OPTION: 1}


def test_a_mapped_search_never_takes_a_functions_name() -> None:
    written = write(tools=[function("web_search"), search()], knobs={"hosted_tools": "map"})
    assert [tool["name"] for tool in written.body["tools"]] == ["web_search"]
    assert written.codes == {LossCode.HOSTED_TOOL: 1}


def test_other_hosted_and_typed_tools() -> None:
    files = Tool(ToolKind.HOSTED, "file_search", ("tools", 0), native={"type": "file_search"}, origin="responses")
    assert write(tools=[files], knobs={"hosted_tools": "map"}).codes == {LossCode.HOSTED_TOOL: 1}
    shell = Tool(ToolKind.TYPED, "local_shell", ("tools", 0), native={"type": "local_shell"}, origin="responses")
    with pytest.raises(Unsupported, match=r"^tools\[0\]: "):
        write(tools=[shell])


def chosen(mode: str, *names: str, **more: Any) -> ToolChoice:
    return ToolChoice(mode, ("tool_choice",), list(names), **more)


@pytest.mark.parametrize(
    ("choice", "parallel", "written"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (chosen("auto"), None, {"type": "auto"}),
        (chosen("none"), False, {"type": "none"}),
        (chosen("required"), None, {"type": "any"}),
        (chosen("required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (chosen("tool", "f"), None, {"type": "tool", "name": "f"}),
        (chosen("allowed", "f", require=True), None, {"type": "tool", "name": "f"}),
        (chosen("allowed", "f", "g"), None, {"type": "auto"}),
        (chosen("allowed", "f", "g", require=True), None, {"type": "any"}),
    ],
)
def test_choice(choice: ToolChoice | None, parallel: bool | None, written: Any) -> None:
    body = write(tools=[function("f"), function("g")], tool_choice=choice, parallel=parallel)
    assert body.body.get("tool_choice") == written
    assert [tool["name"] for tool in body.body["tools"]] == ["f", "g"]
    assert body.codes == {}


def test_an_allowed_subset_filters_the_tools() -> None:
    written = write(tools=[function("f"), function("g")], tool_choice=chosen("allowed", "g"))
    assert [tool["name"] for tool in written.body["tools"]] == ["g"]
    assert written.codes == {LossCode.TOOLS_FILTERED: 1}


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_T21_no_choice_without_tools(mode: str) -> None:
    written = write(tools=[], tool_choice=chosen(mode), parallel=False)
    assert "tool_choice" not in written.body
    assert "tools" not in written.body


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([], chosen("required")),
        ([search()], chosen("required")),
        ([function()], chosen("tool", "g")),
        ([search()], chosen("tool", "web_search", hosted=True)),
        ([function()], chosen("allowed", "g", require=True)),
    ],
)
def test_forcing_a_tool_that_is_not_sent_is_refused(tools: list[Tool], choice: ToolChoice) -> None:
    with pytest.raises(Unsupported, match=r"^tool_choice: "):
        write(tools=tools, tool_choice=choice)


def test_a_forced_choice_switches_thinking_off() -> None:
    fields: dict[str, Any] = {"tools": [function()], "thinking": Thinking("high", ("reasoning_effort",))}
    written = write(**fields, tool_choice=chosen("required"))
    assert written.body["thinking"] == {"type": "disabled"}
    assert written.body["tool_choice"] == {"type": "any"}
    assert "output_config" not in written.body
    assert written.codes == {LossCode.THINKING_DISABLED: 1}


def test_a_forced_choice_yields_to_a_model_that_always_thinks() -> None:
    fields: dict[str, Any] = {"tools": [function()], "thinking": Thinking("high", ("reasoning_effort",))}
    profile = ANTHROPIC.replace({"thinking_off": False})
    written = write(**fields, tool_choice=chosen("tool", "f"), parallel=False, profile=profile)
    assert written.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert written.body["thinking"] == {"type": "adaptive"}
    assert written.codes == {LossCode.CHOICE_DOWNGRADED: 1}


def test_a_forced_choice_with_thinking_where_it_is_taken() -> None:
    profile = ANTHROPIC.replace({"forced_choice_with_thinking": True})
    written = write(
        tools=[function()], tool_choice=chosen("required"), thinking=Thinking("high", ("x",)), profile=profile
    )
    assert written.body["thinking"] == {"type": "adaptive"}
    assert written.codes == {}


# --- thinking ---------------------------------------------------------------------------------------------------------

WISH = ("reasoning_effort",)


def thought(
    effort: str | None, flags: dict[str, Any] | None = None, **fields: Any
) -> tuple[Any, Any, dict[LossCode, int]]:
    display, summary = fields.pop("display", None), fields.pop("summary", None)
    wish = Thinking(effort, WISH, display, summary)
    written = write(thinking=wish, profile=ANTHROPIC.replace(flags or {}), **fields)
    return written.body.get("thinking"), written.body.get("output_config"), written.codes


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
def test_efforts(effort: str) -> None:
    assert thought(effort) == ({"type": "adaptive"}, {"effort": effort}, {})


@pytest.mark.parametrize(
    ("effort", "flags", "expected"),
    [
        ("none", {}, ({"type": "disabled"}, None, {})),
        ("none", {"thinking_off": False}, (None, {"effort": "low"}, {LossCode.EFFORT_FLOOR: 1})),
        ("minimal", {}, ({"type": "adaptive"}, {"effort": "low"}, {LossCode.EFFORT_ROUNDED: 1})),
        ("max", {"efforts": ["low", "high"]}, ({"type": "adaptive"}, {"effort": "high"}, {LossCode.EFFORT_ROUNDED: 1})),
        ("low", {"efforts": ["medium"]}, ({"type": "adaptive"}, {"effort": "medium"}, {LossCode.EFFORT_ROUNDED: 1})),
        ("low", {"efforts": []}, ({"type": "adaptive"}, None, {LossCode.EFFORT_ROUNDED: 1})),
        (None, {}, (None, None, {})),
        (None, {"thinking": "budget"}, (None, None, {})),
    ],
)
def test_efforts_are_fitted_to_the_model(effort: str | None, flags: dict[str, Any], expected: Any) -> None:
    assert thought(effort, flags) == expected


@pytest.mark.parametrize("effort", ["minimal", "high", "max"])
def test_T47_models_without_thinking_are_not_asked_to_think(effort: str) -> None:
    assert thought(effort, {"thinking": "none"}) == (None, None, {LossCode.REASONING_MODE: 1})
    assert thought("none", {"thinking": "none"}) == (None, None, {})


@pytest.mark.parametrize(
    ("effort", "budget"), [("low", 1024), ("medium", 4096), ("high", 16384), ("xhigh", 32768), ("max", 64000)]
)
def test_budgets(effort: str, budget: int) -> None:
    asked = thought(effort, {"thinking": "budget"}, max_tokens=100_000)
    assert asked == ({"type": "enabled", "budget_tokens": budget}, None, {})


def test_budgets_stay_below_the_output_cap() -> None:
    flags = {"thinking": "budget"}
    assert thought("high", flags, max_tokens=2000) == (
        {"type": "enabled", "budget_tokens": 1999},
        None,
        {LossCode.EFFORT_ROUNDED: 1},
    )
    assert thought("low", flags, max_tokens=1024) == (None, None, {LossCode.EFFORT_FLOOR: 1})


def test_what_is_shown_of_it() -> None:
    assert thought("low", summary="detailed")[0] == {"type": "adaptive", "display": "summarized"}
    assert thought(None, summary="auto")[0] == {"type": "adaptive", "display": "summarized"}
    assert thought("low", display="omitted")[0] == {"type": "adaptive", "display": "omitted"}


def test_a_budget_is_not_asked_for_in_a_tool_loop_that_began_without_thinking() -> None:
    flags = {"thinking": "budget"}
    loop = [user("a"), assistant(call()), user(result())]
    wish = Thinking("low", WISH)
    written = write(*loop, thinking=wish, profile=ANTHROPIC.replace(flags))
    assert "thinking" not in written.body
    assert written.codes == {LossCode.THINKING_DISABLED: 1}
    whole = [user("a"), assistant(thinking(SIGNED), call()), user(result())]
    assert "thinking" in write(*whole, thinking=wish, profile=ANTHROPIC.replace(flags)).body
    assert "thinking" in write(*loop, thinking=wish, profile=COMPATIBLE).body
    assert "thinking" in write(*loop, assistant("b"), user("c"), thinking=wish, profile=ANTHROPIC.replace(flags)).body


# --- other controls ---------------------------------------------------------------------------------------------------


def test_output_cap() -> None:
    assert write().body["max_tokens"] == ANTHROPIC.default_max_tokens
    capped = ANTHROPIC.replace({"max_output_tokens": 4000})
    assert write(profile=capped).body["max_tokens"] == 4000
    written = write(profile=capped, max_tokens=5000, max_tokens_at=("max_completion_tokens",))
    assert written.body["max_tokens"] == 4000
    assert written.losses.rows[0][:2] == (LossCode.CAP_CLAMPED, "max_completion_tokens")


def test_sampling() -> None:
    both = ANTHROPIC.replace({"temperature_with_top_p": True})
    written = write(temperature=0.5, top_p=0.9, top_k=4, profile=both)
    assert (written.body["temperature"], written.body["top_p"], written.body["top_k"]) == (0.5, 0.9, 4)
    written = write(temperature=1.7)
    assert written.body["temperature"] == 1
    assert written.codes == {LossCode.TEMPERATURE_CLAMPED: 1}


def test_temperature_goes_before_top_p_where_both_together_are_refused() -> None:
    written = write(temperature=0.5, top_p=0.9, top_k=4)
    assert {key: written.body.get(key) for key in ("temperature", "top_p", "top_k")} == {
        "temperature": 0.5,
        "top_p": None,
        "top_k": 4,
    }
    assert [(row.code, row.path) for row in written.losses.rows] == [(LossCode.SAMPLING_UNSUPPORTED, "top_p")]
    assert "with temperature" in written.losses.rows[0].done
    alone = write(top_p=0.9)
    assert (alone.body["top_p"], alone.codes) == (0.9, {})
    # While thinking, the temperature is left out: then `top_p` is alone.
    thinking = write(temperature=0.2, top_p=0.95, thinking=Thinking("low", WISH))
    assert ("temperature" in thinking.body, thinking.body["top_p"]) == (False, 0.95)


@pytest.mark.parametrize(
    "flags", [{"sampling": "default_only"}, {"sampling": "none"}, {"anthropic_version": "2026-10-21"}]
)
def test_sampling_where_it_is_refused(flags: dict[str, Any]) -> None:
    written = write(temperature=1, top_p=1, top_k=4, profile=ANTHROPIC.replace(flags))
    assert not {"temperature", "top_p", "top_k"} & set(written.body)
    assert written.codes == {LossCode.SAMPLING_UNSUPPORTED: 2, LossCode.TOP_K: 1}


def test_sampling_while_thinking() -> None:
    wish = Thinking("low", WISH)
    both = ANTHROPIC.replace({"temperature_with_top_p": True})
    assert write(temperature=1, top_p=0.95, thinking=wish, profile=both).codes == {}
    written = write(temperature=0.2, top_p=0.5, thinking=wish)
    assert not {"temperature", "top_p"} & set(written.body)
    assert written.codes == {LossCode.SAMPLING_UNSUPPORTED: 2}


def test_chats_own_controls_are_dropped_with_rows() -> None:
    written = write(
        sampling={"seed": 1, "logit_bias": {"1": 2}},
        metadata={"a": "b"},
        verbosity="low",
        cache={"prompt_cache_key": "k"},
        store=True,
        moderation={"model": "m", "policy": {"input": {"mode": "score"}}},
    )
    assert {row.path for row in written.losses.rows} == {"seed", "logit_bias", "metadata", "verbosity", "moderation"}
    assert set(written.body) == {"model", "max_tokens", "messages"}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"moderation": {"policy": {"output": {"mode": "block"}}}}, "moderation"),
        ({"format": OutputFormat("json_schema", ("response_format",))}, "response_format"),
    ],
)
def test_what_would_change_the_answer_is_refused(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(Unsupported, match=f"^{where}: "):
        write(**fields)


def test_stops() -> None:
    written = write(stop=["END", "", " \n", "STOP"], stop_at=("stop",))
    assert written.body["stop_sequences"] == ["END", "STOP"]
    assert [row.path for row in written.losses.rows] == ["stop[1]", "stop[2]"]
    assert "stop_sequences" not in write(stop=["\n"], stop_at=("stop",)).body


FORMAT = ("response_format",)


def test_output_schema() -> None:
    schema = {"type": "object"}
    written = write(format=OutputFormat("json_schema", FORMAT, "n", schema, True, "d"), thinking=Thinking("low", WISH))
    assert written.body["output_config"] == {"format": {"type": "json_schema", "schema": schema}, "effort": "low"}
    assert written.codes == {}
    assert write(format=OutputFormat("json_schema", FORMAT, "n", schema, False)).codes == {
        LossCode.SCHEMA_STRICTNESS: 1
    }
    with pytest.raises(Unsupported, match=r"^response_format: "):
        write(
            format=OutputFormat("json_schema", FORMAT, schema=schema),
            profile=ANTHROPIC.replace({"structured_output": False}),
        )


def test_free_json_mode() -> None:
    wanted = OutputFormat("json_object", FORMAT)
    written = write(format=wanted)
    assert set(written.body) == {"model", "max_tokens", "messages"}
    assert written.codes == {LossCode.JSON_MODE: 1}
    asked = write(system("s"), user("u"), format=wanted, knobs={"json_mode": "instruct"})
    assert asked.body["system"][0] == {"type": "text", "text": "s"}
    assert "JSON" in asked.body["system"][1]["text"]
    with pytest.raises(Unsupported, match=r"^response_format: "):
        write(format=wanted, knobs={"json_mode": "reject"})


@pytest.mark.parametrize("given", ["u" * 65, '{"device_id": "x"}'])
def test_telling_user_ids_are_hashed(given: str) -> None:
    sent = write(end_user=given).body["metadata"]["user_id"]
    assert len(sent) == 64
    assert sent != given
    assert sent == write(end_user=given).body["metadata"]["user_id"]


def test_user_id_stream_and_tier() -> None:
    body = write(end_user="u" * 64, stream=True, service_tier="default").body
    assert (body["metadata"], body["stream"], body["service_tier"]) == ({"user_id": "u" * 64}, True, "standard_only")
    assert write(service_tier="auto").body["service_tier"] == "auto"
    written = write(service_tier="flex", service_tier_at=("service_tier",))
    assert "service_tier" not in written.body
    assert written.codes == {LossCode.SERVICE_TIER: 1}


# --- cache marks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "written"),
    [
        (None, {"type": "ephemeral"}),
        ("5m", {"type": "ephemeral", "ttl": "5m"}),
        ("1h", {"type": "ephemeral", "ttl": "1h"}),
        ("30m", {"type": "ephemeral", "ttl": "5m"}),
        ("12h", {"type": "ephemeral", "ttl": "1h"}),
    ],
)
def test_cache_marks_never_move_to_a_dearer_tier(ttl: str | None, written: Any) -> None:
    assert content(Text("a", cache={"ttl": ttl})) == [{"type": "text", "text": "a", "cache_control": written}]


def test_the_last_four_marks_are_kept() -> None:
    mark = {"ttl": None}
    written = write(
        system(Text("s", cache=mark)),
        user(Text("a", cache=mark)),
        assistant(Text("b", cache=mark)),
        user(Text("c", cache=mark), Text("d", cache=mark)),
        tools=[function(cache=mark)],
    )
    assert "cache_control" not in written.body["tools"][0]
    assert "cache_control" not in written.body["system"][0]
    assert written.bytes.count(b"cache_control") == 4
    assert written.codes == {LossCode.CACHE_HINT: 2}


def test_marks_are_dropped_where_they_are_not_taken() -> None:
    mark = {"ttl": None}
    written = write(user(Text("a", cache=mark), Text("b", cache=mark)), profile=COMPATIBLE)
    assert b"cache_control" not in written.bytes
    assert written.codes == {LossCode.CACHE_HINT: 2}


def test_automatic_caching() -> None:
    marked = [Text(str(i), cache={"ttl": None}) for i in range(4)]
    written = write(user(*marked), knobs={"auto_cache": "on"})
    assert written.body["cache_control"] == {"type": "ephemeral"}
    assert written.bytes.count(b"cache_control") == 4
    assert "cache_control" not in write(knobs={"auto_cache": "on"}, profile=COMPATIBLE).body


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
