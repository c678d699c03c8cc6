"""Small bodies that hold, together, each object that a request of a dialect may hold."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_USER: Json = {"role": "user", "content": "Hi"}
_MARK: Json = {"type": "ephemeral", "ttl": "5m"}
_BREAK: Json = {"mode": "explicit", "ttl": "30m"}
_PNG = "data:image/png;base64,QUJD"
_PDF = "data:application/pdf;base64,QUJD"
_SCHEMA: Json = {"type": "object", "properties": {}}


def _text(**more: Any) -> Json:
    return {"type": "text", "text": "a", **more}


def _assistant(*content: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": list(content) or None, **more}


def _user(*content: Json) -> Json:
    return {"role": "user", "content": list(content)}


# --- chat -------------------------------------------------------------------------------------------------------------


def _chat(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "messages": [_USER, *messages], **fields}


def _image_url(**more: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": _PNG, "detail": "low"}, **more}


def _function(**more: Any) -> Json:
    return {"type": "function", "function": {"name": "f", "description": "d", "parameters": _SCHEMA, **more}}


def _custom(form: Json) -> Json:
    return {"type": "custom", "custom": {"name": "c", "description": "d", "format": form}}


def _answer(call_id: str, content: Any = "r", **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_BARE_CALL: Json = {"id": "c1", "function": {"name": "f"}}
_CUSTOM_CALL: Json = {"id": "c2", "type": "custom", "custom": {"name": "c", "input": "x"}}
_CITED: Json = {"type": "url_citation", "url_citation": {"url": "https://a.b", "title": "t", "start_index": 0}}
_GRAMMAR = _custom({"type": "grammar", "grammar": {"definition": "a", "syntax": "lark"}})
_F: Json = {"type": "function", "function": {"name": "f"}}
_PLACE: Json = {"type": "approximate", "approximate": {"city": "c"}}

CHAT = [
    _chat({"role": "system", "content": [_text()]}, _assistant(_text()), _user(_text())),
    _chat({"role": "system", "content": "s", "cache_control": _MARK}, _user(_text(cache_control=_MARK))),
    _chat(_assistant(_text(prompt_cache_breakpoint=_BREAK)), tools=[{**_function(), "cache_control": _MARK}]),
    _chat(_user(_image_url(), _image_url(cache_control=_MARK))),
    _chat(_user({"type": "file", "file": {"filename": "a.pdf", "file_data": _PDF}, "cache_control": _MARK})),
    _chat(_user({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}})),
    _chat(_assistant(tool_calls=[_CALL]), _answer("c1"), tools=[_function()]),
    _chat(_assistant(tool_calls=[_BARE_CALL]), _answer("c1"), tools=[_function()]),
    _chat(_assistant(tool_calls=[{**_CALL, "index": 0, "cache_control": _MARK}]), _answer("c1", cache_control=_MARK)),
    _chat(_assistant(tool_calls=[_CALL]), _answer("c1", [_text(), _image_url()]), tools=[_function()]),
    _chat(_assistant(tool_calls=[_CUSTOM_CALL]), _answer("c2"), tools=[_GRAMMAR]),
    _chat(_assistant(_text(), annotations=[_CITED])),
    _chat(_assistant(_text(annotations=[_CITED]), _text())),
    _chat(_assistant(_text(), reasoning_content="t")),
    _chat(_assistant(_text(), reasoning_details=[{"type": "reasoning.text", "text": "t", "signature": "s"}])),
    _chat(_assistant(_text(), thinking_blocks=[{"type": "thinking", "thinking": "t", "signature": "s"}])),
    _chat(_assistant({"type": "refusal", "refusal": "no"})),
    _chat(tools=[_function(), {"type": "function", "function": {"name": "g"}}]),
    _chat(tools=[_custom({"type": "text"})]),
    _chat(tools=[_function()], tool_choice=_F),
    _chat(tools=[_GRAMMAR], tool_choice={"type": "custom", "custom": {"name": "c"}}),
    _chat(
        tools=[_function()],
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_F]}},
    ),
    _chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": _SCHEMA, "strict": True}}),
    _chat(response_format={"type": "json_object"}),
    _chat(response_format={"type": "text"}),
    _chat(stream=True, stream_options={"include_usage": True}),
    _chat(prediction={"type": "content", "content": [_text()]}),
    _chat(web_search_options={"search_context_size": "low", "user_location": _PLACE}),
    _chat(prompt_cache_options={"mode": "explicit"}),
    _chat(moderation={"model": "m"}),
]


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "max_tokens": 2000, "messages": [_USER, *messages], **fields}


def _given(kind: str, source: Json, **more: Any) -> Json:
    return _messages(_user({"type": kind, "source": source, **more}))


def _use(**more: Any) -> Json:
    return {"type": "tool_use", "id": "t1", "name": "f", "input": {}, **more}


def _loop(*results: Any, **more: Any) -> Json:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": list(results) or "r", **more}
    return _messages(_assistant(_text(), _use()), _user(result), tools=[_tool()])


def _tool(name: str = "f", **more: Any) -> Json:
    return {"name": name, "description": "d", "input_schema": _SCHEMA, **more}


_IMAGE: Json = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
_PAGES: Json = {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}
_PLAIN: Json = {"type": "text", "media_type": "text/plain", "data": "a"}
_FOUND: Json = {"type": "search_result", "source": "s", "title": "t", "content": [_text()]}
_SPAN: Json = {"type": "char_location", "cited_text": "c", "document_index": 0, "start_char_index": 0}
_SEARCH: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
_HERE: Json = {"type": "approximate", "city": "c"}
_HOSTED_CALL: Json = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
_HOSTED_RESULT: Json = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
_REASONING: Json = {"type": "thinking", "thinking": "t", "signature": "s"}
_FORMAT: Json = {"type": "json_schema", "schema": _SCHEMA}
_CHANGES = [
    {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": _tool("g")}},
    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}, "cache_control": _MARK},
]

MESSAGES = [
    _messages(_assistant(_text()), _user(_text()), system=[_text()]),
    _messages(_user(_text(cache_control=_MARK)), tools=[_tool(cache_control=_MARK)]),
    _messages(_assistant(_text(cache_control=_MARK)), _USER, system=[_text(cache_control={"type": "ephemeral"})]),
    _messages(cache_control=_MARK),
    _messages(_assistant(_text(citations=[_SPAN])), _USER),
    _given("image", _IMAGE),
    _given("image", {"type": "url", "url": "https://a.b/c.png"}, cache_control=_MARK),
    _given("image", {"type": "file", "file_id": "f"}),
    _given("document", _PAGES, title="t", context="c", citations={"enabled": True}, cache_control=_MARK),
    _given("document", _PAGES, citations={"enabled": False}),
    _given("document", _PLAIN),
    _given("document", {"type": "url", "url": "https://a.b/c.pdf"}),
    _given("document", {"type": "content", "content": [_text(), {"type": "image", "source": _IMAGE}]}),
    _messages(_user({**_FOUND, "citations": {"enabled": True}, "cache_control": _MARK})),
    _loop(),
    _loop(is_error=True, cache_control=_MARK),
    _loop(_text(), {"type": "image", "source": _IMAGE}),
    _loop({"type": "document", "source": _PLAIN}, _FOUND),
    _loop({"type": "tool_reference", "tool_name": "f"}),
    _loop({"type": "browser_state", "tabs": [{"a": 1}]}),
    _loop({"a": {"b": 1}}),
    _messages(_assistant(_use(cache_control=_MARK, caller={"type": "direct"})), tools=[_tool()]),
    _messages(_assistant(_use(caller={"type": "code_execution_20250825", "tool_id": "x"})), tools=[_tool()]),
    _messages(_assistant(_REASONING, _text(), _use()), tools=[_tool()]),
    _messages(_assistant({"type": "redacted_thinking", "data": "d"}, _text()), _USER),
    _messages(_assistant(_HOSTED_CALL, _HOSTED_RESULT, _text()), _USER),
    _messages(_assistant({"type": "compaction", "content": "s", "cache_control": _MARK}, _text()), _USER),
    _messages({"role": "system", "content": [_text()], "output_config": {"effort": "low"}}),
    _messages({"role": "system", "content": _CHANGES}, tools=[_tool()]),
    _messages(tools=[_tool(), _tool("g", type="custom", strict=True, allowed_callers=["direct"])]),
    _messages(tools=[{**_SEARCH, "user_location": _HERE}]),
    *[_messages(tools=[_tool()], tool_choice={"type": kind}) for kind in ("auto", "any", "none")],
    _messages(tools=[_tool()], tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    *[_messages(thinking={"type": kind}) for kind in ("adaptive", "disabled", "between_tools")],
    _messages(thinking={"type": "enabled", "budget_tokens": 1024}),
    _messages(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
    _messages(output_config={"effort": "low", "format": _FORMAT, "task_budget": {"type": "tokens", "total": 9}}),
    _messages(output_format=_FORMAT),
    _messages(metadata={"user_id": "u"}),
    _messages(mcp_servers=[{"type": "url", "url": "https://a.b", "name": "n"}]),
    _messages(context_management={"edits": [{"type": "clear_thinking_20251015", "keep": {"value": 1}}]}),
    _messages(diagnostics={"previous_message_id": "m"}),
    _messages(fallbacks=[{"model": "x"}]),
]


# --- responses --------------------------------------------------------------------------------------------------------


def _responses(*items: Json, **fields: Any) -> Json:
    return {"model": "m", "input": [_message("user", _in()), *items], **fields}


def _message(role: str, *parts: Json, **more: Any) -> Json:
    return {"type": "message", "role": role, "content": list(parts), **more}


def _in(**more: Any) -> Json:
    return {"type": "input_text", "text": "a", **more}


def _out(**more: Any) -> Json:
    return {"type": "output_text", "text": "a", **more}


def _call(kind: str, **more: Any) -> Json:
    return {"type": kind, "call_id": "c1", **more}


def _declared(name: str = "f", **more: Any) -> Json:
    return {"type": "function", "name": name, "description": "d", "parameters": _SCHEMA, "strict": False, **more}


_CALLED = _call("function_call", name="f", arguments="{}")
_OUTPUT = _call("function_call_output", output="r")
_LARK: Json = {"type": "custom", "name": "c", "format": {"type": "grammar", "definition": "a", "syntax": "lark"}}
_PICTURE: Json = {"type": "input_image", "image_url": _PNG, "detail": "low"}
_PAPER: Json = {"type": "input_file", "filename": "a.pdf", "file_data": _PDF}
_NOTES: list[Json] = [
    {"type": "url_citation", "url": "https://a.b", "title": "t", "start_index": 0, "end_index": 1},
    {"type": "file_citation", "file_id": "f", "index": 0, "filename": "f"},
]
_LOGPROB: Json = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -2}]}
_CLIENT_SEARCH: Json = {"type": "tool_search", "execution": "client", "description": "d", "parameters": _SCHEMA}
_WEB: Json = {"type": "web_search", "filters": {"allowed_domains": ["a.b"]}, "user_location": _HERE}
_DIRECT: Json = {"caller": {"type": "direct"}}
_ANSWER: Json = {"type": "reasoning_text", "text": "t"}
_SUMMED: Json = {"type": "summary_text", "text": "t"}
_SPACE: Json = {"type": "namespace", "name": "n", "description": "d", "tools": [_declared("k"), {**_LARK, "name": "l"}]}
_ALLOWED: Json = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}

RESPONSES = [
    _responses({"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}),
    _responses(_message("developer", _in()), _message("assistant", _out(annotations=[]), id="m", status="completed")),
    _responses(_message("user", _in(cache_control=_MARK)), tools=[_declared(cache_control=_MARK)]),
    _responses(_message("assistant", _out(prompt_cache_breakpoint=_BREAK))),
    _responses(_message("assistant", _out(annotations=[], logprobs=[_LOGPROB]))),
    _responses(_message("assistant", _out(annotations=_NOTES), {"type": "refusal", "refusal": "no"})),
    _responses(_message("user", _PICTURE, {**_PICTURE, "prompt_cache_breakpoint": _BREAK}, _PAPER)),
    _responses(_message("user", {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}})),
    _responses(_CALLED, _OUTPUT, tools=[_declared()]),
    _responses({**_CALLED, **_DIRECT}, {**_OUTPUT, **_DIRECT}, tools=[_declared()]),
    _responses({**_CALLED, "caller": {"type": "program", "caller_id": "p"}}, _OUTPUT, tools=[_declared()]),
    _responses(_CALLED, {**_OUTPUT, "output": [_in(), _PICTURE]}, tools=[_declared()]),
    _responses(_CALLED, {**_OUTPUT, "output": {"a": {"b": 1}}}, tools=[_declared()]),
    _responses(
        _call("custom_tool_call", name="c", input="x"), _call("custom_tool_call_output", output="r"), tools=[_LARK]
    ),
    _responses({"type": "reasoning", "summary": [_SUMMED]}, _CALLED, _OUTPUT, tools=[_declared()]),
    _responses({"type": "reasoning", "summary": [], "content": [_ANSWER, _ANSWER]}, _message("assistant", _out())),
    _responses({"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "q"}}),
    _responses(
        _call("tool_search_call", execution="client", arguments={}),
        _call("tool_search_output", execution="client", tools=[_declared(), _SPACE]),
        tools=[_CLIENT_SEARCH],
    ),
    _responses({"type": "additional_tools", "role": "developer", "tools": [_declared()]}),
    _responses({"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}}),
    _responses({"type": "configuration_update", "text": {}}),
    _responses(tools=[_declared(), _declared("g", defer_loading=True, allowed_callers=["direct"]), _LARK, _SPACE]),
    _responses(tools=[_WEB]),
    _responses(tools=[{"type": "file_search", "vector_store_ids": ["v"], "ranking_options": {"ranker": "auto"}}]),
    _responses(tools=[_declared()], tool_choice={"type": "function", "name": "f"}),
    _responses(tools=[_LARK], tool_choice={"type": "custom", "name": "c"}),
    _responses(tools=[_WEB], tool_choice={"type": "web_search"}),
    _responses(tools=[_CLIENT_SEARCH], tool_choice={"type": "tool_search"}),
    _responses(tools=[_declared()], tool_choice=_ALLOWED),
    _responses(tools=[_WEB], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}),
    _responses(reasoning={"effort": "low", "summary": "auto"}),
    *[_responses(text={"verbosity": "low", "format": {"type": kind}}) for kind in ("text", "json_object")],
    _responses(text={"format": {"type": "json_schema", "name": "n", "schema": _SCHEMA, "strict": True}}),
    _responses(stream=True, stream_options={"include_obfuscation": False}),
    _responses(prompt_cache_options={"mode": "explicit"}),
    _responses(moderation={"model": "m"}),
    _responses(context_management=[{"type": "compaction", "compact_threshold": 9}]),
]

CONSTRUCTS: dict[str, list[Json]] = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
