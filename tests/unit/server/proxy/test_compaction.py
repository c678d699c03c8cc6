"""Compaction by the official SDK, before simulated upstreams."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import openai
import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman.reasoning.compacted_history import (
    HEADING,
    CompactedHistory,
    summary_message,
    unwrap_history,
    wrap_history,
)
from dragoman_server.config.compaction_options import CompactionOptions
from dragoman_server.config.state_options import StateOptions
from dragoman_server.proxy import compaction
from support.gateways import config_for, gate, served
from support.named_keys import made
from support.samples import reply
from support.stateful import MEMORY, stateful
from support.texts import sent_texts

THRESHOLD: Any = [{"type": "compaction", "compact_threshold": 3_000}]
UPSTREAMS = pytest.mark.parametrize("upstream", [Dialect.CHAT, Dialect.MESSAGES])
OFF = StateOptions()
MODEL = "sim-text"
LONG = "A line of a file that the agent has read. " * 60


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"type": "message", "role": "assistant", "content": text}


def with_model(model: str) -> StateOptions:
    return StateOptions(compaction=CompactionOptions(model))


def loop(steps: int, text: str = LONG) -> list[Any]:
    """A tool loop, which ends with an answer."""
    items: list[Any] = []
    for number in range(steps):
        call_id = f"call_{number}"
        items += [
            {"type": "function_call", "call_id": call_id, "name": "read", "arguments": f'{{"n":{number}}}'},
            {"type": "function_call_output", "call_id": call_id, "output": f"{number}: {text}"},
        ]
    return [*items, assistant("All files are read.")]


@UPSTREAMS
async def test_a_conversation_is_compacted_and_goes_on(upstream: Dialect) -> None:
    async with stateful(upstream, OFF) as state:
        items = [{"role": "developer", "content": "Be brief."}, user("Read the files."), *loop(4), user("And now?")]
        compacted = await state.sdk.responses.compact(model=MODEL, input=items)
        assert compacted.object == "response.compaction"
        assert compacted.id.startswith("resp_")
        assert [item.type for item in compacted.output] == ["message", "message", "message", "compaction"]
        assert compacted.usage.total_tokens == compacted.usage.input_tokens + compacted.usage.output_tokens > 0
        asked = json.dumps(state.sent())
        assert "Write the summary now." in asked
        assert "characters removed to save context" in asked
        window = [item.to_dict(warnings=False) for item in compacted.output]
        await state.sdk.responses.create(model=MODEL, input=[*window, user("Go on.")])
        texts = sent_texts(state.sent())
    assert texts[-1] == "Go on."
    summary = next(text for text in texts if text.startswith(HEADING))
    assert len(summary) > len(HEADING) + 2
    assert "Read the files." in texts
    assert not any(LONG in text for text in texts)


@UPSTREAMS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_trigger_returns_the_item_alone(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream, OFF) as state:
        items = [user("Read the files."), *loop(2)]
        given: Any = [*items, {"type": "compaction_trigger"}]
        if stream:
            events = [event async for event in await state.sdk.responses.create(model=MODEL, input=given, stream=True)]
            assert [event.sequence_number for event in events] == list(range(len(events)))
            response = events[-1].response
            added = next(event for event in events if event.type == "response.output_item.added")
            done = next(event for event in events if event.type == "response.output_item.done")
            assert (added.item.id, added.output_index, done.output_index) == (done.item.id, 0, 0)
            assert done.item == response.output[0]
        else:
            response = await state.sdk.responses.create(model=MODEL, input=given)
        (item,) = response.output
        assert response.status == "completed"
        # What the item covers is left out, whether or not it is sent again.
        for before in ([], items):
            await state.sdk.responses.create(model=MODEL, input=[*before, item.to_dict(), user("Go on.")])
            texts = sent_texts(state.sent())
            assert texts[0].startswith(HEADING)
            assert (texts[1], texts[-1]) == ("Read the files.", "Go on.")
            assert not any(LONG in text for text in texts)


@UPSTREAMS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_after_compaction_begins_with_the_item(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream, OFF) as state:
        items: Any = [user("Read the files."), *loop(12), user("What is in them?")]
        management: Any = [{"type": "compaction", "compact_threshold": 3_000}]
        response, headers = await create(state, stream, input=items, context_management=management)
        assert [item.type for item in response.output] == ["compaction", "message"]
        assert "history_summarised=1" in headers["x-dragoman-loss"]
        assert len(state.simulator_requests()) == 2
        texts = sent_texts(state.sent())
        assert [texts[0], texts[-1]] == ["Read the files.", "What is in them?"]
        assert texts[1].startswith(HEADING)
        # The next turn is below the threshold, and its prompt begins as that of this one.
        output = [item.to_dict(warnings=False) for item in response.output]
        again, headers = await create(
            state, stream, input=[*items, *output, user("Thanks.")], context_management=management
        )
        assert [item.type for item in again.output] == ["message"]
        assert "x-dragoman-loss" not in headers
        assert len(state.simulator_requests()) == 3
        assert sent_texts(state.sent())[: len(texts)] == texts


@UPSTREAMS
async def test_eviction_alone_needs_no_summary(upstream: Dialect) -> None:
    async with stateful(upstream, OFF) as state:
        items: Any = [user("Read."), *loop(1, LONG * 8), user("And?")]
        response, headers = await create(
            state, False, input=items, context_management=[{"type": "compaction", "compact_threshold": 2_000}]
        )
        assert len(state.simulator_requests()) == 1
        history = unwrap_history(response.output[0].to_dict())
        assert history is not None
        assert history.summary == ""
        assert headers["x-dragoman-loss"] == "result_cut=1"
        assert "characters removed to save context" in json.dumps(state.sent())


@UPSTREAMS
async def test_what_the_user_wrote_is_never_compacted(upstream: Dialect) -> None:
    async with stateful(upstream, OFF) as state:
        items: Any = [user(LONG * 8), assistant("Yes."), user("And?")]
        response, headers = await create(
            state, False, input=items, context_management=[{"type": "compaction", "compact_threshold": 2_000}]
        )
        assert [item.type for item in response.output] == ["message"]
        assert headers["x-dragoman-loss"] == "context_management=1"
        assert sent_texts(state.sent()) == [LONG * 8, "Yes.", "And?"]


@UPSTREAMS
async def test_a_stored_conversation_is_compacted(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        management: Any = [{"type": "compaction", "compact_threshold": 3_000}]
        first = await state.sdk.responses.create(model=MODEL, input=[user("Read the files."), *loop(12), user("Now?")])
        second = await state.sdk.responses.create(
            model=MODEL, previous_response_id=first.id, input="And then?", context_management=management
        )
        assert [item.type for item in second.output] == ["compaction", "message"]
        third = await state.sdk.responses.create(
            model=MODEL, previous_response_id=second.id, input="The end?", context_management=management
        )
        assert [item.type for item in third.output] == ["message"]
        texts = sent_texts(state.sent())
        assert not any(LONG in text for text in texts)
        assert [text for text in texts if text.endswith("?")] == ["Now?", "And then?", "The end?"]
        # Another branch of the first response has all of it.
        await state.sdk.responses.create(model=MODEL, previous_response_id=first.id, input="Else?")
        assert any(LONG in text for text in sent_texts(state.sent()))
        compacted = await state.sdk.responses.compact(model=MODEL, previous_response_id=third.id)
        assert compacted.output[-1].type == "compaction"


@UPSTREAMS
@pytest.mark.parametrize("stream", [False, True])
async def test_compaction_in_the_background(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream) as state:
        items: Any = [user("Read the files."), *loop(12), user("What is in them?")]
        for more, kinds in (
            ({"input": items, "context_management": THRESHOLD}, ["compaction", "message"]),
            ({"input": [*items, {"type": "compaction_trigger"}]}, ["compaction"]),
        ):
            reply = await state.sdk.responses.create(model=MODEL, background=True, stream=stream, **more)
            response: Any = None
            if stream:
                response = [event async for event in reply][-1].response
            else:
                for _ in range(2000):
                    response = await state.sdk.responses.retrieve(reply.id)
                    if response.status not in ("queued", "in_progress"):
                        break
                    await asyncio.sleep(0.01)
            assert (response.status, [item.type for item in response.output]) == ("completed", kinds)
            await state.sdk.responses.create(model=MODEL, previous_response_id=response.id, input="Go on.")
            texts = sent_texts(state.sent())
            assert [texts[0], texts[-1]] == ["Read the files.", "Go on."]
            assert not any(LONG in text for text in texts)


@UPSTREAMS
async def test_errors_name_the_field(upstream: Dialect) -> None:
    async with stateful(upstream, OFF) as state:
        foreign: Any = {"type": "compaction", "encrypted_content": "gAAAA"}
        with pytest.raises(openai.BadRequestError, match="provider that made it"):
            await state.sdk.responses.compact(model=MODEL, input=[user("Hi"), foreign])
        with pytest.raises(openai.BadRequestError, match="provider that made it"):
            await state.sdk.responses.create(model=MODEL, input=[user("Hi"), foreign])
        with pytest.raises(openai.BadRequestError) as caught:
            await state.sdk.responses.create(
                model=MODEL, input="Hi", context_management=[{"type": "compaction", "compact_threshold": 0}]
            )
        assert caught.value.param == "context_management[0].compact_threshold"
        with pytest.raises(openai.BadRequestError) as caught:
            await state.sdk.responses.compact(model=MODEL)
        assert caught.value.param == "input"


@UPSTREAMS
async def test_a_model_of_its_own_writes_the_summary(upstream: Dialect) -> None:
    async with stateful(upstream, with_model("sim-echo")) as state:
        items: Any = [user("Read the files."), *loop(12), user("What is in them?")]
        await create(state, False, input=items, context_management=THRESHOLD)
        assert [sent["model"] for sent in state.simulator_requests()] == ["sim-echo", MODEL]
        await state.sdk.responses.compact(model=MODEL, input=items)
        assert state.sent()["model"] == "sim-echo"


@pytest.mark.turns
@UPSTREAMS
@pytest.mark.parametrize("model", ["sim-error-500", "sim-empty", "sim-length-text", "sim-tools"])
async def test_a_conversation_without_a_summary_goes_on(upstream: Dialect, model: str) -> None:
    async with stateful(upstream, with_model(model)) as state:
        items: Any = [user("Read the files."), *loop(12), user("What is in them?")]
        response, headers = await create(state, False, input=items, context_management=THRESHOLD)
        assert [item.type for item in response.output] == ["message"]
        assert headers["x-dragoman-loss"] == "context_management=1"
        assert LONG in json.dumps(state.sent())
        with pytest.raises(openai.InternalServerError):
            await state.sdk.responses.compact(model=MODEL, input=items)
        with pytest.raises(openai.InternalServerError):
            await state.sdk.responses.create(model=MODEL, input=[*items, {"type": "compaction_trigger"}])


async def test_a_summary_that_failed_is_not_requested_with_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stateful(Dialect.CHAT, with_model("sim-error-500")) as state:
        items: Any = [user("Read the files."), *loop(12), user("What is in them?")]
        for _ in range(3):
            response, headers = await create(state, False, input=items, context_management=THRESHOLD)
            assert headers["x-dragoman-loss"] == "context_management=1"
            assert [item.type for item in response.output] == ["message"]
        assert [sent["model"] for sent in state.simulator_requests()] == ["sim-error-500", *[MODEL] * 3]
        monkeypatch.setattr(compaction, "PAUSE", 0.0)
        await create(state, False, input=items, context_management=THRESHOLD)
        assert [sent["model"] for sent in state.simulator_requests()][4:] == ["sim-error-500", MODEL]


async def test_both_exchanges_are_in_the_books() -> None:
    """Each has a receipt, and a place in the limits of the key."""
    key, record = made("agent", requests_per_minute=3)
    async with stateful(Dialect.CHAT, OFF, keys=(record,)) as state:
        sdk = state.client(key)
        items: Any = [user("Read the files."), *loop(12), user("What is in them?")]
        response = await sdk.responses.create(model=MODEL, input=items, context_management=THRESHOLD)
        assert response.output[0].type == "compaction"
        ended = [receipt.ended for receipt in state.gate.gateway.receipts.newest()]
        assert ended == ["completed", "completed"]
        await sdk.responses.create(model=MODEL, input="Third.")
        with pytest.raises(openai.RateLimitError):
            await sdk.responses.create(model=MODEL, input="Fourth.")


async def test_a_responses_upstream_compacts_by_itself() -> None:
    """The gateway compacts the responses that it stores: requests and replies pass through."""
    compacted = {
        "id": "resp_1",
        "object": "response.compaction",
        "created_at": 1,
        "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }
    got: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        got.append((request.path, await request.json()))
        if request.path.endswith("compact"):
            return web.json_response(compacted)
        return web.json_response(reply(Dialect.RESPONSES))

    app = web.Application()
    app.router.add_post("/v1/responses/compact", answer)
    app.router.add_post("/v1/responses", answer)
    items: Any = [user("Hi"), compacted["output"][0]]  # type: ignore[index]
    async with (
        served(app) as (url, _),
        gate(replace(config_for(url + "/v1", Dialect.RESPONSES), state=MEMORY)) as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as sdk,
    ):
        found = await sdk.responses.compact(model="m", input=items)
        assert (found.id, found.usage.total_tokens) == ("resp_1", 5)
        await sdk.responses.create(model="m", input=items, context_management=THRESHOLD)
        await sdk.responses.create(model="m", input=[*items, {"type": "compaction_trigger"}])
        # A history that was compacted here becomes messages again.
        own = {"type": "compaction", "encrypted_content": wrap_history(CompactedHistory("Sum.", [user("a")]), "m")}
        await sdk.responses.create(model="m", input=[own, user("b")])  # type: ignore[list-item]
    assert [path for path, _ in got] == ["/v1/responses/compact", *["/v1/responses"] * 3]
    assert got[0][1] == {"model": "m", "input": items}
    assert got[1][1]["context_management"] == THRESHOLD
    assert got[2][1]["input"][-1] == {"type": "compaction_trigger"}
    assert got[3][1]["input"] == [user("a"), summary_message("Sum."), user("b")]


@UPSTREAMS
async def test_an_explanation_shows_the_request_for_the_summary(upstream: Dialect) -> None:
    async with stateful(upstream, OFF) as state:
        items = [user("Read the files."), *loop(12), user("And now?")]
        url = f"{state.gate.url}/v1/dragoman/explain"
        body: Any = {"model": MODEL, "input": [*items, {"type": "compaction_trigger"}]}
        async with state.gate.session.post(f"{url}?from=responses", json=body) as response:
            explained = await response.json()
        assert "Write the summary now." in json.dumps(explained["body"])
        body = {"model": MODEL, "input": items, "context_management": THRESHOLD, "max_output_tokens": 4000}
        async with state.gate.session.post(f"{url}?from=responses", json=body) as response:
            explained = await response.json()
        assert (explained["losses_total"], state.simulator_requests()) == (0, [])


async def create(state: Any, stream: bool, **arguments: Any) -> tuple[Any, Any]:
    """A response, and the headers with which it came."""
    arguments.setdefault("max_output_tokens", 4000)
    raw = await state.sdk.responses.with_raw_response.create(model=MODEL, stream=stream, **arguments)
    parsed = raw.parse()
    if not stream:
        return parsed, raw.headers
    events = [event async for event in parsed]
    return events[-1].response, raw.headers
