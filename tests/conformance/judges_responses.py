"""The judge of Responses streams: each event by the SDK's types, then the deltas against the done items and the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, get_args

from openai.types.responses import Response, ResponseStreamEvent

_UNION = get_args(get_args(ResponseStreamEvent)[0])
EVENTS: dict[str, Any] = {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in _UNION}
"""The SDK's type of each event by its name: one type reports more of what is wrong than their union does."""

UNTYPED = frozenset({"server_is_overloaded"})
"""Codes of `response.failed` that the upstream sends, though the SDK's type does not list them: they pass through."""

TERMINALS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
_OPENINGS = ("response.created", "response.in_progress")
_PREFIX = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "tool_search_call": "tsc_",
    "compaction": "cmp_",
}
_WORDS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "arguments",
}


async def responses_events(stream: AsyncIterator[Any], into: list[Any]) -> None:
    """Read a stream to its end, each event validated strictly and put `into`; raises what the SDK raises."""
    async for event in stream:
        into.append(event)
        noted = event.to_dict(warnings=False)
        if event.type == "response.failed" and noted["response"]["error"]["code"] in UNTYPED:
            noted["response"]["error"]["code"] = "server_error"
        EVENTS[event.type].model_validate(noted, strict=True)


def words_of(item: Any) -> tuple[str, str]:
    """Return what an output item states, and as which kind of thing."""
    match item.type:
        case "message":
            [part] = item.content
            return ("refusal", part.refusal) if part.type == "refusal" else ("text", part.text)
        case "reasoning":
            parts = [*item.summary, *(item.content or ())]
            return "reasoning", "".join(part.text for part in parts)
        case "function_call":
            return "arguments", item.arguments
        case "custom_tool_call":
            return "arguments", item.input
    return "", ""


def judge_responses(events: list[Any]) -> Response:
    """Everything the SDK's stream state takes on trust. Gives the terminal event's snapshot.

    Numbers without a gap, one terminal and it is the last, every item done as it was added, its deltas the words that
    it is done with, and the final output made of the done items.
    """
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert tuple(kinds[:2]) == _OPENINGS
    assert [kind in TERMINALS for kind in kinds] == [False] * (len(events) - 1) + [True]
    final: Response = events[-1].response
    assert final.status == TERMINALS[kinds[-1]]
    assert {(r.id, r.model, r.created_at) for r in (e.response for e in events[:2])} == {
        (final.id, final.model, final.created_at)
    }
    added = {e.output_index: e.item for e in events if e.type == "response.output_item.added"}
    assert list(added) == list(range(len(added))), "an index of its own for each item, from 0"
    assert all(item.id.startswith(_PREFIX[item.type]) for item in added.values())
    done = {e.output_index: e.item for e in events if e.type == "response.output_item.done"}
    stated: dict[int, str] = dict.fromkeys(added, "")
    for event in events:
        if event.type in _WORDS:
            assert event.item_id == added[event.output_index].id
            stated[event.output_index] += event.delta
    for index, item in done.items():
        assert (item.id, item.type) == (added[index].id, added[index].type)
        kind, words = words_of(item)
        if kind:
            assert stated[index] == words, f"item {index}"
    output = {item.id: item for item in final.output}
    if final.status != "failed":
        # Codex runs a free-text call that is done, also an incomplete one: only such a call may be left open by a cut.
        left = [item.type for index, item in added.items() if index not in done]
        assert left == [] or (final.status, set(left)) == ("incomplete", {"custom_tool_call"})
        assert list(output) == [item.id for item in added.values()]
    for item in done.values():
        if final.status == "failed" and not output:
            break  # A passthrough keeps nothing of what passed, so the end that it makes up shows nothing.
        assert plain(output[item.id]) == plain(item), "the final output is what the items were done with"
    return final


def plain(item: Any) -> Any:
    """The item without what the SDK's helper adds."""
    noted = item.to_dict(warnings=False)
    noted.pop("parsed_arguments", None)
    for part in noted.get("content") or ():
        part.pop("parsed", None)
    return noted


def fragments(events: list[Any]) -> list[int]:
    """Return which call each fragment of arguments was for: calls numbered from 0 as they began."""
    calls: dict[int, int] = {}
    for event in events:
        if event.type == "response.output_item.added" and event.item.type in ("function_call", "custom_tool_call"):
            calls[event.output_index] = len(calls)
    return [calls[e.output_index] for e in events if _WORDS.get(e.type) == "arguments"]
