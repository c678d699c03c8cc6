"""Odd items of histories, by the client's dialect, and conversations that have one at each place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from support.conversation import PNG

Json = dict[str, Any]


@dataclass(frozen=True)
class Odd:
    """Items of one history that break a rule.

    Attributes:
        items: the client's messages or items.
        texts: what the model must still see.
        changed: True if they cannot be sent as they are to any other dialect, so that there is a row.
        waits_for_item: True if they refer to an item that is missing, which is an error everywhere.
    """

    items: list[Any]
    texts: tuple[str, ...] = ()
    changed: bool = True
    waits_for_item: bool = False


PLACES: Final = ("first", "between", "after_results", "in_loop", "among_results")


def conversation(dialect: str, items: list[Any], place: str) -> Json:
    """Return a request with `items` before the last answer of its history, at `place`."""
    first, answer, call, result, last = _USUAL[dialect]
    history = {
        "first": [*items, answer],
        "between": [first, answer, *items, answer],
        "after_results": [first, call, result, *items, answer],
        "in_loop": [first, answer, *items],
        "among_results": [first, call, *items, result, answer],
    }[place]
    end = [call, result] if place == "in_loop" else [last]
    body = {"model": "m", _LISTS[dialect]: [*history, *end], "tools": [_TOOLS[dialect]]}
    return body | {"max_tokens": 100} if dialect == "messages" else body


def current(dialect: str, items: list[Any]) -> Json:
    """Return a request whose latest turn is `items`."""
    first, answer, *_ = _USUAL[dialect]
    body = {"model": "m", _LISTS[dialect]: [first, answer, *items], "tools": [_TOOLS[dialect]]}
    return body | {"max_tokens": 100} if dialect == "messages" else body


_LISTS: Final = {"chat": "messages", "messages": "messages", "responses": "input"}
_SCHEMA: Final[Json] = {"type": "object", "properties": {"a": {"type": "string"}}}
_TOOLS: Final[dict[str, Json]] = {
    "chat": {"type": "function", "function": {"name": "look", "parameters": _SCHEMA}},
    "messages": {"name": "look", "input_schema": _SCHEMA},
    "responses": {"type": "function", "name": "look", "parameters": _SCHEMA},
}
_USUAL: Final[dict[str, tuple[Json, ...]]] = {
    "chat": (
        {"role": "user", "content": "Question."},
        {"role": "assistant", "content": "Answer."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Result."},
        {"role": "user", "content": "Now."},
    ),
    "messages": (
        {"role": "user", "content": "Question."},
        {"role": "assistant", "content": "Answer."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Result."}]},
        {"role": "user", "content": "Now."},
    ),
    "responses": (
        {"role": "user", "content": "Question."},
        {"role": "assistant", "content": "Answer."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Result."},
        {"role": "user", "content": "Now."},
    ),
}

_ROLES: Final = {
    "chat": ("user", "assistant", "system", "developer", "tool", "function", "critic", None, 7, "", ["user"]),
    "messages": ("user", "assistant", "system", "critic", "tool", "developer", None, 7, "", ["user"]),
    "responses": ("user", "assistant", "system", "developer", "critic", "tool", None, 7, "", ["user"]),
}
_PNG_URL: Final = f"data:image/png;base64,{PNG}"
_PARTS: Final[dict[str, Any]] = {
    "null": None,
    "number": 7,
    "string": "kept words",
    "no type": {"text": "kept words"},
    "null type": {"type": None, "text": "kept words"},
    "number type": {"type": 7, "text": "kept words"},
    "unknown type": {"type": "hologram", "text": "kept words", "depth": 3},
    "unknown without text": {"type": "hologram", "caption": "other words"},
    "text null": {"type": "text", "text": None},
    "text number": {"type": "text", "text": 7},
    "text missing": {"type": "text"},
    "text empty": {"type": "text", "text": ""},
    "input_text list": {"type": "input_text", "text": ["kept words"]},
    "chat image": {"type": "image_url", "image_url": {"url": _PNG_URL}},
    "chat image null": {"type": "image_url", "image_url": None},
    "chat image broken": {"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}},
    "chat image tiff": {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}},
    "chat image no url": {"type": "image_url", "image_url": {"url": "no url"}},
    "chat file empty": {"type": "file", "file": {}},
    "chat audio": {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    "chat audio null": {"type": "input_audio", "input_audio": None},
    "messages image": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    "messages image broken": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "@@"}},
    "messages image tiff": {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "AAAA"}},
    "messages image no source": {"type": "image"},
    "document": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "kept words"}},
    "document no data": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}},
    "document odd source": {"type": "document", "source": {"type": "cloud", "path": "x"}},
    "search_result": {
        "type": "search_result",
        "source": "https://a.example/",
        "title": "T",
        "content": [{"type": "text", "text": "kept words"}],
    },
    "search_result empty": {"type": "search_result"},
    "container_upload": {"type": "container_upload", "file_id": "f"},
    "thinking": {"type": "thinking", "thinking": "Hm."},
    "thinking null": {"type": "thinking", "thinking": None},
    "redacted_thinking": {"type": "redacted_thinking"},
    "server_tool_use": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
    "web_search_tool_result": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    "mcp_tool_use": {"type": "mcp_tool_use", "id": "m1", "name": "n", "server_name": "s", "input": {}},
    "compaction": {"type": "compaction", "content": None},
    "tool_use": {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": "kept words"}},
    "tool_use no id": {"type": "tool_use", "name": "look", "input": {"a": "kept words"}},
    "tool_use number id": {"type": "tool_use", "id": 7, "name": "look", "input": {"a": "kept words"}},
    "tool_use no name": {"type": "tool_use", "id": "t1", "input": {"a": "kept words"}},
    "tool_use null name": {"type": "tool_use", "id": "t1", "name": None, "input": {"a": "kept words"}},
    "tool_result": {"type": "tool_result", "tool_use_id": "t9", "content": "kept words"},
    "tool_result no id": {"type": "tool_result", "content": "kept words"},
    "tool_result number id": {"type": "tool_result", "tool_use_id": 7, "content": "kept words"},
    "tool_result odd error": {"type": "tool_result", "tool_use_id": "t9", "content": "kept words", "is_error": "yes"},
    "odd cache mark": {"type": "text", "text": "kept words", "cache_control": "ephemeral"},
    "odd cache ttl": {"type": "text", "text": "kept words", "cache_control": {"type": "ephemeral", "ttl": "9d"}},
    "odd citations": {"type": "text", "text": "kept words", "citations": "c"},
    "odd annotations": {"type": "output_text", "text": "kept words", "annotations": [7]},
    "refusal": {"type": "refusal", "refusal": "kept words"},
    "refusal null": {"type": "refusal", "refusal": None},
    "input_image": {"type": "input_image", "image_url": _PNG_URL},
    "input_image empty": {"type": "input_image"},
    "input_file empty": {"type": "input_file"},
    "nested": [{"type": "text", "text": "kept words"}],
}


def _words(value: Any) -> tuple[str, ...]:
    text = repr(value)
    return tuple(word for word in ("kept words", "other words") if word in text)


def _answered(items: list[Any], dialect: str) -> list[Any]:
    """The call of a Chat result, and the result: without a call it would be left out, by another rule."""
    if dialect != "chat" or items[0].get("role") not in ("tool", "function"):
        return items
    call = {"id": "c9", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, *items]


def _messages_of(dialect: str) -> dict[str, Odd]:
    """Odd messages that all dialects can have: roles, contents and parts."""
    found: dict[str, Odd] = {}
    for name, entry in (
        ("null", None),
        ("number", 7),
        ("string", "kept words"),
        ("list", ["kept words"]),
        ("empty", {}),
    ):
        found[f"entry {name}"] = Odd([entry], _words(entry))
    for role in _ROLES[dialect]:
        extra = {"tool_call_id": "c9"} if dialect == "chat" and role in ("tool", "function") else {}
        contents: Json = {
            "null": None,
            "number": 7,
            "bool": True,
            "object": {"type": "text", "text": "kept words"},
            "empty": "",
            "no parts": [],
            "string": "kept words",
        }
        for name, content in contents.items():
            changed = role in (None, 7, "", "critic") or name in ("number", "bool")
            items = _answered([{"role": role, "content": content, **extra}], dialect)
            found[f"{role} {name}"] = Odd(items, _words(content), changed and not extra)
        found[f"{role} no content"] = Odd([{"role": role, **extra}], (), False)
        if role in ("user", "assistant", "system", "developer", "tool", "critic"):
            for name, part in _PARTS.items():
                message = {"role": role, "content": [{"type": "text", "text": "Before."}, part], **extra}
                orphan = dialect == "messages" and name.startswith("tool_result") and role in ("user", "critic", "tool")
                words = () if orphan else _words(part)
                found[f"{role} part {name}"] = Odd(_answered([message], dialect), ("Before.", *words), False)
        named = _answered([{"role": role, "content": "kept words", "name": 7, **extra}], dialect)
        found[f"{role} name"] = Odd(named, ("kept words",), False)
    if dialect != "messages":
        return found
    for name, entry in (("string", "kept words"), ("null", None)):
        for role in ("user", "assistant"):
            content = [
                {"type": "text", "text": "Before."},
                {"type": "tool_result", "tool_use_id": "z", "content": entry},
            ]
            found[f"{role} lone result {name}"] = Odd([{"role": role, "content": content}], ("Before.",), False)
    return found


def _chat() -> dict[str, Odd]:
    found = _messages_of("chat")
    calls: dict[str, Any] = {
        "null": [None],
        "string": ["kept words"],
        "no list": "kept words",
        "object": {"id": "d1", "type": "function", "function": {"name": "look", "arguments": '{"a":"kept words"}'}},
        "empty": [{}],
        "number id": [{"id": 7, "type": "function", "function": {"name": "look", "arguments": '{"a":"kept words"}'}}],
        "number name": [{"id": "d1", "type": "function", "function": {"name": 7, "arguments": '{"a":"kept words"}'}}],
        "no function": [{"id": "d1", "type": "function"}],
        "function string": [{"id": "d1", "type": "function", "function": "kept words"}],
        "unknown type": [{"id": "d1", "type": "web", "web": {"q": "kept words"}}],
        "custom": [{"id": "d1", "type": "custom", "custom": {"name": "free", "input": "kept words"}}],
        "no type": [{"id": "d1", "function": {"name": "look", "arguments": '{"a":"kept words"}'}}],
        "broken arguments": [{"id": "d1", "type": "function", "function": {"name": "look", "arguments": "kept words"}}],
        "twice": [
            {"id": "d1", "type": "function", "function": {"name": "look", "arguments": '{"a":"kept words"}'}},
            {"id": "d1", "type": "function", "function": {"name": "look", "arguments": '{"a":"other words"}'}},
        ],
        "bad signature": [
            {"id": "d1", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": 7}
        ],
    }
    for name, tool_calls in calls.items():
        call = {"role": "assistant", "content": "Before.", "tool_calls": tool_calls}
        result = {"role": "tool", "tool_call_id": 7 if name == "number id" else "d1", "content": "Output."}
        # Without a call that has its id, a result is left out, by another rule.
        output = () if name in ("null", "string", "no list", "empty") else ("Output.",)
        found[f"calls {name}"] = Odd([call, result], ("Before.", *output, *_words(tool_calls)), False)
        found[f"calls {name} alone"] = Odd([call], ("Before.", *_words(tool_calls)), False)
        found[f"calls {name} behind"] = Odd([result, call], ("Before.", *_words(tool_calls)), False)
    for key, value in {
        "refusal": 7,
        "annotations": "a",
        "reasoning_content": 7,
        "reasoning_details": "r",
        "thinking_blocks": 7,
        "audio": "a",
        "function_call": "f",
        "extra_content": 7,
        "cache_control": 7,
        "unknown": "u",
    }.items():
        message = {"role": "assistant", "content": "kept words", key: value}
        found[f"assistant {key}"] = Odd([message], ("kept words",), False)
    legacy = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "look", "arguments": '{"a":"kept words"}'},
    }
    found["function_call"] = Odd(
        [legacy, {"role": "function", "name": "look", "content": "Output."}], ("kept words", "Output.")
    )
    found["refusal"] = Odd([{"role": "assistant", "content": None, "refusal": "kept words"}], ("kept words",), False)
    for name, call_id in (("null", None), ("number", 7), ("list", ["c"]), ("empty", "")):
        found[f"result id {name}"] = Odd([{"role": "tool", "tool_call_id": call_id, "content": "kept words"}], (), True)
    found["cache mark"] = Odd([{"role": "user", "content": "kept words", "cache_control": 7}], ("kept words",), False)
    return found


def _messages() -> dict[str, Odd]:
    found = _messages_of("messages")
    for key, value in (("clear_at", "never mind"), ("output_config", 7), ("output_config", {"effort": "huge"})):
        message = {"role": "system", "content": "kept words", key: value}
        found[f"system {key} {value}"] = Odd([message], ("kept words",), False)
    found["tool change"] = Odd(
        [{"role": "system", "content": [{"type": "tool_removal", "tool": 7}, {"type": "text", "text": "kept words"}]}],
        ("kept words",),
    )
    return found


def _responses() -> dict[str, Odd]:
    found = _messages_of("responses")
    kinds = (
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "computer_call",
        "computer_call_output",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "compaction",
        "context_compaction",
        "compaction_trigger",
        "reasoning",
        "program",
        "program_output",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "tool_search_call",
        "tool_search_output",
        "additional_tools",
        "configuration_update",
        "agent_message",
        "hologram",
        "message",
    )
    for kind in kinds:
        forms: dict[str, Json] = {
            "bare": {},
            "ids": {"id": "i1", "call_id": "d1"},
            "number ids": {"id": 7, "call_id": 7},
            "nulls": {"id": None, "call_id": None, "name": None, "output": None, "content": None, "arguments": None},
            "numbers": {"id": "i1", "call_id": "d1", "name": 7, "output": 7, "content": 7, "arguments": 7, "tools": 7},
            "strings": {
                "id": "i1",
                "call_id": "d1",
                "name": "look",
                "output": "kept words",
                "content": "kept words",
                "tools": "t",
                "summary": "s",
                "action": "a",
                "operation": "o",
                "caller": "c",
                "phase": "p",
                "namespace": 7,
                "reasoning": "r",
                "text": "t",
                "role": "user",
            },
        }
        for name, fields in forms.items():
            found[f"{kind} {name}"] = Odd([{"type": kind, **fields}], (), False)
    for name, item in {
        "reference": {"type": "item_reference", "id": "msg_1"},
        "bare reference": {"id": "msg_1"},
        "null reference": {"type": None, "id": "msg_1"},
        "reference without id": {"type": "item_reference"},
        "no type": {"text": "kept words"},
        "number type": {"type": 7, "text": "kept words"},
        "reference with number": {"type": "item_reference", "id": 7},
    }.items():
        found[name] = Odd([item], _words(item), waits_for_item="reference" in name)
    call = {"type": "function_call", "call_id": "d1", "name": "look", "arguments": '{"a":"kept words"}'}
    output = {"type": "function_call_output", "call_id": "d1", "output": "Output."}
    found["call twice"] = Odd([call, output, call, output], ("kept words", "Output."), False)
    found["output first"] = Odd([output, call], ("kept words",), False)
    for name, call_id in (("number", 7), ("missing", None), ("list", ["d1"])):
        found[f"call id {name}"] = Odd(
            [{**call, "call_id": call_id}, {**output, "call_id": call_id}], ("kept words", "Output.")
        )
    return found


ODD: Final = {"chat": _chat(), "messages": _messages(), "responses": _responses()}

CURRENT: Final[dict[str, tuple[str, ...]]] = {
    "chat": (
        "entry null",
        "entry number",
        "user null",
        "user number",
        "user object",
        "user no content",
        "user name",
        "user part null",
        "user part unknown type",
        "user part tool_use",
        "user part chat image broken",
        "system null",
        "system part chat image",
        "critic string",
        "None string",
        "result id number",
        "cache mark",
    ),
    "messages": (
        "entry null",
        "entry string",
        "user null",
        "user number",
        "user no content",
        "user part no type",
        "user part unknown type",
        "user part tool_use",
        "user part tool_result no id",
        "user part messages image broken",
        "system part messages image",
        "critic string",
        "None string",
        "system clear_at never mind",
        "tool change",
    ),
    "responses": (
        "entry null",
        "entry string",
        "user null",
        "user number",
        "user part unknown type",
        "user part tool_use",
        "system part input_image",
        "critic string",
        "reference",
        "hologram bare",
        "program bare",
        "compaction bare",
    ),
}
"""Names of items that the latest turn cannot have."""
