"""The cases of the Open Responses specification's suite, over a Chat and over a Messages upstream.

Over HTTP each is asked for whole and as a stream, of a gateway on a real socket. What comes back satisfies the
specification's schema and the types of the official SDK, every object and every event of it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import aiohttp
import pytest
from openai.types.responses import CompactedResponse, Response, ResponseCompactionItem

from conformance.judges_responses import judge_responses, responses_events
from conformance.samples import PNG
from conformance.served import Served, Upstream, model_at, openai_sdk
from oracles.grammar import open_responses
from oracles.grammar import responses as stream_grammar
from support.websockets import speaking

Json = dict[str, Any]


class Case(NamedTuple):
    """A request without its model. The upstream plays `script`; the reply has an item of the type `item`."""

    body: Json
    script: str = "sim-text"
    item: str = "message"


def stated(role: str, content: Any, **more: Any) -> Json:
    return {"type": "message", "role": role, "content": content, **more}


WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PICTURE = [
    {"type": "input_text", "text": "What is this?"},
    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
]
BASIC = Case({"input": [stated("user", "Greet me in three words.")]})
CASES = {
    "basic": BASIC,
    "system-prompt": Case({"input": [stated("system", "You are a sailor."), stated("user", "Greet me.")]}),
    "tool-call": Case(
        {"input": [stated("user", "Weather in Oslo?")], "tools": [WEATHER]}, "sim-tools", "function_call"
    ),
    "image": Case({"input": [stated("user", PICTURE)]}),
    "multi-turn": Case(
        {"input": [stated("user", "I am Kim."), stated("assistant", "Hello Kim."), stated("user", "Who am I?")]}
    ),
    "assistant-phase": Case(
        {
            "input": [
                stated("user", "Two and two?"),
                stated("assistant", "I add them up.", phase="commentary"),
                stated("assistant", "It is four.", phase="final_answer"),
                stated("user", "Only the number."),
            ]
        }
    ),
}
"""The seventh case, streaming, is each of these as a stream. The eighth, a schema for phases, asks no server."""
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


async def post(served: Served, body: Json, path: str = "responses") -> bytes:
    """A reply's body, as a client without an SDK gets it."""
    async with aiohttp.ClientSession() as session, session.post(f"{served.url}/v1/{path}", json=body) as response:
        assert response.status == 200
        return await response.read()


@each_case
async def test_a_whole_reply_satisfies_the_specification(served: Served, upstream: Upstream, case: Case) -> None:
    body = {"model": model_at(upstream, case.script), **case.body}
    reply = json.loads(await post(served, body))
    open_responses.check_response(reply)
    assert reply["status"] == "completed"
    assert case.item in [item["type"] for item in reply["output"]]
    assert reply["completed_at"] >= reply["created_at"]
    async with openai_sdk(served.url, strict=True) as gpt:
        parsed = await gpt.responses.create(**body)
    Response.model_validate(parsed.to_dict(), strict=True)
    assert [item.type for item in parsed.output] == [item["type"] for item in reply["output"]]


@each_case
async def test_a_stream_satisfies_the_specification(served: Served, upstream: Upstream, case: Case) -> None:
    body = {"model": model_at(upstream, case.script), **case.body, "stream": True}
    stream = await post(served, body)
    events = [json.loads(line.removeprefix(b"data: ")) for line in stream.splitlines() if line.startswith(b"data: ")]
    for event in events:
        open_responses.check_event(event)
    assert stream_grammar.check(stream).finish == "completed"
    noted = {event["type"] for event in events}
    items = [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"]
    assert case.item in items
    if case.item == "function_call":
        assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= noted
    else:
        assert {"response.content_part.added", "response.output_text.delta", "response.output_text.done"} <= noted
    seen: list[Any] = []
    async with openai_sdk(served.url, strict=True) as gpt:
        await responses_events(await gpt.responses.create(**body), seen)
    assert [item.type for item in judge_responses(seen).output] == items


async def test_the_requests_reach_the_upstream(served: Served, upstream: Upstream) -> None:
    """The picture, the earlier turns and the system message are really sent; a phase is a loss, and its text is not."""
    sent: dict[str, str] = {}
    for name, case in CASES.items():
        await post(served, {"model": model_at(upstream, case.script), **case.body})
        sent[name] = json.dumps(served.received(upstream))
    assert PNG in sent["image"]
    assert all(words in sent["multi-turn"] for words in ("I am Kim.", "Hello Kim.", "Who am I?"))
    assert all(words in sent["assistant-phase"] for words in ("I add them up.", "It is four.", "Only the number."))
    assert "You are a sailor." in sent["system-prompt"]
    assert "get_weather" in sent["tool-call"]


HISTORY: Any = [
    stated("user", "I am Kim. Look at the harbour."),
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Oslo"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "rain " * 800},
    stated("assistant", "It rains."),
    stated("user", "Who am I?"),
]


async def test_a_conversation_is_compacted(served: Served, upstream: Upstream) -> None:
    """The reply, and the turn after it, satisfy the specification; the new turn has what the user wrote."""
    model = model_at(upstream, "sim-text")
    reply = json.loads(await post(served, {"model": model, "input": HISTORY}, "responses/compact"))
    open_responses.check_compacted(reply)
    assert [item["type"] for item in reply["output"]] == ["message", "message", "compaction"]
    async with openai_sdk(served.url) as gpt:
        compacted = await gpt.responses.compact(model=model, input=HISTORY)
    assert isinstance(compacted, CompactedResponse)
    item = ResponseCompactionItem.model_validate(compacted.output[-1].to_dict(), strict=True)
    assert item.encrypted_content == reply["output"][-1]["encrypted_content"]
    again = {"model": model, "input": [*reply["output"], stated("user", "And where?")]}
    open_responses.check_response(json.loads(await post(served, again)))
    sent = json.dumps(served.received(upstream))
    assert all(words in sent for words in ("I am Kim.", "Who am I?", "And where?", "Summary of the earlier"))
    assert "rain " * 200 not in sent


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("trigger", [False, True], ids=["threshold", "trigger"])
async def test_a_response_with_a_compaction(served: Served, upstream: Upstream, trigger: bool, stream: bool) -> None:
    """Of an item in the input, and when the input has reached a threshold."""
    body: Any = {"model": model_at(upstream, "sim-text"), "input": HISTORY, "stream": stream}
    if trigger:
        body["input"] = [*HISTORY, {"type": "compaction_trigger"}]
    else:
        body["context_management"] = [{"type": "compaction", "compact_threshold": 200}]
    data = await post(served, body)
    if stream:
        events = [json.loads(line.removeprefix(b"data: ")) for line in data.splitlines() if line.startswith(b"data: ")]
        for event in events:
            open_responses.check_event(event)
        stream_grammar.check(data)
        reply = events[-1]["response"]
        seen: list[Any] = []
        async with openai_sdk(served.url, strict=True) as gpt:
            await responses_events(await gpt.responses.create(**body), seen)
        judge_responses(seen)
    else:
        reply = json.loads(data)
        stream_grammar.check_whole(reply)
    open_responses.check_response(reply)
    kinds = [item["type"] for item in reply["output"]]
    assert kinds == (["compaction"] if trigger else ["compaction", "message"])
    again = {"model": body["model"], "input": [*HISTORY, *reply["output"], stated("user", "And where?")]}
    open_responses.check_response(json.loads(await post(served, again)))
    sent = json.dumps(served.received(upstream))
    assert all(words in sent for words in ("I am Kim.", "Who am I?", "And where?", "Summary of the earlier"))
    assert "rain " * 200 not in sent


async def test_a_request_to_compact_without_a_model_is_refused(served: Served) -> None:
    body = {"input": [stated("user", "Compact this conversation.")]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/responses/compact", json=body) as response,
    ):
        assert response.status in (400, 422)


def completed(events: list[Json]) -> Json:
    """The response of a turn over WebSocket that went well."""
    for event in events:
        open_responses.check_event(event)
    response: Json = events[-1]["response"]
    open_responses.check_response(response)
    assert response["status"] == "completed"
    return response


async def test_turns_over_a_websocket(served: Served, upstream: Upstream) -> None:
    """One, two on one connection, and one that continues another by its id."""
    model = model_at(upstream, "sim-text")
    async with speaking(served.url) as client:
        completed(await client.turn(model=model, input=[stated("user", "Count from 1 to 3.")]))
        first = completed(await client.turn(model=model, input="The word is cobalt.", store=False))
        second = {"input": "What is the word?", "previous_response_id": first["id"], "store": False}
        completed(await client.turn(model=model, **second))
    assert "The word is cobalt." in json.dumps(served.received(upstream))


async def test_a_websocket_without_the_response_that_is_continued(served: Served, upstream: Upstream) -> None:
    """It is not stored, so another connection does not know it, and goes on with a conversation of its own."""
    model = model_at(upstream, "sim-text")
    async with speaking(served.url) as client:
        first = completed(await client.turn(model=model, input="The word is copper.", store=False))
    async with speaking(served.url) as client:
        for previous in (first["id"], "resp_openresponses_missing_1"):
            (error,) = await client.turn(model=model, input="And?", previous_response_id=previous, store=False)
            assert error["error"]["code"] == "previous_response_not_found"
            completed(await client.turn(model=model, input=[stated("user", "Begin again.")], store=False))


async def test_a_continuation_that_fails_ends_what_it_continued(served: Served, upstream: Upstream) -> None:
    """The output answers no call of the response that it continues."""
    model = model_at(upstream, "sim-text")
    lost = {"type": "function_call_output", "call_id": "call_openresponses_missing", "output": "No call has this id."}
    async with speaking(served.url) as client:
        first = completed(await client.turn(model=model, input="The word is ember.", store=False))
        more = {"model": model, "previous_response_id": first["id"], "store": False}
        (error,) = await client.turn(input=[lost], **more)
        assert "No tool call found" in error["error"]["message"]
        (error,) = await client.turn(input="Go on.", **more)
        assert error["error"]["code"] == "previous_response_not_found"


async def test_a_compacted_conversation_begins_a_chain_on_a_websocket(served: Served, upstream: Upstream) -> None:
    model = model_at(upstream, "sim-text")
    reply = json.loads(await post(served, {"model": model, "input": HISTORY}, "responses/compact"))
    async with speaking(served.url) as client:
        again = [*reply["output"], stated("user", "And where?")]
        completed(await client.turn(model=model, input=again, tools=[], store=False))


async def test_a_bare_tool_is_repeated_whole(served: Served, upstream: Upstream) -> None:
    """The schema of a reply wants keys that the schema of a request lets a client leave out."""
    tool = {"type": "function", "name": "ping"}
    body = {"model": model_at(upstream, "sim-text"), "input": "Hi", "tools": [tool]}
    reply = json.loads(await post(served, body))
    open_responses.check_response(reply)
    assert reply["tools"] == [tool | {"description": None, "parameters": None, "strict": None}]
