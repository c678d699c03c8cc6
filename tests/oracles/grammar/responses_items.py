"""Items, parts and snapshots of Responses, judged one by one (responses §7, §7.1, §11)."""

from __future__ import annotations

import json
from typing import Any

from .accumulated import Accumulated, Call, Json, integer, keys, parse_object, require, string

REQUIRED = {
    "id",
    "object",
    "created_at",
    "error",
    "incomplete_details",
    "instructions",
    "metadata",
    "model",
    "output",
    "parallel_tool_calls",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
}
"""Keys that a snapshot must have, whatever their value."""
CHANGING = {"status", "output", "usage", "error", "incomplete_details", "completed_at", "moderation"}
"""Keys that differ between the snapshots of one response. All others repeat the request and stay."""
INCOMPLETE_REASONS = {"max_output_tokens", "content_filter", "max_messages", "steered"}
ERROR_CODES = {
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "invalid_image",
    "bio_policy",
    "server_is_overloaded",
    "slow_down",
    "context_length_exceeded",
    "insufficient_quota",
    "usage_not_included",
    "cyber_policy",
}
"""The codes that Codex knows: another one is taken for a fault of the transport. The API's schema lists fewer; that a
translated stream keeps to those is held by `test_responses_writer_sdk`."""
_BUILT_IN = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}
"""Calls of built-in tools, and where each has what is to be done."""
_ITEM_KEYS = {
    "message": ({"id", "type", "role", "status", "content"}, {"phase"}),
    "reasoning": ({"id", "type", "summary"}, {"content", "encrypted_content", "status"}),
    "function_call": ({"id", "type", "call_id", "name", "arguments", "status"}, {"namespace", "caller", "async"}),
    "custom_tool_call": ({"id", "type", "call_id", "name", "input"}, {"namespace", "status", "caller"}),
    "tool_search_call": ({"id", "type", "call_id", "arguments", "execution", "status"}, set[str]()),
    "compaction": ({"id", "type", "encrypted_content"}, set[str]()),
    **{kind: ({"id", "type", "call_id", "status", key}, set[str]()) for kind, key in _BUILT_IN.items()},
}
_PREFIX = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "tool_search_call": "tsc_",
    "compaction": "cmp_",
    "shell_call": "sh_",
    "local_shell_call": "lsh_",
    "apply_patch_call": "apc_",
}
TEXT_KEY = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
"""Where each kind of part has its text."""
PART_OF = {"output_text": "message", "refusal": "message", "reasoning_text": "reasoning"}
CALLS = {"function_call": "arguments", "custom_tool_call": "input", "tool_search_call": "arguments", **_BUILT_IN}
"""Kinds of call, and where each has what it was called with."""
_CALL_KINDS = {
    "function_call": "function",
    "custom_tool_call": "custom",
    "tool_search_call": "search",
    **dict.fromkeys(_BUILT_IN, "built_in"),
}
_ANNOTATIONS = {
    "url_citation": {"type", "url", "title", "start_index", "end_index"},
    "file_citation": {"type", "file_id", "filename", "index"},
    "file_path": {"type", "file_id", "index"},
    "container_file_citation": {"type", "container_id", "file_id", "filename", "start_index", "end_index"},
}


def paired(text: str) -> str:
    """A text whose characters came in halves, one in each delta, as JSON's escapes of UTF-16 allow."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def check_usage(raw: Any) -> Json:
    """A usage object with every detail (the SDK's types require them). Raises GrammarError."""
    details = {"input_tokens_details", "output_tokens_details"}
    usage = keys(raw, {"input_tokens", "output_tokens", "total_tokens", *details}, set(), "usage")
    total = integer(usage["input_tokens"], "input_tokens") + integer(usage["output_tokens"], "output_tokens")
    require(integer(usage["total_tokens"], "total_tokens") == total, f"a wrong total: {usage}")
    spent = keys(usage["input_tokens_details"], {"cached_tokens", "cache_write_tokens"}, set(), "input_tokens_details")
    made = keys(usage["output_tokens_details"], {"reasoning_tokens"}, set(), "output_tokens_details")
    for name, count in {**spent, **made}.items():
        integer(count, name)
    return usage


def check_failure(raw: Any) -> Json:
    """The `error` of a failed response. Raises GrammarError."""
    error = keys(raw, {"code", "message"}, {"type", "param", "misalignment"}, "error")
    require(error["code"] in ERROR_CODES, f"error.code {error['code']!r}")
    string(error["message"], "error.message", empty=False)
    return error


def check_annotation(raw: Any) -> Json:
    """One annotation of a text. Raises GrammarError."""
    require(type(raw) is dict and raw.get("type") in _ANNOTATIONS, f"annotation {raw!r}")
    annotation = keys(raw, _ANNOTATIONS[raw["type"]], set(), "annotation")
    if "start_index" in annotation:
        start, end = integer(annotation["start_index"], "start_index"), integer(annotation["end_index"], "end_index")
        require(start <= end, f"a citation that ends before it starts: {annotation!r}")
    return annotation


def check_logprobs(raw: Any, where: str) -> None:
    """Check the log probabilities of a text: an empty array if none were requested. Raises GrammarError."""
    require(type(raw) is list, f"{where}: logprobs is not an array")
    for token in raw:
        keys(token, {"token", "logprob"}, {"bytes", "top_logprobs"}, f"{where}.logprobs[]")


def check_part(raw: Any, kind: str) -> Json:
    """One part of a message's or a reasoning item's content, of the kind. Raises GrammarError."""
    required = {"type", TEXT_KEY[kind]} | ({"annotations"} if kind == "output_text" else set())
    part = keys(raw, required, {"logprobs"} if kind == "output_text" else set(), "part")
    require(part["type"] == kind, f"part type {part['type']!r} where {kind} was due")
    string(part[TEXT_KEY[kind]], f"{kind} part")
    for annotation in part.get("annotations", []):
        check_annotation(annotation)
    if "logprobs" in part:
        check_logprobs(part["logprobs"], "part")
    return part


def check_item(raw: Any) -> Json:
    """An output item of a kind that we write, alone. Raises GrammarError."""
    require(type(raw) is dict and raw.get("type") in _ITEM_KEYS, f"unknown item: {raw!r}")
    kind = raw["type"]
    item = keys(raw, *_ITEM_KEYS[kind], kind)
    require(string(item["id"], "item id").startswith(_PREFIX[kind]), f"item id {item['id']!r} of a {kind}")
    status = item.get("status", "completed")
    require(status in ("in_progress", "completed", "incomplete"), f"item status {status!r}")
    if kind in CALLS:
        call_id = string(item["call_id"], "call_id", empty=False)
        require(len(call_id) <= 64, f"a call_id that cannot be sent back: {call_id!r}")
        if "namespace" in item:
            string(item["namespace"], "namespace", empty=False)
        if kind in _BUILT_IN:
            check_action(kind, item[_BUILT_IN[kind]])
            # AI SDK's schema has no such patch, and clients run a shell's call whatever its status.
            require(status != "incomplete", f"a {kind} that was cut")
        elif kind == "tool_search_call":
            require(item["execution"] == "client", f"execution {item['execution']!r}")
            require(type(item["arguments"]) is dict, f"a search's arguments are no object: {item['arguments']!r}")
        else:
            string(item["name"], "name", empty=False)
            string(item[CALLS[kind]], CALLS[kind])
        if kind == "function_call" and status == "completed":
            parse_object(item["arguments"])
    elif kind == "message":
        require(item["role"] == "assistant", f"role {item['role']!r}")
        require(item.get("phase", "final_answer") in ("commentary", "final_answer"), f"phase {item.get('phase')!r}")
        for part in _array(item["content"], "content"):
            kind = part.get("type") if type(part) is dict else None
            require(PART_OF.get(str(kind)) == "message", f"a part of type {kind!r} in a message")
            check_part(part, str(kind))
    elif kind == "compaction":
        string(item["encrypted_content"], "encrypted_content")
    else:
        for part in _array(item["summary"], "summary"):
            check_part(part, "summary_text")
        for part in _array(item.get("content", []), "content"):
            check_part(part, "reasoning_text")
        if "encrypted_content" in item:
            string(item["encrypted_content"], "encrypted_content", empty=False)
    return item


def check_action(kind: str, raw: Any) -> None:
    """Check the action of a built-in tool's call, in the types of OpenAI's SDK. Raises GrammarError."""
    if kind == "apply_patch_call":
        word = raw.get("type") if type(raw) is dict else None
        require(word in ("create_file", "update_file", "delete_file"), f"operation {raw!r}")
        operation = keys(raw, {"type", "path"} | (set() if word == "delete_file" else {"diff"}), set(), "operation")
        string(operation["path"], "path", empty=False)
        string(operation.get("diff", ""), "diff")
        return
    limits = {"timeout_ms", "max_output_length"}
    if kind == "local_shell_call":
        action = keys(raw, {"type", "command", "env"}, {"timeout_ms", "user", "working_directory"}, "action")
        require(action["type"] == "exec" and type(action["env"]) is dict, f"action {raw!r}")
    else:
        action = keys(raw, {"commands"}, limits, "action")
    words = _array(action.get("commands", action.get("command")), "commands")
    require(words and all(type(word) is str for word in words), f"commands {words!r}")
    for name in limits & action.keys():
        integer(action[name], name)


def _array(raw: Any, where: str) -> list[Any]:
    require(type(raw) is list, f"{where} is not an array: {raw!r}")
    assert isinstance(raw, list)
    return raw


def check_response(raw: Any) -> Json:
    """A snapshot's own fields, whatever its status. Raises GrammarError."""
    require(type(raw) is dict, f"response is not an object: {raw!r}")
    assert isinstance(raw, dict)
    require(raw.keys() >= REQUIRED | {"status", "usage"}, f"response lacks {sorted(REQUIRED - raw.keys())}")
    require(raw["object"] == "response", f"object {raw['object']!r}")
    string(raw["id"], "id", empty=False)
    string(raw["model"], "model")
    integer(raw["created_at"], "created_at")
    require(type(raw["parallel_tool_calls"]) is bool, "parallel_tool_calls is not a boolean")
    require(raw["tool_choice"] is not None, "tool_choice is null")
    _array(raw["tools"], "tools")
    _array(raw["output"], "output")
    metadata = raw["metadata"]
    require(metadata is None or type(metadata) is dict, f"metadata {metadata!r}")
    return raw


def check_end(response: Json, result: Accumulated) -> None:
    """Check how a snapshot reports the end of its response, and add that to `result`. Raises GrammarError."""
    status = response["status"]
    require(status in ("completed", "incomplete", "failed"), f"ended with status {status!r}")
    result.finish = status
    if status == "failed":
        result.error = check_failure(response["error"])
    else:
        require(response["error"] is None, f"{status} with an error")
        statuses = [item.get("status", "completed") for item in response["output"]]
        require("in_progress" not in statuses, f"an item in progress in a response that is {status}")
        if status == "completed":
            require("incomplete" not in statuses, "an incomplete item in a completed response")
    details = response["incomplete_details"]
    if status == "incomplete":
        reason = keys(details, {"reason"}, set(), "incomplete_details")["reason"]
        require(reason in INCOMPLETE_REASONS, f"reason {reason!r}")
        result.finish = f"incomplete/{reason}"
    else:
        require(details is None, f"{status} with incomplete_details")
    if response["usage"] is not None:
        result.usage = check_usage(response["usage"])


def accumulate(items: list[Json], result: Accumulated) -> None:
    """Add the content of the items to `result`, in order. A blank line separates the parts of a reasoning item."""
    for item in items:
        match item["type"]:
            case "reasoning":
                words = "\n\n".join(part["text"] for part in item.get("content") or item["summary"])
                result.blocks.append(("reasoning", words))
                result.reasoning += words
                if "encrypted_content" in item:
                    result.signatures.append(item["encrypted_content"])
            case "message":
                for part in item["content"]:
                    text = part[TEXT_KEY[part["type"]]]
                    if part["type"] == "refusal":
                        result.refusal += text
                    else:
                        result.text += text
                        result.annotations += part["annotations"]
                    result.blocks.append(("refusal" if part["type"] == "refusal" else "text", text))
            case "compaction":
                require(item["encrypted_content"], "a compaction without content")
            case kind:
                result.calls.append(call_of(item))
                result.blocks.append(("tool", result.calls[-1].arguments))
                require(kind in CALLS, f"unknown item {kind!r}")


def call_of(item: Json) -> Call:
    """A call as its client holds it; a search's arguments as compact JSON."""
    given = item[CALLS[item["type"]]]
    text = given if type(given) is str else json.dumps(given, separators=(",", ":"), ensure_ascii=False)
    name = item.get("name", item["type"].removesuffix("_call"))
    return Call(item["call_id"], name, text, item.get("namespace"), _CALL_KINDS[item["type"]])
