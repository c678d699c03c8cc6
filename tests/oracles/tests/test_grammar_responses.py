"""The judge of Responses streams: it accepts a right stream and refuses it once any one rule is broken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from oracles.grammar import Call, GrammarError, responses, sse
from support import canonical
from support.responses_upstreams import responses_streams
from support.strategies import RESPONSES_ONLY
from support.upstreams import Upstream

Json = dict[str, Any]
Events = list[Json]

NULLS = ("error", "incomplete_details", "instructions", "metadata", "temperature", "top_p")
USAGE: Json = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 8,
}


def snapshot(status: str, output: list[Json], **more: Any) -> Json:
    body: Json = {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m"}
    body |= dict.fromkeys(NULLS)
    return body | {
        "usage": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }


def wire(events: Events) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode()
        for number, event in enumerate(events)
    )


def at(kind: str, index: int, item: str, **more: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": item, "output_index": index, **more}


MESSAGE: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
CALL: Json = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": ""}
REASONING_ITEM: Json = {"id": "rs_1", "type": "reasoning", "summary": [], "status": "in_progress"}


def text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def whole() -> Events:
    reasoning_item = {**REASONING_ITEM, "status": "completed", "summary": [{"type": "summary_text", "text": "hm"}]}
    reasoning_item["encrypted_content"] = "e"
    message = {**MESSAGE, "status": "completed", "content": [text_part("ab")]}
    call = {**CALL, "status": "completed", "arguments": '{"a":1}'}
    return [
        {"type": "response.created", "response": snapshot("in_progress", [])},
        {"type": "response.in_progress", "response": snapshot("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": REASONING_ITEM},
        at("reasoning_summary_part.added", 0, "rs_1", summary_index=0, part={"type": "summary_text", "text": ""}),
        at("reasoning_summary_text.delta", 0, "rs_1", summary_index=0, delta="hm"),
        at("reasoning_summary_text.done", 0, "rs_1", summary_index=0, text="hm"),
        at("reasoning_summary_part.done", 0, "rs_1", summary_index=0, part=reasoning_item["summary"][0]),
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning_item},
        {"type": "response.output_item.added", "output_index": 1, "item": MESSAGE},
        at("content_part.added", 1, "msg_1", content_index=0, part=text_part("")),
        at("output_text.delta", 1, "msg_1", content_index=0, delta="a", logprobs=[]),
        {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "status": "in_progress"}},
        at("function_call_arguments.delta", 2, "fc_1", delta='{"a":'),
        at("output_text.delta", 1, "msg_1", content_index=0, delta="b", logprobs=[]),
        at("output_text.done", 1, "msg_1", content_index=0, text="ab", logprobs=[]),
        at("content_part.done", 1, "msg_1", content_index=0, part=text_part("ab")),
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        at("function_call_arguments.delta", 2, "fc_1", delta="1}"),
        at("function_call_arguments.done", 2, "fc_1", arguments='{"a":1}', name="f"),
        {"type": "response.output_item.done", "output_index": 2, "item": call},
        {"type": "response.completed", "response": snapshot("completed", [reasoning_item, message, call], usage=USAGE)},
    ]


def test_it_accepts_and_accumulates() -> None:
    result = responses.check(b": keep-alive\n\n" + wire(whole()))
    assert (result.text, result.reasoning, result.calls) == ("ab", "hm", [Call("c1", "f", '{"a":1}')])
    assert (result.order, result.finish, result.signatures) == (["reasoning", "text", "tool"], "completed", ["e"])
    assert (result.usage, result.pings) == (USAGE, 1)


def test_it_accepts_a_failure_with_open_items_as_incomplete() -> None:
    events = whole()[:14]
    done = events[7]["item"]
    half = {**MESSAGE, "status": "incomplete", "content": [text_part("ab")]}
    call = {**CALL, "status": "incomplete", "arguments": '{"a":'}
    error = {"code": "server_error", "message": "cut"}
    output = [done, half, call]
    events.append({"type": "response.failed", "response": snapshot("failed", output, error=error, usage=None)})
    assert responses.check(wire(events)).error == error
    events[-1]["response"]["output"][2] = {**call, "status": "completed"}
    with pytest.raises(GrammarError):
        responses.check(wire(events))


def test_it_accepts_an_incomplete_reply_with_a_call_cut_off() -> None:
    call = {**CALL, "status": "incomplete", "arguments": '{"a":'}
    details = {"reason": "max_output_tokens"}
    events: Events = [
        {"type": "response.created", "response": snapshot("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "status": "in_progress"}},
        at("function_call_arguments.delta", 0, "fc_1", delta='{"a":'),
        {"type": "response.output_item.done", "output_index": 0, "item": call},
        {
            "type": "response.incomplete",
            "response": snapshot("incomplete", [call], incomplete_details=details, usage=None),
        },
    ]
    assert responses.check(wire(events)).finish == "incomplete/max_output_tokens"
    events[3]["item"] = events[4]["response"]["output"][0] = {**call, "status": "completed"}
    with pytest.raises(GrammarError):
        responses.check(wire(events))


@pytest.mark.parametrize("dropped", range(21))
def test_every_event_but_in_progress_and_deltas_of_nothing_is_needed(dropped: int) -> None:
    events = whole()
    kind = events.pop(dropped)["type"]
    if kind == "response.in_progress":
        responses.check(wire(events))
    else:
        with pytest.raises(GrammarError):
            responses.check(wire(events))


@pytest.mark.parametrize("doubled", range(21))
def test_every_event_but_in_progress_comes_once(doubled: int) -> None:
    events = whole()
    events.insert(doubled, copy.deepcopy(events[doubled]))
    if events[doubled]["type"] == "response.in_progress":
        responses.check(wire(events))
    else:
        with pytest.raises(GrammarError):
            responses.check(wire(events))


def put(number: int, *path: str | int, value: Any) -> Callable[[Events], None]:
    def change(events: Events) -> None:
        target: Any = events[number]
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put(1, "response", "id", value="resp_2"),
        put(1, "response", "model", value="n"),
        put(20, "response", "created_at", value=2),
        put(20, "response", "status", value="in_progress"),
        put(20, "response", "error", value={"code": "x", "message": "x"}),
        put(20, "response", "incomplete_details", value={"reason": "max_output_tokens"}),
        put(20, "response", "output", value=[]),
        put(20, "response", "usage", "total_tokens", value=9),
        put(20, "response", "usage", "input_tokens_details", value={"cached_tokens": 0}),
        put(8, "output_index", value=0),
        put(8, "output_index", value=2),
        put(8, "item", "content", value=[text_part("a")]),
        put(8, "item", "id", value="toolu_1"),
        put(8, "item", "id", value="msg_2"),
        put(10, "item_id", value="msg_2"),
        put(10, "content_index", value=1),
        put(10, "output_index", value=2),
        put(14, "text", value="a"),
        put(15, "part", value=text_part("a")),
        put(16, "item", "content", value=[]),
        put(16, "item", "status", value="in_progress"),
        put(18, "arguments", value="{}"),
        put(18, "name", value="g"),
        put(19, "item", "arguments", value="{}"),
        put(19, "item", "call_id", value="c2"),
        put(19, "item", "id", value="fc_2"),
        put(12, "type", value="response.novelty"),
        put(0, "response", "usage", value=USAGE),
        put(20, "response", "instructions", value="else"),
        put(20, "response", "tool_choice", value=None),
        put(2, "item", "encrypted_content", value="provisional"),
        put(5, "text", value="h"),
        put(11, "item", "call_id", value="c" * 65),
        put(11, "item", "namespace", value=""),
        put(19, "item", "namespace", value="other"),
        put(19, "item", "status", value="incomplete"),
        put(10, "logprobs", value=None),
    ],
)
def test_it_refuses(change: Callable[[Events], None]) -> None:
    events = copy.deepcopy(whole())
    responses.check(wire(events))
    change(events)
    with pytest.raises(GrammarError):
        responses.check(wire(events))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b"data: [DONE]\n\n",
        lambda data: data + b": late\n\n",
        lambda data: data.replace(b'"sequence_number": 5', b'"sequence_number": 6'),
        lambda data: data.replace(b"event: response.in_progress\n", b""),
        lambda data: data.replace(b"event: response.in_progress\n", b"event: response.queued\n"),
    ],
)
def test_it_refuses_wrong_framing(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(GrammarError):
        responses.check(change(wire(whole())))


SEARCH: Json = {"id": "tsc_1", "type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}}
PATCH: Json = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c2", "name": "exec", "input": ""}


def codex_calls() -> Events:
    """The calls that only an agent's own kinds fit (a search, a free text, one of a namespace)."""
    search = {**SEARCH, "status": "completed", "arguments": {"query": "q"}}
    patch = {**PATCH, "namespace": "functions", "status": "completed", "input": "*** Begin"}
    return [
        {"type": "response.created", "response": snapshot("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": {**SEARCH, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": search},
        {"type": "response.output_item.added", "output_index": 1, "item": {**PATCH, "namespace": "functions"}},
        at("custom_tool_call_input.delta", 1, "ctc_1", delta="*** Begin"),
        at("custom_tool_call_input.done", 1, "ctc_1", input="*** Begin"),
        {"type": "response.output_item.done", "output_index": 1, "item": patch},
        {"type": "response.completed", "response": snapshot("completed", [search, patch], usage=USAGE)},
    ]


def test_it_accepts_the_kinds_of_calls_that_agents_have() -> None:
    result = responses.check(wire(codex_calls()))
    assert result.calls == [
        Call("c1", "tool_search", '{"query":"q"}', kind="search"),
        Call("c2", "exec", "*** Begin", "functions", "custom"),
    ]
    assert responses.check_whole(codex_calls()[-1]["response"]) == replace(result, pings=0)


@pytest.mark.parametrize(
    "change",
    [
        put(2, "item", "arguments", value='{"query":"q"}'),
        put(2, "item", "execution", value="server"),
        put(1, "item", "type", value="function_call"),
        put(5, "input", value="*** End"),
        put(6, "item", "type", value="function_call"),
        put(6, "item", "name", value="functions.exec"),
    ],
)
def test_it_refuses_other_kinds_of_calls(change: Callable[[Events], None]) -> None:
    events = codex_calls()
    change(events)
    with pytest.raises(GrammarError):
        responses.check(wire(events))


def test_a_completed_response_has_no_incomplete_item() -> None:
    events = codex_calls()[3:]
    events.insert(0, codex_calls()[0])
    patch = events[4]["item"] | {"status": "incomplete"}
    events[4]["item"], events[5]["response"]["output"] = patch, [patch]
    for event in events[1:5]:
        event["output_index"] = 0
    del events[3]
    with pytest.raises(GrammarError, match="completed response"):
        responses.check(wire(events))


KNOWN = replace(RESPONSES_ONLY, kinds=("text", "refusal", "reasoning", "tool"))
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@given(responses_streams(KNOWN, quirks=False))
def test_raw_responses_streams_keep_their_meaning(upstream: Upstream) -> None:
    """Three independent pieces agree: the renderer of upstream bytes, the judge, and the official SDK's types."""
    # A server may report a cut free-text call as done. The oracle checks our writer, which must not do that.
    output = upstream.notes.get("response", {}).get("output", [])
    assume(not any(item["type"] == "custom_tool_call" and item["status"] == "incomplete" for item in output))
    events = [json.loads(item.data) for item in sse.split(upstream.data) if item.data is not None]
    for event in events:
        EVENT.validate_python(event)
    judged, meant = responses.check(wire(events)), canonical.check(upstream.events)
    assert sorted(block for block in judged.blocks if block[0] != "tool") == sorted(
        block for block in meant.blocks if block[0] != "tool"
    )
    assert [call[:2] for call in judged.calls if call.kind != "search"] == [
        call[:2] for call in meant.calls if call.kind != "search"
    ]
    assert [call[3:] for call in judged.calls] == [call[3:] for call in meant.calls]
    assert sorted(judged.signatures) == sorted(meant.signatures)
    assert sorted(map(str, judged.annotations)) == sorted(map(str, meant.annotations))
    assert (judged.error is None) == (meant.error is None)
    assert responses.check_whole(upstream.notes["response"]) == judged
