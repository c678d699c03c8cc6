"""Stored responses by the official SDK, before a simulated upstream of each dialect."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman.threads import StoreError
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.state_options import StateOptions
from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.commands import command
from support.gateways import config_for, gate, served
from support.named_keys import made
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer
from support.stateful import MEMORY, stateful
from support.texts import sent_texts
from support.thread_stores import KEY

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@UPSTREAMS
async def test_a_conversation_with_a_call_a_fork_and_its_end(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        responses = state.sdk.responses
        first = await responses.create(
            model="sim-tools", input="Weather in Oslo?", tools=[WEATHER], instructions="Be brief."
        )
        assert first.store is True
        call = next(item for item in first.output if item.type == "function_call")
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        second = await responses.create(
            model="sim-text", previous_response_id=first.id, input=[output], tools=[WEATHER]
        )
        assert second.previous_response_id == first.id
        sent = json.dumps(state.sent())
        assert "Weather in Oslo?" in sent
        assert "rain" in sent
        assert "Be brief." not in sent  # instructions are replaced, not merged
        third = await responses.create(
            model="sim-text", previous_response_id=second.id, input="And tomorrow?", instructions="Use French."
        )
        sent = json.dumps(state.sent())
        assert "Use French." in sent
        assert sent.index("Weather in Oslo?") < sent.index("rain") < sent.index("And tomorrow?")
        # A fork: it knows nothing of the third response.
        fork = await responses.create(model="sim-text", previous_response_id=second.id, input="And yesterday?")
        sent = json.dumps(state.sent())
        assert "rain" in sent
        assert "And tomorrow?" not in sent
        assert (await responses.retrieve(third.id)).output == third.output
        assert (await responses.retrieve(fork.id)).output_text == fork.output_text
        items = [item async for item in responses.input_items.list(third.id, order="asc", limit=2)]
        kinds = [item.type for item in items]
        assert kinds[0] == "message"
        assert kinds[-1] == "message"
        assert kinds.index("function_call") < kinds.index("function_call_output")
        assert len({item.id for item in items}) == len(items)
        newest = await responses.input_items.list(third.id, limit=1)
        assert [item.content[0].text for item in newest.data] == ["And tomorrow?"]
        assert newest.has_more
        await responses.delete(third.id)
        with pytest.raises(openai.NotFoundError, match=f"Response with id '{third.id}' not found"):
            await responses.retrieve(third.id)
        with pytest.raises(openai.BadRequestError, match=f"Previous response with id '{third.id}' not found") as caught:
            await responses.create(model="sim-text", previous_response_id=third.id, input="x")
        assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")
        assert (await responses.create(model="sim-text", previous_response_id=fork.id, input="x")).store is True


async def test_tokens_are_counted_of_the_whole_conversation() -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="A rather long question about rivers. " * 50)
        alone = await state.sdk.responses.input_tokens.count(model="sim-text", input="And?")
        count = await state.sdk.responses.input_tokens.count(
            model="sim-text", input="And?", previous_response_id=first.id
        )
        assert count.input_tokens > alone.input_tokens + 300


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fallback_gets_the_whole_conversation_too(stream: bool) -> None:
    """The first provider passes requests through; on this route its responses are stored by the gateway."""
    simulator = strict_simulator()
    async with ScriptedServer(answer(500, b"{}")) as broken, served(simulator) as (url, _):
        targets = (RouteTarget("broken"), RouteTarget("good"))
        config = Config(
            providers={
                "broken": Provider("broken", Dialect.RESPONSES, f"{broken.url}/v1"),
                "good": Provider("good", Dialect.MESSAGES, url),
            },
            routes=[Route("*", targets=targets, attempts=2)],
            state=MEMORY,
        )
        async with gate(config) as entrance:
            previous = None
            for text in ("one", "two"):
                body = {"model": "sim-text", "input": text, "stream": stream, "previous_response_id": previous}
                async with entrance.session.post(f"{entrance.url}/v1/responses", json=body) as response:
                    assert response.status == 200
                    whole = await response.read()
                found = json.loads(whole.rpartition(b"data: ")[2])["response"] if stream else json.loads(whole)
                assert (found["store"], found["previous_response_id"]) == (True, previous)
                previous = found["id"]
        sent = json.loads(broken.requests[0].body)
        assert sent["store"] is False
    assert sent_texts(simulator[REQUESTS][-1].body)[0] == "one"
    assert sent_texts(simulator[REQUESTS][-1].body)[-1] == "two"


@UPSTREAMS
async def test_a_streamed_reply_is_stored_before_its_end_is_sent(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        async with state.sdk.responses.stream(model="sim-text", input="Hi") as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        assert events[0].response.store is True
        assert events[-1].response.store is True
        assert events[0].response.id == final.id
        kept = await state.sdk.responses.retrieve(final.id)
        assert kept.output_text == final.output_text
        again = await state.sdk.responses.create(model="sim-text", previous_response_id=final.id, input="More")
        assert again.previous_response_id == final.id
        assert sent_texts(state.sent()) == ["Hi", final.output_text, "More"]


@UPSTREAMS
async def test_reasoning_returns_to_the_upstream_that_made_it(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        first = await state.sdk.responses.create(model="sim-thinking", input="Think", reasoning={"effort": "low"})
        assert "reasoning" in [item.type for item in first.output]
        await state.sdk.responses.create(
            model="sim-text", previous_response_id=first.id, input="More", reasoning={"effort": "low"}
        )
        sent = state.sent()
        if upstream is Dialect.MESSAGES:
            assert sent["messages"][1]["content"][0]["type"] == "thinking"
        elif upstream is Dialect.RESPONSES:
            assert [item["type"] for item in sent["input"]][:3] == ["message", "reasoning", "message"]
            assert "dgm1." not in json.dumps(sent)


@UPSTREAMS
@pytest.mark.parametrize("stream", [False, True])
async def test_store_false_stores_nothing_and_changes_no_byte_of_a_reply(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream) as state:
        body = {"model": "sim-text", "input": "Hi", "store": False, "stream": stream}
        async with state.gate.session.post(f"{state.gate.url}/v1/responses", json=body) as response:
            whole = await response.read()
        found = json.loads(whole if not stream else whole.split(b"data: ")[-1])
        found = found["response"] if stream else found
        assert found["store"] is False
        with pytest.raises(openai.NotFoundError):
            await state.sdk.responses.retrieve(found["id"])
        with pytest.raises(openai.BadRequestError, match="not found"):
            await state.sdk.responses.create(model="sim-text", previous_response_id=found["id"], input="x")
        assert len(state.store._forest) == 0


async def test_a_stored_conversation_can_be_continued_without_storing_more() -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hi")
        second = await state.sdk.responses.create(
            model="sim-text", previous_response_id=first.id, input="More", store=False
        )
        assert (second.store, second.previous_response_id) == (False, first.id)
        with pytest.raises(openai.NotFoundError):
            await state.sdk.responses.retrieve(second.id)


async def test_another_key_sees_nothing_of_it() -> None:
    alice, record = made("alice")
    bob, other = made("bob")
    async with stateful(Dialect.MESSAGES, keys=(record, other)) as state:
        mine, theirs = state.client(alice), state.client(bob)
        first = await mine.responses.create(model="sim-text", input="Hi")
        with pytest.raises(openai.NotFoundError) as caught:
            await theirs.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError) as unknown:
            await theirs.responses.retrieve("resp_unknown")
        assert str(caught.value).replace(first.id, "resp_unknown") == str(unknown.value)
        with pytest.raises(openai.NotFoundError):
            await theirs.responses.input_items.list(first.id)
        with pytest.raises(openai.NotFoundError):
            await theirs.responses.delete(first.id)
        with pytest.raises(openai.BadRequestError, match="Previous response"):
            await theirs.responses.create(model="sim-text", previous_response_id=first.id, input="x")
        assert (await mine.responses.retrieve(first.id)).id == first.id
        with pytest.raises(openai.AuthenticationError):
            await state.sdk.responses.retrieve(first.id)


@pytest.mark.parametrize("name", ["sim-error-mid", "sim-cut", "sim-cut-tools"])
async def test_a_failed_stream_is_not_stored(name: str) -> None:
    async with stateful(Dialect.CHAT) as state:
        body = {"model": name, "input": "Hi", "stream": True, "tools": [WEATHER]}
        async with state.gate.session.post(f"{state.gate.url}/v1/responses", json=body) as response:
            whole = await response.read()
        last = json.loads(whole.split(b"data: ")[-1])
        assert last["type"] == "response.failed"
        assert last["response"]["store"] is False
        with pytest.raises(openai.NotFoundError):
            await state.sdk.responses.retrieve(last["response"]["id"])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_that_cannot_be_stored_is_reported(stream: bool) -> None:
    async with stateful(Dialect.CHAT) as state:

        async def full(_: Any) -> None:
            raise StoreError("the disk is full: make room")

        state.store.put = full
        body = {"model": "sim-text", "input": "Hi", "stream": stream}
        async with state.gate.session.post(f"{state.gate.url}/v1/responses", json=body) as response:
            assert response.status == 200
            whole = await response.read()
        last = json.loads(whole.split(b"data: ")[-1] if stream else whole)
        assert (last["response"] if stream else last)["store"] is False
        async with state.gate.session.get(f"{state.gate.url}/metrics") as response:
            assert 'dragoman_responses_stored_total{result="failed"} 1' in await response.text()


async def test_a_store_that_is_away_is_a_503_for_those_who_need_it() -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hi")

        async def away(*_: Any) -> None:
            raise StoreError("the file is damaged: move it away")

        state.store.path_outline = state.store.get = away
        with pytest.raises(openai.InternalServerError, match="not available at the moment") as caught:
            await state.sdk.responses.create(model="sim-text", previous_response_id=first.id, input="x")
        assert caught.value.status_code == 503
        with pytest.raises(openai.InternalServerError):
            await state.sdk.responses.retrieve(first.id)
        assert (await state.sdk.responses.create(model="sim-text", input="Hi")).output_text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [{"role": "user", "content": "a"}, {"role": "user", "content": 7}]}, "input[1].content"),
        ({"input": 7}, "input"),
        ({"previous_response_id": "no such id!"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "previous_response_id"),
        ({"store": "yes"}, "store"),
    ],
)
async def test_an_error_names_the_clients_own_field(fields: dict[str, Any], param: str) -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hi")
        body = {"model": "sim-text", "input": "x", "previous_response_id": first.id, **fields}
        async with state.gate.session.post(f"{state.gate.url}/v1/responses", json=body) as response:
            assert response.status == 400
            error = (await response.json())["error"]
        assert error["param"] == param
        if param.startswith("input["):
            assert error["message"].startswith(param)


async def test_endpoints_that_there_are_not() -> None:
    async with (
        stateful(Dialect.CHAT) as state,
        state.gate.session.post(f"{state.gate.url}/v1/responses/resp_1/other") as reply,
    ):
        assert reply.status == 404
        assert "has no such endpoint of stored responses" in (await reply.json())["error"]["message"]


async def test_an_explanation_has_the_whole_conversation() -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hi")
        body = {"model": "sim-text", "input": "More", "previous_response_id": first.id}
        async with state.gate.session.post(f"{state.gate.url}/v1/dragoman/explain", json=body) as reply:
            assert reply.status == 200
            explained = await reply.json()
        assert len(sent_texts(explained["body"])) == 3


async def test_an_upstream_with_state_of_its_own_gets_the_clients_bytes() -> None:
    """The default for Responses upstreams."""
    body = dump({"model": "m", "previous_response_id": "resp_theirs", "input": "x", "store": True})
    async with ScriptedServer(answer(200, dump(reply(Dialect.RESPONSES)))) as server:
        config = replace(config_for(server.url, Dialect.RESPONSES), state=MEMORY)
        async with gate(config) as entrance, entrance.post(Dialect.RESPONSES, body) as response:
            assert response.status == 200
            assert await response.read() == dump(reply(Dialect.RESPONSES))
        assert server.requests[0].body == body


async def test_a_gateway_does_not_start_with_a_file_that_it_cannot_use(tmp_path: Path) -> None:
    database, config = tmp_path / "responses.db", tmp_path / "gateway.toml"
    database.write_bytes(b"this is not a database, but long enough to be read as the header of one" * 20)
    config.write_text(
        f'[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
        f'[state]\nkind = "sqlite"\npath = "{database}"\n'
    )
    async with command("serve", str(config), "--port", "0") as running:
        assert await running.ends() != 0
        assert "state: " in running.stated
        assert "not a database: move it away" in running.stated
        assert "Traceback" not in running.stated


async def test_the_default_file_is_made_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = StateOptions(kind="sqlite", encryption_key=Secret(KEY))
    async with stateful(Dialect.CHAT, options) as state:
        first = await state.sdk.responses.create(model="sim-text", input="a very secret question")
        assert (await state.sdk.responses.retrieve(first.id)).output_text == first.output_text
    file = tmp_path / "state/dragoman/responses.db"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert b"very secret" not in file.read_bytes()


async def test_a_change_of_the_settings_takes_effect_at_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    async with stateful(Dialect.CHAT) as state:
        gateway = state.gate.gateway
        first = await state.sdk.responses.create(model="sim-text", input="Hi")
        gateway.reconfigure(replace(gateway.config, state=StateOptions(kind="off")))
        assert "state: the change takes effect after a restart" in caplog.text
        assert (await state.sdk.responses.retrieve(first.id)).id == first.id


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("upstream", [Dialect.CHAT, Dialect.MESSAGES])
async def test_a_tool_loop_of_references_needs_no_configuration(upstream: Dialect, stream: bool) -> None:
    """The AI SDK sends ids of the items of earlier turns unless it was set not to store."""
    simulator = strict_simulator()
    async with served(simulator) as (url, _), gate(config_for(url, upstream)) as entrance:

        async def asked(model: str, given: Any) -> Any:
            body = {"model": model, "input": given, "tools": [WEATHER], "stream": stream}
            async with entrance.session.post(f"{entrance.url}/v1/responses", json=body) as response:
                raw = await response.read()
            assert response.status == 200, raw
            return json.loads(raw.rpartition(b"data: ")[2])["response"] if stream else json.loads(raw)

        question: Any = [{"role": "user", "content": "Weather in Oslo?"}]
        for _ in range(2):
            first = await asked("sim-tools", question)
            assert first["store"] is True
            (call,) = [item for item in first["output"] if item["type"] == "function_call"]
            given = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
            second = await asked("sim-text", [*question, *given, output])
            sent = json.dumps(simulator[REQUESTS][-1].body)
            assert sent.index("Weather in Oslo?") < sent.index(call["call_id"]) < sent.rindex("rain")
            question += [*given, output, *({"type": "item_reference", "id": item["id"]} for item in second["output"])]
            question.append({"role": "user", "content": "And tomorrow?"})


@pytest.mark.parametrize("options", [{"state": StateOptions(kind="off")}, {"server": Server(workers=4)}])
@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "msg_1"}]},
    ],
)
async def test_without_a_store_the_error_names_the_setting(fields: Any, options: Any) -> None:
    async with gate(replace(config_for("http://127.0.0.1:9", Dialect.CHAT), **options)) as entrance:
        body = {"model": "m", "input": "Hi", **fields}
        async with entrance.session.post(f"{entrance.url}/v1/responses", json=body) as response:
            assert response.status == 400
            message = (await response.json())["error"]["message"]
    assert "state.kind" in message
    assert 'several workers need a shared store: "sqlite", "redis" or "postgresql"' in message


async def test_the_store_in_memory_begins_with_the_first_client_that_needs_it() -> None:
    simulator = strict_simulator()
    async with served(simulator) as (url, _), gate(config_for(url, Dialect.CHAT)) as entrance:
        for client in (Dialect.CHAT, Dialect.MESSAGES):
            async with entrance.post(client, model="sim-text") as response:
                assert response.status == 200
        assert entrance.gateway.services.responses._stored is None
        async with entrance.post(Dialect.RESPONSES, model="sim-text") as response:
            assert (await response.json())["store"] is True
        assert entrance.gateway.services.responses._stored is not None
