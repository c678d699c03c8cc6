"""Checks of requests to OpenAI's Responses API."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.reply import SIGNATURE_PREFIX
from oracles.requests import json_rules as rule

TOP = rule.words(
    "access_programs background client_metadata context_management conversation image include input instructions "
    "max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt "
    "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store "
    "stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user"
)
COUNTED = rule.words(
    "conversation input instructions model parallel_tool_calls personality previous_response_id reasoning text "
    "tool_choice tools truncation"
)
INCLUDES = rule.words(
    "reasoning.encrypted_content message.output_text.logprobs message.input_image.image_url web_search_call.results "
    "web_search_call.action.sources file_search_call.results code_interpreter_call.outputs "
    "computer_call_output.output.image_url"
)
_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_KEYS: dict[str, frozenset[str]] = {
    "message": frozenset({"type", "id", "role", "content", "status", "phase"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
    "function_call": frozenset(
        {
            "type",
            "id",
            "call_id",
            "name",
            "arguments",
            "status",
            "namespace",
            "caller",
            "async",
            "encrypted_function_args",
        }
    ),
    "function_call_output": frozenset({"type", "id", "call_id", "output", "status", "name", "namespace", "caller"}),
    "custom_tool_call": frozenset({"type", "id", "call_id", "name", "input", "status", "namespace", "caller"}),
    "custom_tool_call_output": frozenset({"type", "id", "call_id", "output", "status", "name", "namespace", "caller"}),
}
_OF_CODEX = "internal_chat_message_metadata_passthrough"
"""A field that Codex 0.171 adds to items with its own provider of OpenAI, also with an API key."""
_OTHER_ITEMS = rule.words(
    "additional_tools agent_message apply_patch_call apply_patch_call_output code_interpreter_call compaction "
    "compaction_trigger computer_call computer_call_output configuration_update file_search_call "
    "image_generation_call item_reference "
    "local_shell_call local_shell_call_output mcp_approval_request mcp_approval_response mcp_call mcp_list_tools "
    "program program_output shell_call shell_call_output tool_search_call tool_search_output web_search_call"
)
_WITH_TOOLS = frozenset({"additional_tools", "tool_search_output"})
_INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
_OUTPUT_PARTS = frozenset({"output_text", "refusal"})
_ROLES = frozenset({"user", "system", "developer", "assistant"})
_OUTPUT_OF = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_NAME_MAX = 128
_CALL_ID_MAX = 64


def check_request(body: Json) -> None:
    """Raise RequestRejected if the real API would answer 400."""
    rule.known_keys(body, TOP)
    rule.string(rule.required(body, "model"), "model")
    _options(body)
    _tools(body)
    chained = body.get("previous_response_id") is not None or body.get("conversation") is not None
    items = body.get("input")
    if items is None:
        if not chained and body.get("prompt") is None:
            raise RequestRejected("Missing required parameter: 'input'.", "input", "missing_required_parameter")
        return
    if isinstance(items, str):
        return
    for at, item in enumerate(rule.array(items, "input", least=0 if chained else 1)):
        _item(rule.object_(item, f"input[{at}]"), f"input[{at}]")
    _pairs(items, chained=chained)


def check_count(body: Json) -> None:
    """Raise RequestRejected for an invalid token-counting request, in which model and input are optional."""
    rule.known_keys(body, COUNTED)
    check_request({"model": "counted", "input": "", **{key: value for key, value in body.items() if key in TOP}})


def check_signatures(body: Json) -> None:
    """Reject encrypted reasoning that the simulator did not make."""
    for at, item in enumerate(body["input"] if isinstance(body.get("input"), list) else []):
        encrypted = item.get("encrypted_content") if item.get("type") == "reasoning" else None
        if encrypted is None:
            continue
        try:
            ours = b64decode(encrypted, validate=True).startswith(SIGNATURE_PREFIX.encode())
        except NotBase64:
            ours = False
        if not ours:
            why = "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted."
            raise RequestRejected(why, f"input[{at}].encrypted_content", "invalid_encrypted_content")


def _options(body: Json) -> None:
    rule.number(body, "temperature", 0, 2)
    rule.number(body, "top_p", 0, 1)
    rule.number(body, "top_logprobs", 0, 20, whole=True)
    rule.number(body, "max_output_tokens", 16, whole=True)
    for key in ("stream", "store", "background", "parallel_tool_calls"):
        rule.flag(body, key)
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        why = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."
        raise RequestRejected(why, "conversation", "mutually_exclusive_parameters")
    for at, name in enumerate(rule.array(body.get("include") or [], "include")):
        rule.word(name, INCLUDES, f"include[{at}]")
    if body.get("stream_options") is not None:
        options = rule.object_(body["stream_options"], "stream_options")
        rule.known_keys(options, frozenset({"include_obfuscation"}), "stream_options")
    reasoning = rule.object_(body.get("reasoning") or {}, "reasoning")
    keys = frozenset({"effort", "summary", "context", "mode", "generate_summary"})
    rule.known_keys(reasoning, keys, "reasoning")
    rule.word(reasoning.get("effort"), rule.EFFORTS, "reasoning.effort")
    rule.word(reasoning.get("summary"), frozenset({"auto", "concise", "detailed"}), "reasoning.summary")
    rule.metadata(body)
    for key, longest in (("user", None), ("safety_identifier", 128), ("prompt_cache_key", 64), ("instructions", None)):
        if body.get(key) is not None:
            rule.string(body[key], key, longest)
    text = rule.object_(body.get("text") or {}, "text")
    rule.known_keys(text, frozenset({"format", "verbosity"}), "text")
    rule.word(text.get("verbosity"), rule.VERBOSITIES, "text.verbosity")
    if text.get("format") is not None:
        _format(rule.object_(text["format"], "text.format"))


def _format(form: Json) -> None:
    kind = rule.required(form, "type", "text.format")
    rule.word(kind, frozenset({"text", "json_object", "json_schema"}), "text.format.type")
    if kind == "json_schema":
        rule.known_keys(form, frozenset({"type", "name", "schema", "strict", "description"}), "text.format")
        label = rule.name(rule.required(form, "name", "text.format"), "text.format.name", 64)
        schema = rule.required(form, "schema", "text.format")
        rule.format_schema(schema, label, "text.format.schema", strict=bool(form.get("strict")))


def _tools(body: Json) -> None:
    names: set[str] = set()
    for at, tool in enumerate(rule.array(body.get("tools") or [], "tools")):
        names |= _tool(rule.object_(tool, f"tools[{at}]"), f"tools[{at}]")
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        rule.word(choice, frozenset({"none", "auto", "required"}), "tool_choice")
        if choice == "required" and not body.get("tools"):
            raise RequestRejected("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
        return
    kind = rule.required(choice, "type", "tool_choice")
    if kind in ("function", "custom"):
        name = rule.required(choice, "name", "tool_choice")
        if name not in names:
            raise RequestRejected(f"Tool choice '{kind}' not found in 'tools' parameter.", "tool_choice")


_FUNCTION = rule.words("type name description parameters strict defer_loading allowed_callers output_schema async")


def _tool(tool: Json, at: str) -> set[str]:
    kind = rule.string(rule.required(tool, "type", at), f"{at}.type")
    if kind == "namespace":
        name = rule.name(rule.required(tool, "name", at), f"{at}.name", 64)
        inner = rule.array(rule.required(tool, "tools", at), f"{at}.tools", least=1)
        return {name, *(n for m, member in enumerate(inner) for n in _member(member, f"{at}.tools[{m}]"))}
    if kind not in ("function", "custom"):
        return {kind}
    name = rule.name(rule.required(tool, "name", at), f"{at}.name", _NAME_MAX)
    if kind == "function":
        rule.known_keys(tool, _FUNCTION, at)
        rule.function_schema(tool.get("parameters"), name, f"{at}.parameters", strict=tool.get("strict") is True)
    return {name}


def _member(tool: Any, at: str) -> set[str]:
    return _tool(rule.object_(tool, at), at)


def _item(item: Json, at: str) -> None:
    kind = rule.string(item.get("type", "message"), f"{at}.type")
    if kind in _OTHER_ITEMS:
        if kind in _WITH_TOOLS:
            for n, tool in enumerate(rule.array(rule.required(item, "tools", at), f"{at}.tools")):
                _tool(rule.object_(tool, f"{at}.tools[{n}]"), f"{at}.tools[{n}]")
        return
    rule.word(kind, frozenset(_KEYS), f"{at}.type")
    rule.known_keys(item, _KEYS[kind] | {_OF_CODEX}, at)
    if "id" in item and item["id"] is not None:
        _item_id(rule.string(item["id"], f"{at}.id", 64), kind, item, at)
    match kind:
        case "message":
            _message(item, at)
        case "reasoning":
            rule.array(rule.required(item, "summary", at), f"{at}.summary")
            if item.get("content"):
                why = f"Invalid '{at}.content': array too long. Expected an array with maximum length 0."
                raise RequestRejected(why, f"{at}.content", "array_above_max_length")
        case "function_call" | "custom_tool_call":
            rule.string(rule.required(item, "call_id", at), f"{at}.call_id", _CALL_ID_MAX)
            rule.name(rule.required(item, "name", at), f"{at}.name", _NAME_MAX)
            text = "arguments" if kind == "function_call" else "input"
            rule.string(rule.required(item, text, at), f"{at}.{text}")
        case _:
            if item.get("name") is None:  # a named output without a call is the prompt of a scheduled task
                rule.required(item, "call_id", at)
            if item.get("call_id") is not None:
                rule.string(item["call_id"], f"{at}.call_id", _CALL_ID_MAX)
            _content(rule.required(item, "output", at), _INPUT_PARTS, f"{at}.output")


def _item_id(item_id: str, kind: str, item: Json, at: str) -> None:
    """Accept ids with the prefix of the item's type. Outputs of tools and input messages may have any id."""
    prefix = _PREFIX.get(kind)
    if prefix is not None and not item_id.startswith(prefix + "_"):
        why = f"Invalid '{at}.id': '{item_id}'. Expected an ID that begins with '{prefix}'."
        raise RequestRejected(why, f"{at}.id", "invalid_value")


def _message(item: Json, at: str) -> None:
    role = rule.string(rule.required(item, "role", at), f"{at}.role")
    rule.word(role, _ROLES, f"{at}.role")
    _content(
        rule.required(item, "content", at), _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS, f"{at}.content"
    )


def _content(content: object, parts: frozenset[str], at: str) -> None:
    if isinstance(content, str):
        return
    for n, part in enumerate(rule.array(content, at)):
        where = f"{at}[{n}]"
        kind = rule.required(rule.object_(part, where), "type", where)
        rule.word(kind, parts, f"{where}.type")
        if "cache_control" in part:
            rule.known_keys(part, frozenset(part) - {"cache_control"}, where)
        match kind:
            case "input_text" | "output_text":
                rule.string(rule.required(part, "text", where), f"{where}.text")
            case "refusal":
                rule.string(rule.required(part, "refusal", where), f"{where}.refusal")
            case "input_image":
                _image(part, where)
            case _:
                if not any(part.get(key) for key in ("file_data", "file_id", "file_url")):
                    raise RequestRejected(f"Missing required parameter: '{where}.file_id'.", f"{where}.file_id")


def _image(part: Json, at: str) -> None:
    if part.get("file_id"):
        return
    url = rule.string(rule.required(part, "image_url", at), f"{at}.image_url")
    if not url.startswith(("http://", "https://", "data:image/")):
        raise RequestRejected("Invalid image URL: expected a valid URL or a base64 data URL.", f"{at}.image_url")


def _pairs(items: list[Json], *, chained: bool) -> None:
    """Check that every output follows its call, every call has an output, and ids are unique."""
    seen: set[str] = set()
    calls: dict[str, str] = {}
    answered: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        item_id = item.get("id")
        if item_id and kind in _PREFIX:
            if item_id in seen:
                raise RequestRejected(f"Duplicate item found with id {item_id}. Remove duplicate items.", "input")
            seen.add(item_id)
        if kind in ("function_call", "custom_tool_call"):
            calls[item["call_id"]] = kind
        elif kind in _OUTPUT_OF and item.get("call_id") is not None:
            call = calls.get(item["call_id"])
            if call != _OUTPUT_OF[kind] and not (chained and call is None):
                label = "custom tool call" if kind.startswith("custom") else "function call"
                why = f"No tool call found for {label} output with call_id {item['call_id']}."
                raise RequestRejected(why, f"input[{at}]" if call else "input")
            answered.add(item["call_id"])
    for call_id, kind in calls.items():
        if call_id not in answered:
            label = "custom tool call" if kind.startswith("custom") else "function call"
            raise RequestRejected(f"No tool output found for {label} {call_id}.", "input")
