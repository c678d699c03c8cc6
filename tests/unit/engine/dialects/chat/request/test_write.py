"""Writing Chat requests for an upstream, mostly from requests of Messages clients."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.events import Citation
from dragoman.canonical.request import (
    Document,
    FileRef,
    Image,
    Inline,
    Json,
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
from dragoman.dialects.chat.request.read import read_request
from dragoman.dialects.chat.request.write import write_request
from dragoman.dialects.shared.effort import round_effort
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable

FIXTURES = Path(__file__).parents[1] / "fixtures"
OPENAI = builtin_profile("chat", "openai")
COMPATIBLE = builtin_profile("chat", "compatible")
PNG = Inline("image/png", "QUJD")
IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def user(*parts: Part, plain: bool = False) -> Turn:
    return Turn(Role.USER, list(parts), ("messages", 0), plain=plain)


def assistant(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, list(parts), ("messages", 1))


def system(*texts: str, plain: bool = False) -> Turn:
    return Turn(Role.INSTRUCTION, [Text(t, ("system", i)) for i, t in enumerate(texts)], ("system",), "top", plain)


def call(name: str = "f", call_id: str = "c1", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, name, arguments, ("call",))


def result(content: str | list[Part] = "out", call_id: str = "c1", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, content, ("result",), is_error)


def function(name: str = "f", **more: Any) -> Tool:
    schema = {"type": "object", "properties": {}}
    return Tool(ToolKind.FUNCTION, name, ("tools", 0), **{"schema": schema, "origin": "messages", **more})


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


def messages_of(*turns: Turn, **more: Any) -> tuple[list[Json], list[LossCode]]:
    body, losses = ask(*turns, **more)
    return body["messages"], [code for code, _ in losses]


def refused(*turns: Turn, **more: Any) -> str | None:
    with pytest.raises(Unsupported) as caught:
        ask(*turns, **more)
    return caught.value.failure.param


def flags(**changed: Any) -> Profile:
    return OPENAI.replace(changed)


# --- instructions -----------------------------------------------------------------------------------------------------


def test_system_string_and_blocks() -> None:
    assert messages_of(system("one", plain=True), HI)[0][0] == {"role": "developer", "content": "one"}
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert messages_of(system("one", "", "two"), HI)[0][0] == {"role": "developer", "content": parts}
    messages, losses = messages_of(system("one", "", "two"), HI, profile=COMPATIBLE)
    assert messages[0] == {"role": "system", "content": "one\n\ntwo"}
    assert losses == []


def test_empty_instructions_disappear() -> None:
    assert [m["role"] for m in messages_of(system("", ""), HI)[0]] == ["user"]


def test_the_role_is_kept_only_where_the_upstream_takes_both() -> None:
    turn = Turn(Role.INSTRUCTION, [Text("x")], (), "system", True)
    assert messages_of(turn, HI, origin="responses")[0][0]["role"] == "system"
    assert messages_of(turn, HI)[0][0]["role"] == "developer"
    turn.original = "developer"
    assert messages_of(turn, HI, origin="responses", profile=COMPATIBLE)[0][0]["role"] == "system"


def test_T46_mid_conversation_system_stays_in_place() -> None:
    middle = Turn(Role.INSTRUCTION, [Text("note")], ("messages", 1), "system", True)
    messages, losses = messages_of(HI, middle, assistant(Text("a")), HI)
    assert [m["role"] for m in messages] == ["user", "developer", "assistant", "user"]
    assert losses == []


def test_T46_system_as_the_last_message_after_results() -> None:
    middle = Turn(Role.INSTRUCTION, [Text("note")], ("messages", 1), "system", True)
    messages, losses = messages_of(HI, assistant(call()), user(result()), middle)
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "developer"]
    assert losses == []


def test_instruction_never_parts_calls_from_results() -> None:
    middle = Turn(Role.INSTRUCTION, [Text("note")], ("messages", 2), "system", True)
    turns = [HI, assistant(call(), call(call_id="c2")), middle, user(result()), user(result(call_id="c2"))]
    body, losses = ask(*turns)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "tool", "developer"]
    assert losses == [(LossCode.SYSTEM_REORDERED, "messages[2]")]
    longer, _ = ask(*turns, assistant(Text("done")), HI)
    assert longer["messages"][:5] == body["messages"]


def test_image_in_instructions_is_refused() -> None:
    assert refused(Turn(Role.INSTRUCTION, [Image(PNG, ("system", 0))])) == "system[0]"


# --- user content -----------------------------------------------------------------------------------------------------


def test_string_stays_string_and_array_stays_array() -> None:
    assert messages_of(HI)[0] == [{"role": "user", "content": "hi"}]
    assert messages_of(user(Text("hi")))[0] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_T40_empty_texts_and_what_they_leave_empty_are_removed() -> None:
    messages, losses = messages_of(
        HI, assistant(Text("")), user(Text(""), Text("x"), Text("")), user(Text(""), plain=True), user()
    )
    assert messages == [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
    ]
    assert losses == []
    with pytest.raises(ClientRequestError, match="nothing is left"):
        ask(user(Text(""), plain=True))


def test_images() -> None:
    messages, _ = messages_of(user(Image(PNG), Image(Url("https://a.test/i.png"), detail="low")))
    assert messages[0]["content"] == [
        IMAGE,
        {"type": "image_url", "image_url": {"url": "https://a.test/i.png", "detail": "low"}},
    ]


@pytest.mark.parametrize(
    ("part", "profile"),
    [
        (Image(FileRef("f", "messages"), ("i",)), OPENAI),
        (Image(PNG, ("i",)), flags(images=False)),
        (Image(Url("https://a.test"), ("i",)), flags(url_sources=False)),
        (Document(Inline("application/pdf", "QUJD"), ("i",)), COMPATIBLE),
        (Document(Inline("application/zip", "QUJD"), ("i",)), COMPATIBLE),
        (Document(Url("https://a.test/a.pdf"), ("i",)), OPENAI),
        (Document(FileRef("f", "messages"), ("i",)), OPENAI),
    ],
)
def test_media_the_upstream_cannot_take_is_refused(part: Part, profile: Profile) -> None:
    assert refused(user(part), profile=profile) == "i"


def test_documents() -> None:
    pdf = Document(Inline("application/pdf", "QUJD"), ("d",), "a.pdf", context="about", cite=True)
    messages, losses = messages_of(user(pdf))
    assert messages[0]["content"] == [
        {"type": "text", "text": "about"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
    ]
    assert losses == [LossCode.CITATIONS_REQUEST]
    text = Document(Text("body"), ("d",), "Title", "about")
    messages, losses = messages_of(user(text))
    assert messages[0]["content"] == [{"type": "text", "text": "Title\nabout\nbody"}]
    assert losses == [LossCode.DOCUMENT_SHAPE]
    nested = Document([Text("a"), Text(""), Image(PNG)], ("d",), "Title")
    messages, losses = messages_of(user(nested))
    assert messages[0]["content"] == [{"type": "text", "text": "Title"}, {"type": "text", "text": "a"}, IMAGE]
    assert losses == [LossCode.DOCUMENT_SHAPE]


def test_text_file_is_decoded_for_upstreams_without_files() -> None:
    data = b64encode("x,é".encode()).decode()
    messages, losses = messages_of(user(Document(Inline("text/csv", data), ("d",), "a.csv")), profile=COMPATIBLE)
    assert messages[0]["content"] == [{"type": "text", "text": "a.csv\nx,é"}]
    assert losses == [LossCode.DOCUMENT_SHAPE]
    with pytest.raises(ClientRequestError):
        ask(user(Document(Inline("text/csv", "!"), ("d",))), profile=COMPATIBLE)


def test_own_files_go_back() -> None:
    messages, _ = messages_of(user(Document(FileRef("file-1", "chat"))), origin="chat")
    assert messages[0]["content"] == [{"type": "file", "file": {"file_id": "file-1"}}]


def test_search_result_and_native_block() -> None:
    found = SearchResult("https://a.test", "T", [Text("a"), Text("b")], ("s",), cite=True)
    native = Native("messages", "x", {}, "vendor_block", ("n",))
    body, losses = ask(user(found, native))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "T\nhttps://a.test\na\nb"}]
    assert losses == [
        (LossCode.SEARCH_RESULT_SHAPE, "s"),
        (LossCode.CITATIONS_REQUEST, "s.citations"),
        (LossCode.VENDOR_BLOCK, "n"),
    ]


def test_participant_name_is_carried() -> None:
    turn = Turn(Role.USER, [Text("x")], (), plain=True, name="bob")
    assert messages_of(turn)[0] == [{"role": "user", "content": "x", "name": "bob"}]


# --- results ----------------------------------------------------------------------------------------------------------


def test_parallel_results_come_first_then_the_rest_of_the_turn() -> None:
    messages, losses = messages_of(
        HI, assistant(call(), call(call_id="c2")), user(result("1"), result("2", "c2"), Text("go on"))
    )
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ]
    assert losses == []


def test_text_before_results_still_follows_them() -> None:
    messages, _ = messages_of(HI, assistant(call()), user(Text("look"), result()))
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "user"]


def test_user_turn_between_results_follows_them() -> None:
    messages, losses = messages_of(
        HI, assistant(call(), call(call_id="c2")), user(result()), user(Text("hm")), user(result("2", "c2"))
    )
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert losses == [LossCode.BLOCK_ORDER]


def test_media_of_results_follows_all_results_in_one_message() -> None:
    body, losses = ask(
        HI,
        assistant(call(), call(call_id="c2")),
        user(result([Text("shot"), Image(PNG, ("i",))]), result([Image(PNG, ("j",))], "c2"), Text("and?")),
    )
    tools, last = body["messages"][2:4], body["messages"][4]
    assert [m["role"] for m in tools] == ["tool", "tool"]
    assert tools[0]["content"] == [
        {"type": "text", "text": "shot"},
        {"type": "text", "text": "[image: attachment 1 in the following user message]"},
    ]
    assert tools[1]["content"] == "[image: attachment 2 in the following user message]"
    assert last["role"] == "user"
    assert [part.get("text") or "image" for part in last["content"]] == [
        "Attachment 1 of the tool results (image):",
        "image",
        "Attachment 2 of the tool results (image):",
        "image",
        "and?",
    ]
    assert len(body["messages"]) == 5
    assert losses == [(LossCode.RESULT_MEDIA_MOVED, "i"), (LossCode.RESULT_MEDIA_MOVED, "j")]


def test_media_of_results_in_separate_turns_waits_for_the_last_one() -> None:
    messages, _ = messages_of(
        HI,
        assistant(call(), call(call_id="c2")),
        user(result([Image(PNG)])),
        user(result("2", "c2")),
        assistant(Text("ok")),
        HI,
    )
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert IMAGE in messages[4]["content"]


def test_pdf_result_is_named_in_its_place() -> None:
    pdf = Document(Inline("application/pdf", "QUJD"), ("d",), "a.pdf")
    messages, _ = messages_of(HI, assistant(call()), user(result([pdf])))
    assert messages[2]["content"] == "[a.pdf: attachment 1 in the following user message]"
    assert messages[3]["content"][1]["file"]["filename"] == "a.pdf"


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ("boom", "boom"),
        ("", "Error: the tool call failed without a message."),
        ([], "Error: the tool call failed without a message."),
        ([Text("")], "Error: the tool call failed without a message."),
    ],
)
def test_failure_is_shown_by_the_content(content: str | list[Part], written: str) -> None:
    body, losses = ask(HI, assistant(call()), user(result(content, is_error=True)))
    assert body["messages"][2]["content"] == written
    assert losses == [(LossCode.IS_ERROR, "result.is_error")]


@pytest.mark.parametrize("content", ["", [], [Text("")]])
def test_empty_success_stays_empty(content: str | list[Part]) -> None:
    messages, losses = messages_of(HI, assistant(call()), user(result(content)))
    assert messages[2]["content"] == ""
    assert losses == []


def test_several_texts_of_a_result() -> None:
    turns = HI, assistant(call()), user(result([Text("a"), Text("b")]))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert messages_of(*turns)[0][2]["content"] == parts
    assert messages_of(*turns, profile=COMPATIBLE)[0][2]["content"] == "a\nb"


def test_tool_reference_names_the_tool_and_is_never_an_empty_result() -> None:
    messages, losses = messages_of(HI, assistant(call()), user(result([ToolReference("mcp__x", ("r",))])))
    assert messages[2]["content"] == "Tool loaded: mcp__x"
    assert losses == [LossCode.RESULT_SHAPE]


# --- assistant turns --------------------------------------------------------------------------------------------------


def test_adjacent_texts_join_without_and_parted_ones_with_a_blank_line() -> None:
    turn = assistant(Text("a"), Text("b"), Reasoning("x", ("r",), "messages"), Text("c"))
    messages, losses = messages_of(HI, turn, HI)
    assert messages[1] == {"role": "assistant", "content": "ab\n\nc"}
    assert losses == [LossCode.REASONING_FOREIGN]


def test_text_after_a_call_is_appended_with_a_row() -> None:
    messages, losses = messages_of(HI, assistant(Text("a"), call(), Text("b")), user(result()))
    assert messages[1]["content"] == "a\n\nb"
    assert losses == [LossCode.BLOCK_ORDER]


def test_content_is_null_only_with_calls() -> None:
    messages, _ = messages_of(HI, assistant(call()), user(result()), assistant(Refusal("no")), HI)
    assert messages[1]["content"] is None
    assert messages[3] == {"role": "assistant", "content": "", "refusal": "no"}


def test_T06_arguments_are_a_string_and_stay_verbatim() -> None:
    raw = '{"b": 1.0, "a": "\\u00e9", "n": 12345678901234567890}'
    messages, _ = messages_of(HI, assistant(call(arguments=raw)), user(result()))
    assert messages[1]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": raw}},
    ]
    messages, _ = messages_of(HI, assistant(call(arguments="")), user(result()))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_custom_call() -> None:
    messages, _ = messages_of(
        HI, assistant(ToolCall("c1", "g", "free text", custom=True)), user(result()), origin="responses"
    )
    assert messages[1]["tool_calls"] == [{"id": "c1", "type": "custom", "custom": {"name": "g", "input": "free text"}}]


def test_long_call_ids_are_renamed_alike_in_call_and_result() -> None:
    long = "toolu_" + "x" * 60
    messages, _ = messages_of(HI, assistant(call(call_id=long)), user(result(call_id=long)))
    sent = messages[1]["tool_calls"][0]["id"]
    assert len(sent) <= 40
    assert messages[2]["tool_call_id"] == sent
    messages, _ = messages_of(HI, assistant(call(call_id="functions.x:0")), user(result(call_id="functions.x:0")))
    assert messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"] != "functions.x:0"


def test_T42_tool_names_fit_everywhere_and_can_be_undone() -> None:
    long = "mcp__server__" + "x" * 80
    names = NameTable(64)
    body, _ = ask(
        HI,
        assistant(call(long), call("a.b", "c2")),
        user(result(), result(call_id="c2")),
        tools=[function(long), function("a.b")],
        tool_choice=ToolChoice("tool", ("tool_choice",), [long]),
        names=names,
    )
    sent = body["tools"][0]["function"]["name"]
    assert len(sent) <= 64
    assert body["tool_choice"] == {"type": "function", "function": {"name": sent}}
    assert [c["function"]["name"] for c in body["messages"][1]["tool_calls"]] == [
        sent,
        body["tools"][1]["function"]["name"],
    ]
    assert names.back[sent] == long
    assert set(names.back.values()) == {long, "a.b"}


REASONING = Reasoning("why", ("r",), "messages", "sig", native={"type": "thinking"})


def test_T15_reasoning_goes_back_to_servers_that_want_it() -> None:
    messages, losses = messages_of(HI, assistant(REASONING, call()), user(result()), profile=COMPATIBLE)
    assert messages[1]["reasoning_content"] == "why"
    assert messages[1]["content"] is None
    assert losses == [LossCode.REASONING_SIGNATURE]  # the text goes back, its signature has no field in Chat


def test_foreign_reasoning_is_left_out_and_never_mixed_in() -> None:
    messages, losses = messages_of(HI, assistant(REASONING, Text("a")), HI)
    assert messages[1] == {"role": "assistant", "content": "a"}
    assert losses == [LossCode.REASONING_FOREIGN]
    chat = Reasoning("why", ("r",), "chat")
    assert messages_of(HI, assistant(chat, Text("a")), HI)[1] == [LossCode.REASONING_UNSIGNED]


def test_reasoning_without_text_is_encrypted_reasoning() -> None:
    redacted = Reasoning("", ("r",), "messages", "data", redacted=True)
    hidden = Reasoning("", ("r",), "messages", "sig")
    for profile in (OPENAI, COMPATIBLE):
        messages, losses = messages_of(HI, assistant(redacted, hidden, Text("a")), HI, profile=profile)
        assert "reasoning_content" not in messages[1]
        assert losses == [LossCode.REASONING_ENCRYPTED, LossCode.REASONING_ENCRYPTED]


def test_demoted_reasoning_is_a_paragraph() -> None:
    messages, losses = messages_of(HI, assistant(REASONING, Text("a")), HI, knobs=Knobs(demote_reasoning="on"))
    assert messages[1]["content"] == "why\n\na"
    assert losses == [LossCode.REASONING_FOREIGN]


def test_assistant_turn_left_empty_is_removed() -> None:
    native = Native("messages", "server_tool_use", {}, "hosted_history", ("n",))
    messages, losses = messages_of(HI, assistant(REASONING, native), user(Text("x"), plain=True))
    assert [m["role"] for m in messages] == ["user", "user"]
    assert losses == [LossCode.REASONING_FOREIGN, LossCode.HOSTED_HISTORY]


def test_foreign_citations_are_dropped() -> None:
    cited = Text("a", ("t",), citations=[Citation("messages", {}, "https://a.test")])
    messages, losses = messages_of(HI, assistant(cited), HI)
    assert "annotations" not in messages[1]
    assert losses == [LossCode.CITATIONS]


PREFILL = (HI, Turn(Role.ASSISTANT, [Text("Sure,")], ("messages", 7)))


@pytest.mark.parametrize(("knob", "roles"), [("auto", 2), ("pass", 2), ("drop", 1)])
def test_prefill(knob: Any, roles: int) -> None:
    body, losses = ask(*PREFILL, knobs=Knobs(prefill=knob))
    assert len(body["messages"]) == roles
    assert losses == [(LossCode.CONTINUATION, "messages[7]")]


def test_prefill_can_be_refused_and_open_calls_are_none() -> None:
    assert refused(*PREFILL, knobs=Knobs(prefill="reject")) == "messages[7]"
    assert messages_of(HI, assistant(call()), knobs=Knobs(prefill="reject"))[1] == []


# --- tools ------------------------------------------------------------------------------------------------------------


def test_function_tool_in_order() -> None:
    body, losses = ask(
        tools=[function("b", description="d", strict=True), function("a", schema={"type": "object"})], parallel=False
    )
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "b",
                "description": "d",
                "parameters": {"type": "object", "properties": {}},
                "strict": True,
            },
        },
        {"type": "function", "function": {"name": "a", "parameters": {"type": "object", "properties": {}}}},
    ]
    assert body["parallel_tool_calls"] is False
    assert "tool_choice" not in body
    assert losses == []


def test_T43_schema_gets_its_type_and_other_shapes_are_left_alone() -> None:
    for schema, written in (
        ({"properties": {"x": {}}}, {"type": "object", "properties": {"x": {}}}),
        ({"$schema": "s", "type": "object"}, {"$schema": "s", "type": "object", "properties": {}}),
        ({"anyOf": [{}]}, {"anyOf": [{}]}),
        (None, None),
    ):
        body, _ = ask(tools=[function(schema=schema)])
        assert body["tools"][0]["function"].get("parameters") == written


def test_T44_tool_options_leave_a_row_and_nothing_leaks() -> None:
    options = {"defer_loading": True, "eager_input_streaming": True, "input_examples": [{}], "x": False}
    body, losses = ask(tools=[function(options=options, cache={"ttl": None})])
    assert set(body["tools"][0]["function"]) == {"name", "parameters"}
    assert losses == [
        (LossCode.CACHE_HINT, "tools[0]"),
        (LossCode.TOOL_SEARCH, "tools[0].defer_loading"),
        (LossCode.TOOL_OPTION, "tools[0].eager_input_streaming"),
        (LossCode.TOOL_OPTION, "tools[0].input_examples"),
    ]


def test_typed_tools_are_refused() -> None:
    assert refused(tools=[Tool(ToolKind.TYPED, "bash", ("tools", 0), origin="messages")]) == "tools[0]"


def test_custom_tools_of_both_openai_dialects() -> None:
    flat = {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}
    tool = Tool(ToolKind.CUSTOM, "g", ("tools", 0), "d", native=flat, origin="responses")
    body, _ = ask(tools=[tool], origin="responses", tool_choice=ToolChoice("tool", (), ["g"], custom=True))
    assert body["tools"] == [
        {
            "type": "custom",
            "custom": {
                "name": "g",
                "description": "d",
                "format": {"type": "grammar", "grammar": {"definition": "x", "syntax": "lark"}},
            },
        }
    ]
    assert body["tool_choice"] == {"type": "custom", "custom": {"name": "g"}}


SEARCH = Tool(
    ToolKind.HOSTED,
    "web_search",
    ("tools", 0),
    options={"allowed_domains": ["a.test"], "user_location": {"type": "approximate", "city": "Paris"}},
    native={"type": "web_search_20250305", "name": "web_search"},
    origin="messages",
)


def test_hosted_tool_is_dropped_refused_or_mapped() -> None:
    body, losses = ask(tools=[SEARCH], tool_choice=ToolChoice("auto"))
    assert "tools" not in body
    assert "tool_choice" not in body
    assert losses == [(LossCode.HOSTED_TOOL, "tools[0]")]
    assert refused(tools=[SEARCH], knobs=Knobs(hosted_tools="reject")) == "tools[0]"
    body, losses = ask(tools=[SEARCH], knobs=Knobs(hosted_tools="map"))
    location = {"type": "approximate", "approximate": {"city": "Paris"}}
    assert body["web_search_options"] == {"user_location": location}
    assert losses == [(LossCode.TOOL_OPTION, "tools[0].allowed_domains")]
    other = Tool(
        ToolKind.HOSTED, "code_execution", ("tools", 0), native={"type": "code_execution_1"}, origin="messages"
    )
    assert ask(tools=[other], knobs=Knobs(hosted_tools="map"))[1] == [(LossCode.HOSTED_TOOL, "tools[0]")]


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (ToolChoice("auto"), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("tool", (), ["f"]), {"type": "function", "function": {"name": "f"}}),
        (
            ToolChoice("allowed", (), ["f"], require=True),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_choices(choice: ToolChoice, written: Any) -> None:
    assert ask(tools=[function()], tool_choice=choice)[0]["tool_choice"] == written


def test_T21_no_choice_without_tools() -> None:
    for mode in ("auto", "none"):
        body, losses = ask(tool_choice=ToolChoice(mode), parallel=True)
        assert set(body) == {"model", "messages"}
        assert losses == []


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([], ToolChoice("required", ("tool_choice",))),
        ([SEARCH], ToolChoice("required", ("tool_choice",))),
        ([function()], ToolChoice("tool", ("tool_choice",), ["missing"])),
        ([SEARCH, function()], ToolChoice("tool", ("tool_choice",), ["web_search"])),
        ([function()], ToolChoice("allowed", ("tool_choice",), ["f", "missing"])),
        ([function()], ToolChoice("tool", ("tool_choice",), ["f"], hosted=True)),
    ],
)
def test_choice_that_cannot_be_met_is_refused(tools: list[Tool], choice: ToolChoice) -> None:
    assert refused(tools=tools, tool_choice=choice) == "tool_choice"


# --- controls ---------------------------------------------------------------------------------------------------------


def test_cap_goes_into_the_profiles_field_and_is_clamped() -> None:
    at = ("max_tokens",)
    assert ask(max_tokens=9, max_tokens_at=at)[0]["max_completion_tokens"] == 9
    assert ask(max_tokens=9, max_tokens_at=at, profile=COMPATIBLE)[0]["max_tokens"] == 9
    body, losses = ask(max_tokens=9, max_tokens_at=at, profile=flags(max_output_tokens=5))
    assert body["max_completion_tokens"] == 5
    assert losses == [(LossCode.CAP_CLAMPED, "max_tokens")]
    assert refused(max_tokens=0, max_tokens_at=at) == "max_tokens"
    assert "max_completion_tokens" not in ask()[0]


def test_sampling() -> None:
    fields: Json = {"temperature": 0.5, "top_p": 1, "top_k": 4, "sampling": {"seed": 1}}
    body, losses = ask(**fields)
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 1, 1)
    assert "top_k" not in body
    assert losses == [(LossCode.TOP_K, "top_k")]
    body, losses = ask(**fields, profile=flags(sampling="default_only"))
    assert (body.get("temperature"), body["top_p"]) == (None, 1)
    assert [path for _, path in losses] == ["temperature", "seed", "top_k"]
    body, losses = ask(**fields, profile=flags(sampling="none"))
    assert set(body) == {"model", "messages"}
    assert [path for _, path in losses] == ["temperature", "top_p", "seed", "top_k"]
    body, losses = ask(temperature=1.7, profile=flags(max_temperature=1.0))
    assert body["temperature"] == 1.0
    assert losses == [(LossCode.TEMPERATURE_CLAMPED, "temperature")]


def test_stops_beyond_the_limit_are_left_to_emulation() -> None:
    fields: Json = {"stop": ["a", "b", "c", "d", "e"], "stop_at": ("stop_sequences",)}
    body, losses = ask(**fields)
    assert body["stop"] == ["a", "b", "c", "d"]
    assert losses == []
    _, losses = ask(**fields, knobs=Knobs(stop_emulation="off"))
    assert losses == [(LossCode.STOP_DROPPED, "stop_sequences")]
    body, losses = ask(**fields, profile=flags(stop_limit=0))
    assert "stop" not in body
    assert losses == []


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


def test_effort_is_written_with_a_row_when_rounded() -> None:
    thinking = Thinking("max", ("output_config", "effort"))
    assert ask(thinking=thinking)[0]["reasoning_effort"] == "max"
    body, losses = ask(thinking=thinking, profile=flags(efforts=("low", "high")))
    assert body["reasoning_effort"] == "high"
    assert losses == [(LossCode.EFFORT_ROUNDED, "output_config.effort")]
    _, losses = ask(thinking=Thinking("none", ("thinking",)), profile=flags(efforts=("low",)))
    assert losses == [(LossCode.EFFORT_FLOOR, "thinking")]


def test_T47_adaptive_thinking_asks_for_nothing() -> None:
    body, losses = ask(thinking=Thinking(None, ("thinking",), display="updates"), profile=flags(efforts=()))
    assert "reasoning_effort" not in body
    assert losses == [(LossCode.REASONING_MODE, "thinking.display")]
    assert ask(thinking=Thinking(None, ("thinking",), display="omitted"))[1] == []


def test_tools_together_with_reasoning() -> None:
    none = flags(tools_with_reasoning="effort_none")
    body, losses = ask(tools=[function()], thinking=Thinking("high", ("thinking",)), profile=none)
    assert body["reasoning_effort"] == "none"
    assert losses == [(LossCode.EFFORT_FLOOR, "thinking")]
    assert ask(tools=[function()], profile=none)[0]["reasoning_effort"] == "none"
    assert ask(thinking=Thinking("high"), profile=none)[0]["reasoning_effort"] == "high"
    never = flags(tools_with_reasoning="never")
    assert refused(tools=[function()], profile=never) == "tools"
    assert ask(profile=never)[1] == []


def test_output_format_of_messages_is_named_and_strict() -> None:
    schema = {"type": "object", "additionalProperties": False}
    form = OutputFormat("json_schema", ("output_config", "format"), schema=schema)
    body, _ = ask(format=form)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "response", "schema": schema, "strict": True},
    }
    assert refused(format=form, profile=flags(structured_output=False)) == "output_config.format"
    assert ask(format=OutputFormat("json_object"))[0]["response_format"] == {"type": "json_object"}


def test_end_user_is_hashed_when_long_or_json() -> None:
    assert ask(end_user="u1")[0]["safety_identifier"] == "u1"
    assert ask(end_user="u1", profile=COMPATIBLE)[0]["user"] == "u1"
    for user_id in ('{"device_id":"x"}', "x" * 65):
        sent = ask(end_user=user_id)[0]["safety_identifier"]
        assert sent == sha256(user_id.encode()).hexdigest()
        assert len(sent) == 64


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


def test_store_is_not_taken_over_from_responses() -> None:
    assert "store" not in ask(origin="responses", store=True)[0]
    assert ask(origin="chat", store=True)[0]["store"] is True


def test_stream_always_asks_for_usage() -> None:
    body, _ = ask(stream=True)
    # Its padding would be read and thrown away here (mapping §8.1).
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True, "include_obfuscation": False})
    assert ask(stream=True, profile=flags(stream_usage=False))[0]["stream_options"] == {"include_obfuscation": False}
    neither = flags(stream_usage=False, stream_obfuscation=False)
    assert "stream_options" not in ask(stream=True, profile=neither)[0]
    assert "stream" not in ask()[0]


# --- cache marks ------------------------------------------------------------------------------------------------------


def marked(text: str, ttl: str | None = None) -> Text:
    return Text(text, (text,), {"ttl": ttl})


def test_marks_are_translated_to_no_dearer_lifetime() -> None:
    messages, losses = messages_of(user(marked("a"), marked("b", "5m"), marked("c", "1h"), marked("d", "12h")))
    assert [part["prompt_cache_breakpoint"] for part in messages[0]["content"]] == [
        {"mode": "explicit"},
        {"mode": "explicit", "ttl": "30m"},
        {"mode": "explicit", "ttl": "30m"},
        {"mode": "explicit", "ttl": "12h"},
    ]
    assert losses == []


def test_only_the_last_four_marks_are_kept() -> None:
    body, losses = ask(
        Turn(Role.INSTRUCTION, [marked("s")], ()),
        user(marked("a"), marked("b")),
        assistant(marked("c"), call()),
        user(ToolResult("c1", "d", ("d",), cache={"ttl": None})),
    )
    kept = [
        part["text"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if "prompt_cache_breakpoint" in part
    ]
    assert kept == ["a", "b", "c", "d"]
    assert losses == [(LossCode.CACHE_HINT, "s")]


def test_upstreams_without_marks_get_none() -> None:
    turns = user(marked("a"), plain=True), assistant(marked("b")), HI
    body, losses = ask(*turns, profile=COMPATIBLE)
    assert "prompt_cache_breakpoint" not in json.dumps(body)
    assert losses == [(LossCode.CACHE_HINT, "a"), (LossCode.CACHE_HINT, "b")]


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
        if turn.role is Role.ASSISTANT and not any(isinstance(part, Text) for part in turn.parts):
            other.plain = turn.plain  # `""` and null both mean that there is no text
    assert again == request
    assert rewritten == written


def test_everything_of_the_dialect_survives() -> None:
    note = {
        "type": "url_citation",
        "url_citation": {"start_index": 0, "end_index": 1, "title": "A", "url": "https://a.test"},
    }
    body: Json = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "developer", "content": [{"type": "text", "text": "d"}], "name": "op"},
            {"role": "user", "content": [IMAGE, {"type": "file", "file": {"file_id": "file-1"}}], "name": "bob"},
            {
                "role": "assistant",
                "content": "x",
                "refusal": "no",
                "reasoning_content": "why",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ }"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "i"}},
                ],
                "annotations": [note],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "r"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "p"}, {"type": "text", "text": "q"}]},
            {"role": "user", "content": "go"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {}, "strict": False}},
            {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "custom", "custom": {"name": "g"}}]},
        },
        "parallel_tool_calls": True,
        "web_search_options": {"search_context_size": "low"},
        "max_completion_tokens": 5,
        "temperature": 0.1,
        "top_p": 0.2,
        "frequency_penalty": 0.3,
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["a"],
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": False}},
        "verbosity": "low",
        "safety_identifier": "u",
        "service_tier": "flex",
        "metadata": {"k": "v"},
        "store": True,
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "implicit"},
        "prompt_cache_retention": "24h",
        "moderation": {"model": "x"},
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
    }
    _, written = _reread(body)
    assert written == body
    assert list(written) == list(body)


def test_strict_losses_refuse_the_request() -> None:
    request = Request("messages", "m", [HI], top_k=3)
    with pytest.raises(Unsupported) as caught:
        write_request(
            request, model="m", profile=OPENAI, knobs=Knobs(), losses=Losses(strict=True), names=NameTable(64)
        )
    assert caught.value.failure.param == "top_k"
