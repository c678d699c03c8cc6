"""Renders a scenario in Chat Completions: as `chat.completion.chunk` frames or as one `chat.completion`."""

from __future__ import annotations

from typing import Any

from dragoman_server.simulator import booking, steps
from dragoman_server.simulator.parse_request import Json, read_chat
from dragoman_server.simulator.reply import SimulatedReply, bare_frame

FINISH = {
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "refusal": "stop",
    "content_filter": "content_filter",
}
read = read_chat
book, reported = booking.book, booking.reported


def frames(scenario: steps.Scenario, reply: SimulatedReply) -> list[bytes]:
    """Return the frames of the stream; `[DONE]` only after a `Finish`."""
    options = reply.body.get("stream_options") or {}
    with_usage = bool(options.get("include_usage")) and scenario.reported
    obfuscated = options.get("include_obfuscation") is not False
    head = {"id": reply.mint("chatcmpl-", 29), "object": "chat.completion.chunk", **_common(scenario, reply)}
    out: list[bytes] = []

    def chunk(choices: list[Json], usage: Json | None, fill: str) -> None:
        whole = {**head, "choices": choices}
        if with_usage:
            whole["usage"] = usage
        if obfuscated:
            whole["obfuscation"] = reply.padding(len(fill))
        out.append(bare_frame(whole))

    def delta(content: Json, finish: str | None = None, fill: str = "") -> None:
        chunk([{"index": 0, "delta": content, "logprobs": None, "finish_reason": finish}], None, fill)

    delta({"role": "assistant", "content": "", "refusal": None})
    custom: set[int] = set()
    for step in scenario.steps:
        match step:
            case steps.Text(text):
                delta({"content": text}, fill=text)
            case steps.Reasoning(text):
                delta({"reasoning_content": text}, fill=text)
            case steps.Refusal(text):
                delta({"refusal": text}, fill=text)
            case steps.ToolStart(call, tool):
                if tool.custom:
                    custom.add(call)
                started = {"index": call, "id": reply.mint("call_"), **_call_body(tool.name, "", tool.custom)}
                delta({"tool_calls": [started]})
            case steps.ToolArgs(call, text):
                fragment: Json = {"custom": {"input": text}} if call in custom else {"function": {"arguments": text}}
                delta({"tool_calls": [{"index": call, **fragment}]}, fill=text)
            case steps.Finish(reason):
                delta({}, FINISH[reason])
                if with_usage:
                    chunk([], usage_of(scenario, reply), "")
                out.append(b"data: [DONE]\n\n")
            case steps.Failure(message):
                out.append(bare_frame({"error": error_of(message)}))
            case _:
                pass  # ToolEnd: Chat has no event for the end of a call
    return out


def whole_reply(scenario: steps.Scenario, reply: SimulatedReply) -> tuple[int, Json]:
    """Return status and body of the reply, not streamed."""
    message: Json = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
    calls: list[Json] = []
    finish = "stop"
    completion_id = reply.mint("chatcmpl-", 29)
    for step in scenario.steps:
        match step:
            case steps.Text(text):
                message["content"] = (message["content"] or "") + text
            case steps.Reasoning(text):
                message["reasoning_content"] = message.get("reasoning_content", "") + text
            case steps.Refusal(text):
                message["refusal"] = (message["refusal"] or "") + text
            case steps.ToolStart(_, tool):
                calls.append({"id": reply.mint("call_"), **_call_body(tool.name, "", tool.custom)})
            case steps.ToolArgs(call, text):
                _append(calls[call], text)
            case steps.Finish(reason):
                finish = FINISH[reason]
            case steps.Failure(text):
                return 503, {"error": error_of(text)}
            case _:
                pass  # ToolEnd
    if calls:
        message["tool_calls"] = calls
    elif message["content"] is None and message["refusal"] is None:
        message["content"] = ""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return 200, {
        "id": completion_id,
        "object": "chat.completion",
        **_common(scenario, reply),
        "choices": [choice],
        **({"usage": usage_of(scenario, reply)} if scenario.reported else {}),
    }


def usage_of(scenario: steps.Scenario, reply: SimulatedReply) -> Json:
    """Return a `CompletionUsage`: prompt tokens include cached ones, completion tokens include reasoning.

    With `apart` they do not, as at xAI: then only the total includes it.
    """
    tokens = reply.count(scenario)
    usage: Json = {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output - (tokens.reasoning if scenario.apart else 0),
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached,
            "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    if scenario.searches:
        usage["num_search_queries"] = scenario.searches
    return usage


def error_of(message: str) -> Json:
    """Return the error object of a stream that fails."""
    return {"message": message, "type": "service_unavailable_error", "param": None, "code": "server_is_overloaded"}


def _common(scenario: steps.Scenario, reply: SimulatedReply) -> Json:
    return {
        "created": reply.created,
        "model": reply.model,
        "service_tier": reply.tier_of(scenario),
        "system_fingerprint": "fp_5131a70r00",
    }


def _call_body(name: str, arguments: str, custom: bool) -> Json:
    if custom:
        return {"type": "custom", "custom": {"name": name, "input": arguments}}
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _append(call: Json, text: str) -> None:
    holder: dict[str, Any] = call[call["type"]]
    holder["input" if call["type"] == "custom" else "arguments"] += text
