"""Fields of Responses replies besides output and counts, whole, streamed and forwarded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Direction, Knobs, Translation, builtin_profile, direction
from dragoman.dialects.responses.reply_fields import record_unknown_item
from dragoman.reply_context import ReplyContext

Json = dict[str, Any]
REMOVED = [{"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "model_mismatch"}]
RESULT = {"type": "moderation_result", "model": "omni", "flagged": False}
ITEM: Json = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
ITEM |= {"content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
RESPONSE: Json = {
    **{"id": "resp_1", "object": "response", "created_at": 1, "model": "up", "status": "completed", "error": None},
    "output": [ITEM],
    "usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "cost_in_usd_ticks": 10_000_000_000},
    "service_tier": "flex",
    "tool_usage": {"web_search": {"num_requests": 2}},
    "input_transformations": REMOVED,
    "moderation": {"input": RESULT, "output": RESULT},
}
STREAM: list[Json] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.completed", "response": RESPONSE},
]
ROWS = [direction(client, "responses") for client in ("chat", "messages", "responses")]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_tier_price_searches_and_transformations_are_noted(row: Direction, whole: bool) -> None:
    made = Translation.for_reply(row, "up", profile=builtin_profile("responses"), knobs=Knobs())
    if whole:
        out = made.reply(json.dumps(RESPONSE).encode())
    else:
        machine = made.stream_machine()
        events = [event | {"sequence_number": number} for number, event in enumerate(STREAM)]
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        out = machine.feed(data.encode()) + machine.finish()
    assert made.failure is None
    report = made.context.service
    assert report is not None
    assert (report.tier, report.cost, report.searches, report.input_transformations) == ("flex", 1.0, 2, REMOVED)
    if row.client.dialect == "chat":
        assert b'"service_tier":"flex"' in out
        assert b'"moderation_results"' in out
    elif row.client.dialect == "messages":
        assert "moderation" in [loss.path for loss in made.losses.rows]


CALLS: list[Json] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page", "url": "u"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": None},
    {"type": "file_search_call", "id": "fs_2", "status": "completed", "queries": ["q"], "results": None},
    *(
        {
            **{"type": "code_interpreter_call", "id": f"ci_{number}", "status": "completed", "code": ""},
            "container_id": box,
        }
        for number, box in enumerate(("c1", "c1", "c2"))
    ),
]


@pytest.mark.parametrize(
    ("usage", "searches"), [({}, 1), ({"tool_usage": {"web_search": {"num_requests": 0}}}, 0)], ids=["items", "counted"]
)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_calls_of_the_services_tools_are_counted(row: Direction, whole: bool, usage: Json, searches: int) -> None:
    """A page that is opened is no search, and calls in one container are charged once."""
    bare = {key: value for key, value in RESPONSE.items() if key not in ("tool_usage", "moderation")}
    response = {**bare, "output": [*CALLS, ITEM], **usage}
    made = Translation.for_reply(row, "up", profile=builtin_profile("responses"), knobs=Knobs())
    if whole:
        made.reply(json.dumps(response).encode())
    else:
        events: list[Json] = [{"type": "response.created", "response": {**response, "output": [], "usage": None}}]
        for index, item in enumerate(response["output"]):
            events += [
                {"type": f"response.output_item.{word}", "output_index": index, "item": item}
                for word in ("added", "done")
            ]
        events.append({"type": "response.completed", "response": response})
        machine = made.stream_machine()
        data = "".join(f"data: {json.dumps({**event, 'sequence_number': n})}\n\n" for n, event in enumerate(events))
        machine.feed(data.encode())
        machine.finish()
    assert made.failure is None
    report = made.context.service
    assert report is not None
    assert (report.searches, report.calls) == (searches, {"file_search": 2, "code_interpreter": 2})


@pytest.mark.parametrize("row", ROWS[:2], ids=str)
def test_who_pays_and_keys_of_later_starts_are_rows(row: Direction) -> None:
    made = Translation.for_reply(row, "up", profile=builtin_profile("responses"), knobs=Knobs())
    begun = {**STREAM[0]["response"], "billing": {"payer": "developer"}}
    progress: Json = {"type": "response.in_progress", "response": {**begun, "zz": 1}, "yy": 1}
    events = [{**STREAM[0], "response": begun}, progress, *STREAM[1:]]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    machine = made.stream_machine()
    machine.feed(data.encode())
    assert made.failure is None
    paths = {loss.path for loss in made.losses.rows}
    assert {"response.billing", "response.zz", "response.in_progress.yy"} <= paths


def test_a_search_that_the_server_ran_is_passed_on_whole() -> None:
    context = ReplyContext("m")
    record_unknown_item({"type": "tool_search_call", "execution": "server", "zz": 1}, ("output", 0), context)
    assert not context.losses
    record_unknown_item({"type": "tool_search_call", "execution": "client", "zz": 1}, ("output", 0), context)
    assert [row.path for row in context.losses.rows] == ["output[0].zz"]
