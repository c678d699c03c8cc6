"""Replies of each dialect with every construct that its reader reads, whole and as the stream of the same content."""

from __future__ import annotations

import json
from typing import Any

from dragoman.dialects import Dialect

Json = dict[str, Any]

FREE = {"input", "arguments", "args"}  # free in form
FREE |= {"text", "reasoning", "tools"}  # settings of the request, which the response repeats
# Passed on as a whole, or dropped as a whole with one row:
FREE |= {"extra_content", "audio", "content_filter_results", "prompt_filter_results", "cost_details", "moderation"}
FREE |= {"container", "context_management", "input_transformations", "iterations", "tool_usage", "refusal"}
"""The keys whose values no reader looks into."""
HOSTED = {"web_search_call", "response.web_search_call.searching"}
"""The types of items and events that are dropped as a whole, within their dialect too."""
NATIVE = HOSTED | {"server_tool_use", "web_search_tool_result", "redacted_thinking", "file_citation", "char_location"}
"""The types of blocks, items, citations and events that are dropped as a whole in other dialects."""

_TOKEN = {"token": "Hi", "logprob": -0.1, "bytes": [72]}
_TOKEN["top_logprobs"] = [{"token": "H", "logprob": -1.0, "bytes": []}]
_URL = {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2}
_CHAT_USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_SIGNED = {"extra_content": {"google": {"thought_signature": "S"}}}
_HEAD = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "up", "service_tier": "default"}
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def _chat(message: Json, finish: str = "tool_calls", choice: Json | None = None, **more: Any) -> Json:
    choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **(choice or {})}]
    return {**_HEAD, "choices": choices, "usage": _CHAT_USAGE, **more}


_CHATS = [
    _chat(
        {
            "reasoning_content": "Hm",
            "content": "Hi",
            "annotations": [{"type": "url_citation", "url_citation": _URL}],
            "images": [_IMAGE],
            "tool_calls": [_CALL],
        },
        choice={"logprobs": {"content": [_TOKEN], "refusal": None}},
        search_results=[{"url": "https://b.test", "title": "B"}],
    ),
    _chat(
        {
            "content": "Hi",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "Hm", "signature": "S", "index": 0},
                {"type": "reasoning.encrypted", "data": "D", "id": "i"},
            ],
            "tool_calls": [{**_CALL, **_SIGNED}],
            **_SIGNED,
        },
        choice={"content_filter_results": {"hate": {"filtered": False}}},
        citations=[{"url": "https://c.test", "title": "C"}],
        prompt_filter_results=[{"prompt_index": 0}],
        usage={**_CHAT_USAGE, "cost": 0.5, "cost_details": {"upstream": 1}},
    ),
    _chat(
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                {"type": "text", "text": "Hi"},
            ],
            "audio": {"id": "a", "data": "AAAA"},
            "function_call": {"name": "f", "arguments": "{}"},
        },
        "function_call",
        choice={"usage": _CHAT_USAGE},
        usage=None,
    ),
    _chat(
        {"content": None, "refusal": "No", "thinking_blocks": [{"type": "thinking", "thinking": "Hm"}]},
        "stop",
        choice={"logprobs": {"content": None, "refusal": [_TOKEN]}},
        x_groq={"usage": _CHAT_USAGE},
        usage=None,
    ),
]

_COUNTS = {
    "input_tokens": 5,
    "output_tokens": 3,
    "cache_creation_input_tokens": 2,
    "cache_creation": {"ephemeral_1h_input_tokens": 1, "ephemeral_5m_input_tokens": 1},
    "output_tokens_details": {"thinking_tokens": 1},
    "server_tool_use": {"web_search_requests": 1},
}
_WEB = {"type": "web_search_result_location", "cited_text": "", "url": "https://a.test", "title": "A"}
_WEB["encrypted_index"] = "E"
_DOCUMENT = {"type": "char_location", "cited_text": "c", "document_index": 0, "start_char_index": 0}
_CALLER: Json = {"caller": {"type": "direct"}}
_TOOL_USE: Json = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, **_CALLER}
_SEARCH = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "x"}, **_CALLER}
_FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srv"}
_FOUND["content"] = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E"}]


def _message(content: list[Json], stop: str = "tool_use", **more: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_sequence": None}
    return {**head, "content": content, "stop_reason": stop, "usage": _COUNTS, **more}


_MESSAGES = [
    _message(
        [
            {"type": "thinking", "thinking": "Hm", "signature": "S"},
            {"type": "text", "text": "Hi", "citations": [_WEB]},
            _TOOL_USE,
        ]
    ),
    _message(
        [
            {"type": "redacted_thinking", "data": "D"},
            _SEARCH,
            _FOUND,
            {"type": "text", "text": "No", "citations": [_DOCUMENT]},
        ],
        "refusal",
        stop_details={"type": "refusal", "category": "c", "explanation": "e"},
        container={"id": "c"},
        context_management={"applied_edits": [{"type": "clear"}]},
        input_transformations=[{"type": "t"}],
        usage={**_COUNTS, "iterations": [{"type": "message"}]},
    ),
]

_FUNCTION = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "f"}
_FUNCTION |= {"arguments": "{}", **_CALLER}
_TEXT = {"type": "output_text", "text": "Hi", "annotations": [{"type": "url_citation", **_URL}], "logprobs": [_TOKEN]}
_SUMMARY: Json = {"type": "reasoning", "id": "rs_1", "encrypted_content": "E"}
_SUMMARY["summary"] = [{"type": "summary_text", "text": "Hm"}]
_REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
_REASONING["content"] = [{"type": "reasoning_text", "text": "Hm"}]
_FILE = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
_RESPONSES_USAGE = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 8,
}


def _stated(*parts: Json) -> Json:
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [*parts]}


def _response(output: list[Json], status: str = "completed", **more: Any) -> Json:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "up", "error": None}
    return {**head, "status": status, "output": output, "usage": _RESPONSES_USAGE, **more}


_RESPONSES = [
    _response([_SUMMARY, _stated(_TEXT), _FUNCTION]),
    _response(
        [
            _REASONING,
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}},
            _stated({**_TEXT, "annotations": [_FILE], "logprobs": []}, {"type": "refusal", "refusal": "No"}),
        ],
        "incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        reasoning={"effort": "low"},
        text={"format": {"type": "text"}},
        tool_usage={"web_search": {"num_requests": 2}},
    ),
]

_GEMINI_USAGE = {
    "promptTokenCount": 5,
    "cachedContentTokenCount": 1,
    "candidatesTokenCount": 2,
    "thoughtsTokenCount": 1,
    "totalTokenCount": 8,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 5}],
}
_GROUNDING: Json = {
    "webSearchQueries": ["q"],
    "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}],
    "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 2, "text": "Hi"}, "groundingChunkIndices": [0]}],
}


def _gemini(parts: list[Json], finish: str = "STOP", candidate: Json | None = None, **more: Any) -> Json:
    content = {"role": "model", "parts": parts}
    head = {"responseId": "g1", "modelVersion": "up", "usageMetadata": _GEMINI_USAGE}
    return {
        **head,
        "candidates": [{"content": content, "finishReason": finish, "index": 0, **(candidate or {})}],
        **more,
    }


_GEMINIS = [
    _gemini([{"text": "Hm", "thought": True}, {"text": "Hi"}], candidate={"groundingMetadata": _GROUNDING}),
    _gemini(
        [{"text": "Hi"}, {"functionCall": {"name": "f", "args": {}, "id": "c1"}, "thoughtSignature": "U0lH"}],
        candidate={"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]},
    ),
]

WHOLE = {
    Dialect.CHAT: _CHATS,
    Dialect.MESSAGES: _MESSAGES,
    Dialect.RESPONSES: _RESPONSES,
    Dialect.GENERATE: _GEMINIS,
}
"""Whole replies."""


def _chat_stream(body: Json) -> list[Json]:
    choice = body["choices"][0]
    message, logprobs = choice["message"], choice.get("logprobs")
    head = {**_HEAD, "object": "chat.completion.chunk"}

    def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}

    top = {key: value for key, value in body.items() if key not in (*_HEAD, "choices", "usage", "x_groq")}
    chunks = [{**chunk({"role": "assistant", "content": ""}), **top}]
    for key, value in message.items():
        if key == "tool_calls":
            chunks += [chunk({key: [{"index": index, **call}]}) for index, call in enumerate(value)]
        elif key in ("content", "refusal") and value:
            chunks.append(chunk({key: value}, **({"logprobs": logprobs} if logprobs else {})))
        elif key != "role" and value:
            chunks.append(chunk({key: value}))
    known = ("index", "message", "finish_reason", "logprobs")
    chunks.append(chunk({}, choice["finish_reason"], **{k: v for k, v in choice.items() if k not in known}))
    if "x_groq" in body:
        chunks[-1]["x_groq"] = body["x_groq"]
    return [*chunks, {**head, "choices": [], "usage": body["usage"]}] if body["usage"] else chunks


def _messages_stream(body: Json) -> list[Json]:
    start = {key: value for key, value in body.items() if key != "stop_details"}
    events: list[Json] = [{"type": "message_start", "message": {**start, "content": [], "stop_reason": None}}]
    for index, block in enumerate(body["content"]):
        deltas: list[Json] = []
        opened = block
        if block["type"] == "text":
            opened = {"type": "text", "text": "", "citations": []}
            deltas = [{"type": "text_delta", "text": block["text"]}]
            deltas += [{"type": "citations_delta", "citation": citation} for citation in block["citations"]]
        elif block["type"] == "thinking":
            opened = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "tool_use":
            opened = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {key: body[key] for key in ("stop_reason", "stop_sequence", "stop_details") if key in body}
    return [*events, {"type": "message_delta", "delta": end, "usage": body["usage"]}, {"type": "message_stop"}]


def _part_events(item: Json, field: str, index: int, part: Json) -> list[Json]:
    """The events of a part of a message, or of a part or a summary of reasoning."""
    at = {"output_index": index, "item_id": item["id"]}
    key = "refusal" if part["type"] == "refusal" else "text"
    name = {"summary_text": "reasoning_summary_text"}.get(part["type"], part["type"])
    border = "reasoning_summary_part" if field == "summary" else "content_part"
    number = {f"{field}_index": item[field].index(part)}
    empty = {**part, key: "", **({"annotations": [], "logprobs": []} if "annotations" in part else {})}
    tokens = {"logprobs": part["logprobs"]} if part.get("logprobs") else {}
    return [
        {"type": f"response.{border}.added", **at, **number, "part": empty},
        {"type": f"response.{name}.delta", **at, **number, "delta": part[key], **tokens},
        *(
            {"type": "response.output_text.annotation.added", **at, **number, "annotation": note}
            for note in part.get("annotations", ())
        ),
        {"type": f"response.{name}.done", **at, **number, key: part[key], **tokens},
        {"type": f"response.{border}.done", **at, **number, "part": part},
    ]


def _responses_stream(body: Json) -> list[Json]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[Json] = [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]
    for index, item in enumerate(body["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        started = {**item, **{key: [] for key in ("content", "summary") if key in item}, "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": index, "item": started})
        for field in ("summary", "content"):
            for part in item.get(field, ()):
                events += _part_events(item, field, index, part)
        if item["type"] == "function_call":
            started["arguments"] = ""
            name = "response.function_call_arguments"
            events.append({"type": f"{name}.delta", **at, "delta": item["arguments"]})
            events.append({"type": f"{name}.done", **at, "arguments": item["arguments"], "name": item["name"]})
        elif item["type"] == "web_search_call":
            events.append({"type": "response.web_search_call.searching", **at})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{body['status']}", "response": body})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _gemini_stream(body: Json) -> list[Json]:
    candidate = body["candidates"][0]
    content, last = candidate["content"], {key: candidate[key] for key in candidate if key != "content"}
    *first, end = [{"content": {**content, "parts": [part]}, "index": 0} for part in content["parts"]]
    return [{**body, "candidates": [chunk]} for chunk in (*first, end | last)]


STREAMS = {
    Dialect.CHAT: [_chat_stream(body) for body in _CHATS],
    Dialect.MESSAGES: [_messages_stream(body) for body in _MESSAGES],
    Dialect.RESPONSES: [_responses_stream(body) for body in _RESPONSES],
    Dialect.GENERATE: [_gemini_stream(body) for body in _GEMINIS],
}
"""The streams of these replies, as lists of frames."""

_FAULT = {"type": "server_error", "code": "busy", "message": "Try again."}
ERRORS: dict[Dialect, list[Json]] = {
    Dialect.CHAT: [
        {"error": {**_FAULT, "metadata": {"provider_name": "p", "raw": '{"error":{"message":"No."}}'}}},
        {**_HEAD, "choices": [], "error": _FAULT},
    ],
    Dialect.MESSAGES: [{"type": "error", "error": {"type": "api_error", "message": "No.", "details": {"a": 1}}}],
    Dialect.RESPONSES: [
        {"type": "error", "sequence_number": 0, **_FAULT, "param": None},
        {"type": "error", "sequence_number": 0, "error": _FAULT},
        {"type": "response.failed", "sequence_number": 0, "response": _response([], "failed", error=_FAULT)},
    ],
    Dialect.GENERATE: [{"error": {"code": 503, "message": "Try again.", "status": "UNAVAILABLE"}}],
}
"""Frames that end a stream in an error."""


def as_stream(dialect: Dialect, frames: list[Json]) -> bytes:
    """The bytes of a stream."""
    names = [f"event: {frame['type']}\n" if "type" in frame else "" for frame in frames]
    data = "".join(f"{name}data: {json.dumps(frame)}\n\n" for name, frame in zip(names, frames, strict=True))
    return (data + ("data: [DONE]\n\n" if dialect is Dialect.CHAT else "")).encode()
