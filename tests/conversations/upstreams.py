"""The reply of an upstream of each dialect in one step of the session: a whole one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conversations.script import Step

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the model makes it: `custom` ones have a text, the others JSON."""

    id: str
    name: str
    arguments: str
    custom: bool = False


def answer(dialect: str, step: Step, calls: list[Call]) -> Json:
    """The reply."""
    return {"chat": _chat, "messages": _messages, "responses": _responses, "generate": _generate}[dialect](step, calls)


def _chat(step: Step, calls: list[Call]) -> Json:
    message: Json = {"role": "assistant", "content": step.stated or None, "refusal": None}
    if step.reasoned and not step.hidden:
        message["reasoning_content"] = step.reasoned
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    usage = {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950}
    head = {"id": f"chatcmpl-{step.number}", "object": "chat.completion", "created": 1, "model": "up"}
    return {**head, "choices": [choice], "usage": usage}


def _chat_call(call: Call) -> Json:
    if call.custom:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _messages(step: Step, calls: list[Call]) -> Json:
    content: list[Json] = []
    if step.hidden:
        content.append({"type": "redacted_thinking", "data": step.wrapped})
    elif step.reasoned:
        content.append({"type": "thinking", "thinking": step.reasoned, "signature": step.wrapped})
    if step.stated:
        content.append({"type": "text", "text": step.stated})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)} for call in calls
    ]
    return {
        "id": f"msg_{step.number}",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": 50},
    }


def _responses(step: Step, calls: list[Call]) -> Json:
    output: list[Json] = []
    if step.reasoned:
        summary = [] if step.hidden else [{"type": "summary_text", "text": step.reasoned}]
        reasoned = {"type": "reasoning", "id": f"rs_{step.number:024}", "summary": summary}
        output.append({**reasoned, "encrypted_content": step.wrapped})
    if step.stated:
        part = {"type": "output_text", "text": step.stated, "annotations": [], "logprobs": []}
        item = {"type": "message", "id": f"msg_{step.number:024}", "role": "assistant", "status": "completed"}
        output.append({**item, "content": [part]})
    output += [_responses_call(call) for call in calls]
    details: Mapping[str, Json] = {
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 9},
    }
    usage = {"input_tokens": 900, "output_tokens": 50, "total_tokens": 950, **details}
    return {
        "id": f"resp_{step.number:024}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "up",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


def _responses_call(call: Call) -> Json:
    item: Json = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name, "status": "completed"}
    if call.custom:
        return {"type": "custom_tool_call", **item, "id": f"ctc_{call.id}", "input": call.arguments}
    return {"type": "function_call", **item, "arguments": call.arguments}


def _generate(step: Step, calls: list[Call]) -> Json:
    """The first call is signed, or the text of a reply without calls; hidden reasoning is a signature only."""
    parts: list[Json] = []
    if step.reasoned and not step.hidden:
        parts.append({"text": step.reasoned, "thought": True})
    if step.stated:
        parts.append({"text": step.stated})
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}} for call in calls
    ]
    if step.wrapped:
        signed = next(part for part in parts if "functionCall" in part or (not calls and "thought" not in part))
        signed["thoughtSignature"] = step.wrapped
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 41, "thoughtsTokenCount": 9, "totalTokenCount": 950}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "up", "responseId": f"r{step.number}"}
