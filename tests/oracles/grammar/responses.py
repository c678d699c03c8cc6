"""A Responses stream, and a whole response, as their client has them."""

from __future__ import annotations

import json
from typing import Any

from dragoman.stages.grammar.responses import ResponsesGrammar
from dragoman.stages.grammar.responses_values import (
    CALLS,
    TEXT_KEY,
    check_end,
    check_failure,
    check_item,
    check_response,
    check_usage,
)
from dragoman.stages.grammar.values import require

from .accumulated import UNLIMITED, Accumulated, Call, Json, judged

__all__ = ("check", "check_failure", "check_response", "check_usage", "check_whole")

_CALL_KINDS = {"function_call": "function", "custom_tool_call": "custom", "tool_search_call": "search"}
"""Type of call → its kind; those of other types are `built_in`."""


def check(data: bytes, *, include_usage: bool = True, own: bool = False) -> Accumulated:
    """Judge a whole stream. `own` is True for one of Dragoman's, whose snapshots have every key.

    `include_usage` is there for likeness with the other dialects: the terminal snapshot always has the key.
    """
    pings, last = 0, b"{}"
    for item in judged(ResponsesGrammar(own=own, limit=UNLIMITED), data):
        if item.data is None:
            pings += 1
        else:
            last = item.data
    result = _result(json.loads(last)["response"])
    result.pings = pings
    return result


def check_whole(raw: Any) -> Accumulated:
    """Judge the body of a reply that is not streamed. Raises GrammarError."""
    response = check_response(raw)
    items = [check_item(item) for item in response["output"]]
    ids = [item["id"] for item in items]
    require(len(set(ids)) == len(ids), f"an item id twice: {ids}")
    calls = [_call(item).id for item in items if item["type"] in CALLS]
    require(len(set(calls)) == len(calls), f"a call_id twice: {calls}")
    require(all(item["content"] for item in items if item["type"] == "message"), "a message without a part")
    check_end(response)
    return _result(response)


def _result(response: Json) -> Accumulated:
    result = Accumulated(id=response["id"], model=response["model"], usage=response["usage"])
    result.finish = status = response["status"]
    if status == "incomplete":
        result.finish = f"incomplete/{response['incomplete_details']['reason']}"
    result.error = response["error"]
    _accumulate(response["output"], result)
    return result


def _accumulate(items: list[Json], result: Accumulated) -> None:
    """Add the content of the items to `result`, in order. A blank line separates the texts of a reasoning item."""
    for item in items:
        match item["type"]:
            case "reasoning":
                words = "\n\n".join(part["text"] for part in item.get("content") or item["summary"] if part["text"])
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
            case "image_generation_call":
                result.blocks.append(("opaque", ""))
            case _:
                result.calls.append(_call(item))
                result.blocks.append(("tool", result.calls[-1].arguments))


def _call(item: Json) -> Call:
    """A call as its client holds it; a search's arguments as compact JSON."""
    given = item[CALLS[item["type"]]]
    text = given if type(given) is str else json.dumps(given, separators=(",", ":"), ensure_ascii=False)
    name = item.get("name", item["type"].removesuffix("_call"))
    return Call(item["call_id"], name, text, item.get("namespace"), _CALL_KINDS.get(item["type"], "built_in"))
