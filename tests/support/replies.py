"""Whole replies: the canonical one that a stream's events make, each dialect's body of it, and what a client holds.

None of it uses the engine's own codecs.
"""

from __future__ import annotations

import json
from typing import Any

from dragoman.canonical.events import Annotation, BlockStart, Delta, End, Event, Finish, Opaque, Start, Usage
from dragoman.canonical.parts import Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from oracles.grammar import Accumulated, Call, responses

from .responses_items import INCOMPLETE, response_object, responses_usage
from .upstreams import CHAT_REASONS, MESSAGES_REASONS, chat_usage, messages_usage

Json = dict[str, Any]


def reply_of(events: list[Event], origin: str) -> Reply:
    """The reply that a whole stream accumulates to; native halves as the dialect `origin` has them."""
    reply: Reply | None = None
    parts: dict[int, Part] = {}
    for event in events:
        match event:
            case Start():
                reply = Reply(event.id, event.model, [], stop=None, created=event.created)  # type: ignore[arg-type]
            case BlockStart(index=index, kind=kind):
                match kind:
                    case "text":
                        parts[index] = Text("")
                    case "refusal":
                        parts[index] = Refusal("")
                    case "reasoning":
                        parts[index] = Reasoning("", origin=origin)
                    case "tool":
                        call = ToolCall(event.call_id, event.name, "", custom=event.custom)
                        call.namespace, call.search = event.namespace, event.search
                        parts[index] = call
                    case "opaque":
                        parts[index] = Native(origin, event.name, {}, event.code)
            case Delta(index=index, text=text):
                part = parts[index]
                if isinstance(part, ToolCall):
                    part.arguments += text
                else:
                    assert isinstance(part, Text | Refusal | Reasoning)
                    part.text += text
            case Opaque(index=index, form=form, payload=payload):
                part = parts[index]
                if isinstance(part, Native):
                    part.payload = payload
                elif form in ("signature", "encrypted_content"):
                    assert isinstance(part, Reasoning)
                    part.proof = payload or None
            case Annotation(index=index, citation=citation):
                part = parts[index]
                assert isinstance(part, Text)
                part.citations.append(citation)
            case Finish():
                assert reply is not None
                reply.stop, reply.usage, reply.refusal = event.stop, event.usage, event.refusal
            case End():
                assert reply is not None
                if event.usage is not None:
                    reply.usage = event.usage.merged_onto(reply.usage)
            case _:
                pass
    assert reply is not None
    reply.parts = list(parts.values())
    for part in reply.parts:
        if isinstance(part, Reasoning) and origin == "messages":
            part.native = {"type": "thinking", "thinking": part.text, "signature": part.proof or ""}
    return reply


def whole_chat(reply: Reply) -> Json:
    """A Chat reply body as OpenAI or a reasoning server would send it."""
    message: Json = {"role": "assistant", "content": None, "refusal": None}
    for part in reply.parts:
        match part:
            case Text():
                message["content"] = (message["content"] or "") + part.text
                if part.citations:
                    message.setdefault("annotations", []).extend(citation.native for citation in part.citations)
            case Refusal():
                message["refusal"] = (message["refusal"] or "") + part.text
            case Reasoning():
                message["reasoning_content"] = message.get("reasoning_content", "") + part.text
            case ToolCall():
                call = {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
                message.setdefault("tool_calls", []).append(call)
            case _:
                raise AssertionError(part)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": CHAT_REASONS[reply.stop.reason]}
    body: Json = {"id": reply.id, "object": "chat.completion", "created": reply.created or 1_790_000_000}
    body |= {"model": reply.model, "choices": [choice]}
    if reply.usage is not None:
        body["usage"] = chat_usage(reply.usage)
    return body


def whole_messages(reply: Reply) -> Json:
    """A Messages reply body."""
    content: list[Json] = []
    for part in reply.parts:
        match part:
            case Text():
                block: Json = {"type": "text", "text": part.text}
                if part.citations:
                    block["citations"] = [citation.native for citation in part.citations]
                content.append(block)
            case Reasoning():
                content.append({"type": "thinking", "thinking": part.text, "signature": part.proof or ""})
            case ToolCall():
                given = json.loads(part.arguments or "{}")
                content.append({"type": "tool_use", "id": part.id, "name": part.name, "input": given})
            case Native():
                content.append(part.payload)
            case _:
                raise AssertionError(part)
    details = None
    if reply.refusal is not None:
        details = {"type": "refusal", "category": reply.refusal.category, "explanation": reply.refusal.explanation}
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": MESSAGES_REASONS[reply.stop.reason],
        "stop_sequence": reply.stop.sequence,
        "stop_details": details,
        "usage": messages_usage(reply.usage or Usage(0, None, None, 0)),
    }


def whole_responses(reply: Reply) -> Json:
    """A response body, with an item for each part."""
    output: list[Json] = []
    for number, part in enumerate(reply.parts):
        match part:
            case Text():
                notes = [citation.native for citation in part.citations]
                content: Json = {"type": "output_text", "text": part.text, "annotations": notes}
                output.append(_message(number, content))
            case Refusal():
                output.append(_message(number, {"type": "refusal", "refusal": part.text}))
            case Reasoning():
                item: Json = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
                if part.text:
                    item["summary"] = [{"type": "summary_text", "text": text} for text in part.text.split("\n\n")]
                if part.proof is not None:
                    item["encrypted_content"] = part.proof
                output.append(item)
            case ToolCall():
                output.append(_call(number, part))
            case Native():
                output.append({"id": f"ws_{number}", "status": "completed", **part.payload})
            case _:
                raise AssertionError(part)
    reason = INCOMPLETE.get(reply.stop.reason)
    return response_object(
        Start(reply.id, reply.model, None, reply.created),
        status="incomplete" if reason else "completed",
        incomplete_details={"reason": reason} if reason else None,
        output=output,
        usage=responses_usage(reply.usage) if reply.usage is not None else None,
    )


def _message(number: int, part: Json) -> Json:
    stated: Json = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant"}
    return {**stated, "content": [part]}


def _call(number: int, part: ToolCall) -> Json:
    call: Json = {"call_id": part.id, "name": part.name, "status": "completed"}
    if part.namespace is not None:
        call["namespace"] = part.namespace
    if part.search:
        del call["name"]
        given = json.loads(part.arguments or "{}")
        return {"id": f"tsc_{number}", "type": "tool_search_call", "execution": "client", "arguments": given, **call}
    if part.custom:
        return {"id": f"ctc_{number}", "type": "custom_tool_call", "input": part.arguments, **call}
    return {"id": f"fc_{number}", "type": "function_call", "arguments": part.arguments, **call}


def held_by_client(dialect: str, body: Json) -> Accumulated:
    """Return what a client has of a whole reply, in the shape of what it accumulates from a stream."""
    if dialect == "responses":
        return responses.check_whole(body)
    result = Accumulated(id=body["id"], model=body["model"], usage=body.get("usage"))
    if dialect == "chat":
        (choice,) = body["choices"]
        message = choice["message"]
        result.finish = choice["finish_reason"]
        result.text, result.refusal = message["content"] or "", message["refusal"] or ""
        result.reasoning = message.get("reasoning_content", "")
        result.annotations = message.get("annotations", [])
        for call in message.get("tool_calls", []):
            result.calls.append(Call(call["id"], call["function"]["name"], call["function"]["arguments"]))
        return result
    result.finish, result.sequence, result.stop_details = (
        body["stop_reason"],
        body["stop_sequence"],
        body["stop_details"],
    )
    for block in body["content"]:
        match block["type"]:
            case "text":
                result.blocks.append(("text", block["text"]))
                result.text += block["text"]
                result.annotations += block.get("citations") or []
            case "thinking":
                result.blocks.append(("reasoning", block["thinking"]))
                result.reasoning += block["thinking"]
                result.signatures.append(block["signature"])
            case "tool_use":
                result.calls.append(Call(block["id"], block["name"], json.dumps(block["input"])))
                result.blocks.append(("tool", result.calls[-1].arguments))
            case "redacted_thinking":
                result.blocks.append(("redacted", block["data"]))
            case _:
                result.blocks.append(("opaque", ""))
    return result


def compared(held: Accumulated) -> Json:
    """The parts of an accumulated reply in which every form of it must agree."""
    return {
        "id": held.id,
        "model": held.model,
        "text": held.text,
        "reasoning": held.reasoning,
        "refusal": held.refusal,
        "calls": held.parsed_calls(),
        "finish": held.finish,
        "sequence": held.sequence,
        "stop_details": held.stop_details,
        "usage": held.usage,
        "annotations": held.annotations,
        "signatures": [proof for proof in held.signatures if proof],
    }
