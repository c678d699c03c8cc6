"""The Responses WebSocket over a Chat, a Messages and a Responses upstream, on real sockets.

What reaches the strict simulated upstream is the whole conversation; what the client gets satisfies the grammar and the
schema of the events over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conformance.served import PATHS, Served
from oracles.grammar import open_responses
from oracles.grammar import responses as stream_grammar
from support.paths import FIXTURES
from support.websockets import Json, Speaking, kinds, speaking, text_of

WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


@pytest.fixture(params=["chat", "messages", "responses"], ids=lambda dialect: f"over-{dialect}")
def upstream(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Speaking]:
    async with speaking(served.url) as client:
        yield client


def model_at(upstream: str, script: str) -> str:
    """The name by which the simulated configuration plays a script in a dialect."""
    return f"{upstream}/{script}"


def sent(served: Served, upstream: str) -> Any:
    """The body of the last request that reached the upstream, in the dialect `upstream`."""
    assert served.requests[-1].path == PATHS[upstream]
    return served.requests[-1].body


async def test_a_tool_is_called_and_its_result_sent_alone(served: Served, client: Speaking, upstream: str) -> None:
    first = await client.turn(
        model=model_at(upstream, "sim-tools"), input="Weather in Oslo?", tools=[WEATHER], store=False
    )
    assert first[-1]["type"] == "response.completed"
    (call,) = [item for item in first[-1]["response"]["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain over Oslo"}
    second = await client.turn(
        model=model_at(upstream, "sim-text"),
        previous_response_id=first[-1]["response"]["id"],
        input=[result],
        tools=[WEATHER],
        store=False,
    )
    assert second[-1]["type"] == "response.completed"
    assert text_of(second)
    body = json.dumps(sent(served, upstream))
    for part in ("Weather in Oslo?", "get_weather", "rain over Oslo"):
        assert part in body
    assert "previous_response_id" not in body
    third = await client.turn(
        model=model_at(upstream, "sim-text"),
        previous_response_id=second[-1]["response"]["id"],
        input="And tomorrow?",
        store=False,
    )
    assert third[-1]["type"] == "response.completed"
    body = json.dumps(sent(served, upstream), ensure_ascii=False)
    assert body.index("Weather in Oslo?") < body.index("rain over Oslo") < body.index("And tomorrow?")
    assert len(served.requests) == 3


async def test_each_event_is_one_message_with_the_grammar_of_http(
    served: Served, client: Speaking, upstream: str
) -> None:
    events = await client.turn(model=model_at(upstream, "sim-reasoning"), input="Think.")
    assert events[-1]["type"] == "response.completed"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    stream = b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)
    stream_grammar.check(stream)
    for event in events:
        open_responses.check_event(event)


async def test_instructions_are_replaced_and_not_merged(served: Served, client: Speaking, upstream: str) -> None:
    model = model_at(upstream, "sim-text")
    first = await client.turn(model=model, input="One.", instructions="Answer in Greek.", store=False)
    previous = first[-1]["response"]["id"]
    second = await client.turn(
        model=model, input="Two.", instructions="Answer in Latin.", previous_response_id=previous
    )
    body = json.dumps(sent(served, upstream))
    assert "Latin" in body
    assert "Greek" not in body
    await client.turn(model=model, input="Three.", previous_response_id=second[-1]["response"]["id"])
    body = json.dumps(sent(served, upstream))
    assert "Latin" not in body
    assert "One." in body


async def test_a_warm_up_is_answered_without_an_upstream(served: Served, client: Speaking, upstream: str) -> None:
    model = model_at(upstream, "sim-text")
    system = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are brief."}]}
    events = await client.turn(model=model, input=[system], tools=[WEATHER], generate=False, store=False)
    assert kinds(events) == ["response.created", "response.in_progress", "response.completed"]
    for event in events:
        open_responses.check_event(event)
    response = events[-1]["response"]
    assert (response["output"], response["usage"]["total_tokens"]) == ([], 0)
    assert not served.requests
    events = await client.turn(model=model, previous_response_id=response["id"], tools=[WEATHER], store=False)
    assert events[-1]["type"] == "response.completed"
    assert "You are brief." in json.dumps(sent(served, upstream))


async def test_responses_are_forked(served: Served, client: Speaking, upstream: str) -> None:
    """Two lanes continue one response; neither has the other's items."""
    model = model_at(upstream, "sim-text")
    root = (await client.turn(model=model, input="Root.", stream_id="main"))[-1]["response"]["id"]
    for lane, text in (("main", "Left."), ("other", "Right.")):
        events = await client.turn(model=model, input=text, previous_response_id=root, stream_id=lane)
        assert {event["stream_id"] for event in events} == {lane}
        body = json.dumps(sent(served, upstream))
        assert "Root." in body
        assert ("Left." in body, "Right." in body) == (text == "Left.", text == "Right.")


async def test_an_unknown_response_is_not_found(served: Served, client: Speaking, upstream: str) -> None:
    """The code by which clients send the whole conversation again."""
    (error,) = await client.turn(model=model_at(upstream, "sim-text"), previous_response_id="resp_lost", stream_id="a")
    assert (error["type"], error["status"], error["stream_id"]) == ("error", 400, "a")
    assert error["error"]["code"] == "previous_response_not_found"
    assert error["error"]["param"] == "previous_response_id"
    (error,) = await client.turn(model=model_at(upstream, "sim-text"), previous_response_id="resp_lost", generate=False)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_a_turn_that_failed_drops_the_response_that_it_continued(
    served: Served, client: Speaking, upstream: str
) -> None:
    """Of its own lane: another lane may still continue it (responses §10)."""
    model, wrong = model_at(upstream, "sim-text"), [{"type": "message", "role": "nobody", "content": "x"}]
    root = (await client.turn(model=model, input="Root.", store=False))[-1]["response"]["id"]
    (error,) = await client.turn(model=model, input=wrong, previous_response_id=root, stream_id="fork")
    assert error["status"] == 400
    events = await client.turn(model=model, input="Still there.", previous_response_id=root, stream_id="fork")
    assert events[-1]["type"] == "response.completed"
    (error,) = await client.turn(model=model, input=wrong, previous_response_id=root)
    assert error["error"]["code"] != "previous_response_not_found"
    (error,) = await client.turn(model=model, input="Gone.", previous_response_id=root)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_codex_frames_as_recorded(served: Served, client: Speaking, upstream: str) -> None:
    """The warm-up, the turn that continues it, and the turn with the result of its call, with the ids of this run."""
    warm, turn, result = (
        json.loads((FIXTURES / f"codex_websocket-frame_{step}.json").read_text())["request"]["body"]
        for step in (1, 2, 3)
    )
    warmed = await client.turn(**{**warm, "model": model_at(upstream, "sim-tools")})
    assert kinds(warmed) == ["response.created", "response.in_progress", "response.completed"]
    assert not served.requests
    turn = {**turn, "model": model_at(upstream, "sim-tools"), "previous_response_id": warmed[-1]["response"]["id"]}
    called = (await client.turn(**turn))[-1]["response"]
    (call,) = [item for item in called["output"] if item["type"] == "function_call"]
    output = {**result["input"][0], "call_id": call["call_id"]}
    result = {
        **result,
        "model": model_at(upstream, "sim-text"),
        "previous_response_id": called["id"],
        "input": [output],
    }
    done = await client.turn(**result)
    assert done[-1]["type"] == "response.completed"
    assert text_of(done)
    body = json.dumps(sent(served, upstream))
    positions = [body.index(text) for text in ("You are a coding agent", "Run the proof step", "TOOL-b67390ae")]
    assert positions == sorted(positions)
    assert len(served.requests) == 2


async def test_a_conversation_is_compacted(served: Served, client: Speaking, upstream: str) -> None:
    """The response begins with the item, and the turn after it continues with what the item stands for."""
    if upstream == "responses":
        pytest.skip("it compacts by itself")
    model = model_at(upstream, "sim-text")
    given: list[Json] = [
        {"type": "message", "role": "user", "content": "I am Kim."},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "rain " * 800},
        {"type": "message", "role": "user", "content": "Who am I?"},
    ]
    management = [{"type": "compaction", "compact_threshold": 200}]
    first = await client.turn(model=model, input=given, context_management=management, store=False)
    for event in first:
        open_responses.check_event(event)
    response = first[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["compaction", "message"]
    await client.turn(model=model, input="And where?", previous_response_id=response["id"], store=False)
    words = json.dumps(sent(served, upstream))
    assert all(text in words for text in ("I am Kim.", "Who am I?", "And where?", "Summary of the earlier"))
    assert "rain " * 200 not in words
    last = await client.turn(model=model, input=[*given, {"type": "compaction_trigger"}], store=False)
    assert [item["type"] for item in last[-1]["response"]["output"]] == ["compaction"]
    last = await client.turn(model=model, input="Then?", previous_response_id=last[-1]["response"]["id"], store=False)
    assert last[-1]["type"] == "response.completed"
    assert "Then?" in json.dumps(sent(served, upstream))
    assert "rain " * 200 not in json.dumps(sent(served, upstream))
