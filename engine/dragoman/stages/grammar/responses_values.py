"""The items, parts and snapshots of Responses, each checked by itself (responses §7, §7.1, §11)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.stages.grammar.values import (
    GrammarError,
    Json,
    an_array,
    an_object,
    count,
    key_set,
    members,
    parse_arguments,
    require,
    string,
)

_REQUIRED: Final = key_set(
    *("id", "object", "created_at", "model", "status", "output", "usage", "error", "incomplete_details"),
    *("instructions", "metadata", "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p"),
)
"""Keys that every Response object has."""
_OWN: Final = _REQUIRED | key_set(
    *("completed_at", "text", "previous_response_id", "truncation", "reasoning", "user", "max_output_tokens"),
    *("max_tool_calls", "service_tier", "safety_identifier", "prompt_cache_key", "presence_penalty"),
    *("frequency_penalty", "top_logprobs", "store", "background"),
)
"""Keys that a Response object of Dragoman has."""
_NUMBERS: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
_BOOLEANS: Final = ("parallel_tool_calls", "store", "background")
_INCOMPLETE_REASONS: Final = key_set("max_output_tokens", "content_filter", "max_messages", "steered")
_ERROR_CODES: Final = key_set(
    *("server_error", "rate_limit_exceeded", "invalid_prompt", "invalid_image", "bio_policy", "server_is_overloaded"),
    *("slow_down", "context_length_exceeded", "insufficient_quota", "usage_not_included", "cyber_policy"),
)
"""The codes that Codex knows: another one is taken for a fault of the transport. The API's schema lists fewer; that a
translated stream keeps to those is held by tests of the writer."""
_ERROR_EXTRA: Final = key_set("type", "param", "misalignment")
_CALL: Final = key_set("id", "type", "call_id", "name")
_CALL_EXTRA: Final = key_set("namespace", "caller", "async", "status", "encrypted_function_args")
_BUILT_IN: Final = {"shell_call": "action", "local_shell_call": "action", "apply_patch_call": "operation"}
"""Type of a built-in tool's call → the key of what is to be done."""
_ITEMS: Final = {
    "message": (key_set("id", "type", "role", "status", "content"), key_set("phase")),
    "reasoning": (key_set("id", "type", "summary"), key_set("content", "encrypted_content", "status")),
    "function_call": (_CALL | key_set("arguments", "status"), _CALL_EXTRA),
    "custom_tool_call": (_CALL | key_set("input"), _CALL_EXTRA),
    "tool_search_call": (key_set("id", "type", "call_id", "arguments", "execution", "status"), key_set()),
    "image_generation_call": (key_set("id", "type", "status", "result"), key_set()),
    "compaction": (key_set("id", "type", "encrypted_content"), key_set()),
    **{kind: (key_set("id", "type", "call_id", "status", key), key_set()) for kind, key in _BUILT_IN.items()},
}
"""Type of item → its required and its optional keys."""
_PREFIXES: Final = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "tool_search_call": "tsc_",
    "image_generation_call": "ig_",
    "compaction": "cmp_",
    "shell_call": "sh_",
    "local_shell_call": "lsh_",
    "apply_patch_call": "apc_",
}
CALLS: Final = {
    **{"function_call": "arguments", "custom_tool_call": "input", "tool_search_call": "arguments"},
    **_BUILT_IN,
}
"""Type of call → the key of its arguments."""
_PATCHES: Final = key_set("create_file", "update_file", "delete_file")
_SHELL_LIMITS: Final = key_set("timeout_ms", "max_output_length")
_LOCAL_SHELL: Final = key_set("timeout_ms", "user", "working_directory")
TEXT_KEY: Final = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
"""Type of part → the key of its text."""
PART_OF: Final = {"output_text": "message", "refusal": "message", "reasoning_text": "reasoning"}
"""Type of part → the type of item whose content it is."""
_STATUSES: Final = key_set("in_progress", "completed", "incomplete")
_PHASES: Final = key_set("commentary", "final_answer")
_LONGEST_CALL_ID: Final = 64
_USAGE_DETAILS: Final = {
    "input_tokens_details": key_set("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": key_set("reasoning_tokens"),
}
_USAGE: Final = key_set("input_tokens", "output_tokens", "total_tokens", *_USAGE_DETAILS)
_ANNOTATIONS: Final = {
    "url_citation": key_set("type", "url", "title", "start_index", "end_index"),
    "file_citation": key_set("type", "file_id", "index", "filename"),
    "file_path": key_set("type", "file_id", "index"),
    "container_file_citation": key_set("type", "container_id", "file_id", "filename", "start_index", "end_index"),
}
_LOGPROB: Final = key_set("token", "logprob")
_LOGPROB_EXTRA: Final = key_set("bytes", "top_logprobs")


def check_usage(raw: Any) -> Json:
    """Return a usage object with every detail, which the SDK's types require. Raises GrammarError."""
    usage = members(raw, _USAGE, key_set(), "usage")
    total = count(usage["input_tokens"], "input_tokens") + count(usage["output_tokens"], "output_tokens")
    require(count(usage["total_tokens"], "total_tokens") == total, "token counts that do not add up")
    for name, keys in _USAGE_DETAILS.items():
        for key, value in members(usage[name], keys, key_set(), name).items():
            count(value, key)
    return usage


def check_failure(raw: Any) -> Json:
    """Return the `error` of a failed response. Raises GrammarError."""
    error = members(raw, key_set("code", "message"), _ERROR_EXTRA, "an error")
    require(type(error["code"]) is str and error["code"] in _ERROR_CODES, "an error.code that agents do not know")
    string(error["message"], "the message of an error", empty=False)
    return error


def check_annotation(raw: Any) -> Json:
    """Return one annotation of a text. Raises GrammarError."""
    kind = an_object(raw, "an annotation that is not an object").get("type")
    require(type(kind) is str and kind in _ANNOTATIONS, "an annotation of another type")
    annotation = members(raw, _ANNOTATIONS[str(kind)], key_set(), "an annotation")
    if "start_index" in annotation:
        start, end = count(annotation["start_index"], "start_index"), count(annotation["end_index"], "end_index")
        require(start <= end, "a citation that ends before it starts")
    return annotation


def check_logprobs(raw: Any) -> None:
    """Check the log probabilities of a text: an empty array if none were requested. Raises GrammarError."""
    for token in an_array(raw, "logprobs"):
        members(token, _LOGPROB, _LOGPROB_EXTRA, "a log probability")


def check_part(raw: Any, kind: str) -> Json:
    """Return a part of this type, of a message or of reasoning. Raises GrammarError."""
    text = kind == "output_text"
    required = key_set("type", TEXT_KEY[kind], "annotations") if text else key_set("type", TEXT_KEY[kind])
    part = members(raw, required, key_set("logprobs") if text else key_set(), "a part")
    require(part["type"] == kind, "a part of another type than was announced")
    string(part[TEXT_KEY[kind]], "the text of a part")
    for annotation in an_array(part.get("annotations", []), "annotations"):
        check_annotation(annotation)
    if "logprobs" in part:
        check_logprobs(part["logprobs"])
    return part


def check_item(raw: Any) -> Json:
    """Return an output item of a known type. Raises GrammarError."""
    kind = an_object(raw, "an item that is not an object").get("type")
    if type(kind) is not str or kind not in _ITEMS:
        raise GrammarError("an item of an unknown type")
    item = members(raw, *_ITEMS[kind], f"a {kind}")
    require(string(item["id"], "the id of an item").startswith(_PREFIXES[kind]), "an item with an id that is not of it")
    status = item.get("status", "completed")
    require(type(status) is str and status in _STATUSES, "an item with an unknown status")
    if kind in CALLS:
        _check_call(item, kind, status)
    elif kind == "message":
        require(item["role"] == "assistant", "a message that is not the assistant's")
        phase = item.get("phase", "final_answer")
        require(type(phase) is str and phase in _PHASES, "a message with an unknown phase")
        for part in an_array(item["content"], "content"):
            part_kind = an_object(part, "a part that is not an object").get("type")
            require(type(part_kind) is str and PART_OF.get(part_kind) == "message", "a part that its item cannot have")
            check_part(part, str(part_kind))
    elif kind == "compaction":
        string(item["encrypted_content"], "encrypted_content")
    elif kind == "reasoning":
        for part in an_array(item["summary"], "summary"):
            check_part(part, "summary_text")
        for part in an_array(item.get("content", []), "content"):
            check_part(part, "reasoning_text")
        if "encrypted_content" in item:
            string(item["encrypted_content"], "encrypted_content", empty=False)
    return item


def _check_call(item: Json, kind: str, status: str) -> None:
    call_id = string(item["call_id"], "the call_id of a call", empty=False)
    require(len(call_id) <= _LONGEST_CALL_ID, "a call_id that is too long to be sent back")
    if "namespace" in item:
        string(item["namespace"], "the namespace of a call", empty=False)
    if kind in _BUILT_IN:
        _check_action(kind, item[_BUILT_IN[kind]])
        # AI SDK's schema has no such patch, and clients run a shell's call whatever its status.
        require(status != "incomplete", "a call of a built-in tool that was cut")
        return
    if kind == "tool_search_call":
        require(item["execution"] == "client", "a tool search that the client does not execute")
        an_object(item["arguments"], "the arguments of a tool search are not an object")
        return
    string(item["name"], "the name of a call", empty=False)
    arguments = string(item[CALLS[kind]], "the arguments of a call")
    if kind == "function_call" and status == "completed":
        parse_arguments(arguments)


def _check_action(kind: str, raw: Any) -> None:
    """Check what a call of a built-in tool is to do, in the types of OpenAI's SDK. Raises GrammarError."""
    if kind == "apply_patch_call":
        word = an_object(raw, "operation is not an object").get("type")
        require(type(word) is str and word in _PATCHES, "an operation of an unknown type")
        required = key_set("type", "path") if word == "delete_file" else key_set("type", "path", "diff")
        operation = members(raw, required, key_set(), "an operation")
        string(operation["path"], "the path of an operation", empty=False)
        string(operation.get("diff", ""), "the diff of an operation")
        return
    if kind == "local_shell_call":
        action = members(raw, key_set("type", "command", "env"), _LOCAL_SHELL, "an action")
        require(action["type"] == "exec" and type(action["env"]) is dict, "an action that cannot be executed")
    else:
        action = members(raw, key_set("commands"), _SHELL_LIMITS, "an action")
    words = an_array(action.get("commands", action.get("command")), "commands")
    require(words and all(type(word) is str for word in words), "an action without commands that are strings")
    for name in _SHELL_LIMITS & action.keys():
        count(action[name], name)


def check_response(raw: Any, *, own: bool = False) -> Json:
    """Return a Response object whose own keys are valid, whatever its status. Raises GrammarError.

    `own` is True for an object of Dragoman, which has every key of the API.
    """
    response = an_object(raw, "a response that is not an object")
    missing = (_OWN if own else _REQUIRED) - response.keys()
    if missing:
        raise GrammarError(f"a response without {', '.join(sorted(missing))}")
    require(response["object"] == "response", "a response that is another object")
    string(response["id"], "the id of a response", empty=False)
    string(response["model"], "the model of a response")
    count(response["created_at"], "created_at")
    require(response["tool_choice"] is not None, "a response without tool_choice")
    require(type(response["parallel_tool_calls"]) is bool, "parallel_tool_calls is not a boolean")
    if own:
        require(all(type(response[key]) in (int, float) for key in _NUMBERS), "a response without one of its numbers")
        require(all(type(response[key]) is bool for key in _BOOLEANS), "a response without one of its booleans")
    an_array(response["tools"], "tools")
    for item in an_array(response["output"], "output"):
        an_object(item, "an item that is not an object")
    metadata = response["metadata"]
    require(metadata is None or type(metadata) is dict, "metadata is not an object")
    return response


def check_end(response: Json) -> None:
    """Check how a Response object states its end. Raises GrammarError."""
    status, error, details = response["status"], response["error"], response["incomplete_details"]
    require(status in ("completed", "incomplete", "failed"), "an end with an unknown status")
    statuses = [item.get("status", "completed") for item in response["output"]]
    if status == "failed":
        check_failure(error)
    else:
        require(error is None, "an error without failure")
        require("in_progress" not in statuses, "an item in progress in a response that has ended")
    require(status != "completed" or "incomplete" not in statuses, "an incomplete item in a completed response")
    if status == "incomplete":
        reason = members(details, key_set("reason"), key_set(), "incomplete_details")["reason"]
        require(type(reason) is str and reason in _INCOMPLETE_REASONS, "an unknown reason for being incomplete")
    else:
        require(details is None, "incomplete_details in a response that is not incomplete")
    if response["usage"] is not None:
        check_usage(response["usage"])
