"""Checks of requests to OpenAI's Chat Completions API."""

from __future__ import annotations

from typing import Any

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from oracles.requests import json_rules as rule

TOP = rule.words(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages "
    "metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier "
    "stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity "
    "web_search_options"
)
_MESSAGE: dict[str, frozenset[str]] = {
    "developer": frozenset({"role", "content", "name"}),
    "system": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    # `reasoning_content` is accepted as by the servers that send it, of which the simulator is one. `annotations` are
    # sent back by every client that appends the reply's message to its history, as OpenAI's guides do.
    "assistant": rule.words("role content refusal tool_calls name audio function_call reasoning_content annotations"),
    "tool": frozenset({"role", "content", "tool_call_id"}),
    "function": frozenset({"role", "content", "name"}),
}
_PARTS: dict[str, frozenset[str]] = {
    "developer": frozenset({"text"}),
    "system": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
    "function": frozenset(),
}
_NAME_MAX = 64
_CALL_ID_MAX = 40
_MARK = "prompt_cache_breakpoint"
_REPLAYED = frozenset({"annotations", "logprobs"})
"""Keys of reply parts that clients of OpenAI send back with the assistant's text."""


def check_request(body: Json) -> None:
    """Raise RequestRejected if the real API would answer 400."""
    rule.known_keys(body, TOP)
    rule.string(rule.required(body, "model"), "model")
    messages = rule.array(rule.required(body, "messages"), "messages", least=1)
    _numbers(body)
    _options(body)
    _tools(body)
    for index, message in enumerate(messages):
        _message(rule.object_(message, f"messages[{index}]"), f"messages[{index}]")
    _pairs(messages)


def _numbers(body: Json) -> None:
    rule.number(body, "temperature", 0, 2)
    rule.number(body, "top_p", 0, 1)
    rule.number(body, "frequency_penalty", -2, 2)
    rule.number(body, "presence_penalty", -2, 2)
    rule.number(body, "max_tokens", 1, whole=True)
    rule.number(body, "max_completion_tokens", 1, whole=True)
    rule.number(body, "top_logprobs", 0, 20, whole=True)
    rule.number(body, "seed", -(2**63), 2**63 - 1, whole=True)
    rule.number(body, "n", 1, 1, whole=True)  # The real API goes to 128; there is one script.
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        why = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise RequestRejected(why, "max_tokens", "invalid_parameter_combination")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise RequestRejected("'logprobs' must be true when 'top_logprobs' is set.", "top_logprobs", "invalid_value")


def _options(body: Json) -> None:
    for key in ("stream", "store", "logprobs", "parallel_tool_calls"):
        rule.flag(body, key)
    if body.get("stream_options") is not None:
        if not body.get("stream"):
            why = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
            raise RequestRejected(why, "stream_options")
        options = rule.object_(body["stream_options"], "stream_options")
        rule.known_keys(options, frozenset({"include_usage", "include_obfuscation"}), "stream_options")
    stop = body.get("stop")
    if isinstance(stop, list):
        if len(stop) > 4:
            why = f"Invalid 'stop': array too long. Expected an array with maximum length 4, but got {len(stop)}."
            raise RequestRejected(why, "stop", "array_above_max_length")
        for at, text in enumerate(stop):
            rule.string(text, f"stop[{at}]")
    elif stop is not None:
        rule.string(stop, "stop")
    rule.word(body.get("reasoning_effort"), rule.EFFORTS, "reasoning_effort")
    rule.word(body.get("verbosity"), rule.VERBOSITIES, "verbosity")
    rule.metadata(body)
    for key, longest in (("user", None), ("safety_identifier", 128), ("prompt_cache_key", 64)):
        if body.get(key) is not None:
            rule.string(body[key], key, longest)
    form = body.get("response_format")
    if form is not None:
        _format(rule.object_(form, "response_format"))


def _format(form: Json) -> None:
    rule.word(rule.required(form, "type", "response_format"), _FORMATS, "response_format.type")
    if form["type"] != "json_schema":
        return
    at = "response_format.json_schema"
    inner = rule.object_(rule.required(form, "json_schema", "response_format"), at)
    rule.known_keys(inner, frozenset({"name", "description", "schema", "strict"}), at)
    label = rule.name(rule.required(inner, "name", at), f"{at}.name", _NAME_MAX)
    rule.format_schema(inner.get("schema", {}), label, f"{at}.schema", strict=bool(inner.get("strict")))


_FORMATS = frozenset({"text", "json_object", "json_schema"})


def _tools(body: Json) -> None:
    tools = body.get("tools")
    if tools is None:
        for key in ("tool_choice", "parallel_tool_calls"):
            if body.get(key) is not None:
                raise RequestRejected(f"'{key}' is only allowed when 'tools' are specified.", key)
        return
    names = {_tool(rule.object_(t, f"tools[{at}]"), f"tools[{at}]") for at, t in enumerate(rule.array(tools, "tools"))}
    if not tools:
        raise RequestRejected(
            "Invalid 'tools': empty array. Expected an array with minimum length 1.", "tools", "empty_array"
        )
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        kind = rule.required(choice, "type", "tool_choice")
        if kind == "allowed_tools":
            rule.required(choice, "allowed_tools", "tool_choice")
            return
        rule.word(kind, frozenset({"function", "custom"}), "tool_choice.type")
        chosen = rule.object_(rule.required(choice, kind, "tool_choice"), f"tool_choice.{kind}").get("name")
        if chosen not in names:
            raise RequestRejected(f"Tool choice '{chosen}' not found in 'tools' parameter.", "tool_choice")
    else:
        rule.word(choice, frozenset({"none", "auto", "required"}), "tool_choice")


def _tool(tool: Json, at: str) -> str:
    kind = rule.required(tool, "type", at)
    rule.word(kind, frozenset({"function", "custom"}), f"{at}.type")
    rule.known_keys(tool, frozenset({"type", kind}), at)
    inner = rule.object_(rule.required(tool, kind, at), f"{at}.{kind}")
    name = rule.name(rule.required(inner, "name", f"{at}.{kind}"), f"{at}.{kind}.name", _NAME_MAX)
    if kind == "custom":
        rule.known_keys(inner, frozenset({"name", "description", "format"}), f"{at}.custom")
        return name
    rule.known_keys(inner, frozenset({"name", "description", "parameters", "strict"}), f"{at}.function")
    schema_at = f"{at}.function.parameters"
    rule.function_schema(inner.get("parameters"), name, schema_at, strict=bool(inner.get("strict")))
    return name


def _message(message: Json, at: str) -> None:
    role = rule.string(rule.required(message, "role", at), f"{at}.role")
    rule.word(role, frozenset(_MESSAGE), f"{at}.role")
    rule.known_keys(message, _MESSAGE[role], at)
    content = message.get("content")
    if role == "assistant":
        _calls(message, at)
        if content is None and not any(message.get(key) for key in ("tool_calls", "refusal", "function_call", "audio")):
            raise RequestRejected(f"Invalid value for '{at}.content': expected a string, got null.", f"{at}.content")
    elif content is None:
        raise RequestRejected(f"Invalid value for '{at}.content': expected a string, got null.", f"{at}.content")
    if role == "tool":
        rule.string(rule.required(message, "tool_call_id", at), f"{at}.tool_call_id", _CALL_ID_MAX)
    if isinstance(content, list):
        for n, part in enumerate(rule.array(content, f"{at}.content", least=1)):
            _part(rule.object_(part, f"{at}.content[{n}]"), role, f"{at}.content[{n}]")
    elif content is not None:
        rule.string(content, f"{at}.content")


def _part(part: Json, role: str, at: str) -> None:
    kind = rule.required(part, "type", at)
    rule.word(kind, _PARTS[role], f"{at}.type")
    rule.known_keys(part, frozenset({"type", kind, _MARK}) | (_REPLAYED if role == "assistant" else frozenset()), at)
    inner = rule.required(part, kind, at)
    if kind in ("text", "refusal"):
        rule.string(inner, f"{at}.{kind}")
        return
    holder = rule.object_(inner, f"{at}.{kind}")
    if kind == "image_url":
        rule.known_keys(holder, frozenset({"url", "detail"}), f"{at}.image_url")
        url = rule.string(rule.required(holder, "url", f"{at}.image_url"), f"{at}.image_url.url")
        if not url.startswith(("http://", "https://", "data:image/")):
            raise RequestRejected(
                "Invalid image URL: expected a valid URL or a base64 data URL.", f"{at}.image_url.url"
            )
    elif kind == "file":
        rule.known_keys(holder, frozenset({"file_data", "file_id", "filename"}), f"{at}.file")
        if not holder.get("file_id") and not holder.get("file_data"):
            raise RequestRejected(f"Missing required parameter: '{at}.file.file_id'.", f"{at}.file.file_id")


def _calls(message: Json, at: str) -> None:
    calls = message.get("tool_calls")
    if calls is None:
        return
    for n, call in enumerate(rule.array(calls, f"{at}.tool_calls", least=1)):
        where = f"{at}.tool_calls[{n}]"
        kind = rule.required(rule.object_(call, where), "type", where)
        rule.word(kind, frozenset({"function", "custom"}), f"{where}.type")
        rule.known_keys(call, frozenset({"id", "type", kind}), where)
        rule.string(rule.required(call, "id", where), f"{where}.id", _CALL_ID_MAX)
        inner: Any = rule.object_(rule.required(call, kind, where), f"{where}.{kind}")
        text = "input" if kind == "custom" else "arguments"
        rule.known_keys(inner, frozenset({"name", text}), f"{where}.{kind}")
        rule.name(rule.required(inner, "name", f"{where}.{kind}"), f"{where}.{kind}.name", _NAME_MAX)
        rule.string(rule.required(inner, text, f"{where}.{kind}"), f"{where}.{kind}.{text}")


def _pairs(messages: list[Json]) -> None:
    """Check that every call has a tool message right after it, and that there are no other tool messages."""
    open_calls: list[str] = []
    in_turn = False
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            answered = message["tool_call_id"]
            if not in_turn:
                why = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                raise RequestRejected(f"Invalid parameter: {why}", f"messages[{at}].role")
            if answered not in open_calls:
                raise RequestRejected(
                    f"Invalid parameter: 'tool_call_id' of '{answered}' not found.", f"messages[{at}]"
                )
            open_calls.remove(answered)
            continue
        _all_answered(open_calls, at)
        calls = message.get("tool_calls") or []
        in_turn = bool(calls)
        open_calls = [call["id"] for call in calls]
    _all_answered(open_calls, len(messages))


def _all_answered(open_calls: list[str], at: int) -> None:
    if open_calls:
        why = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
        )
        raise RequestRejected(why, f"messages[{at}].role" if at else "messages")
