"""Calls that a Messages upstream cut before their first argument: no client may be given one as a call of nothing.

The block of such a call is that of a tool without parameters, its end included; only the reason, which comes later,
and its place at the end of the reply distinguish them .
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from dragoman import Knobs, direction
from dragoman.dialects import Dialect
from regressions.repaired import replied, restored
from regressions.wire import begin, block, delta, end, events_of, messages_reply, stop, tool
from support.directions import Json, ask, judge, stream_through, translated
from support.gateways import config_for, gate
from support.sockets import ScriptedServer, answer, stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect
clients = pytest.mark.parametrize("client", [CHAT, RESPONSES])
cuts = pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
FIRST, LAST = (tool(0, "call_a", "list"), stop(0)), (tool(1, "call_b", "wipe"), stop(1))
EMPTY = (tool(1, "call_b", "wipe"), delta(1, "input_json", ""), delta(1, "input_json", " "), stop(1))
TEXT = (block(2, type="text", text=""), delta(2, "text", "Hm."), stop(2))
WHOLE, CUT = ("list", True, "{}"), ("wipe", False, "")


def use(call_id: str, name: str, **given: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


CONTENT = use("call_a", "list"), use("call_b", "wipe")


def noted(client: Dialect, reply: Json) -> list[tuple[str, bool, str]]:
    """Name, whether it is reported as whole, and arguments of each call: Chat has no word for it but the arguments."""
    if client is RESPONSES:
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        return [(call["name"], call["status"] == "completed", call["arguments"]) for call in calls]
    calls = [call["function"] for call in reply["choices"][0]["message"]["tool_calls"]]
    return [(call["name"], call["arguments"] != "", call["arguments"]) for call in calls]


def reported_in_stream(client: Dialect, out: bytes) -> list[tuple[str, bool, str]]:
    """Return the same of a stream."""
    if client is RESPONSES:
        done = [event["item"] for event in events_of(out) if event["type"] == "response.output_item.done"]
        return noted(client, {"output": done})
    return [(call.name, call.arguments.strip() != "", call.arguments.strip()) for call in judge(client, out).calls]


@clients
@cuts
@pytest.mark.parametrize("last", [LAST, EMPTY], ids=["no fragment", "blank fragments"])
def test_T22_a_call_cut_before_its_first_argument_is_no_whole_one(
    client: Dialect, reason: str, last: tuple[bytes, ...]
) -> None:
    """Truncated answers reach Codex as clean ones (ollama/ollama#18332): it ran the tool, with arguments of ours."""
    held, done, out = restored(client, MESSAGES, begin(), *FIRST, *last, end(reason))
    calls = reported_in_stream(client, out)
    assert [(name, whole, arguments.strip()) for name, whole, arguments in calls] == [WHOLE, CUT]
    assert (held.error, done) == (None, [])
    assert out.count(b"function_call_arguments.done") == (client is RESPONSES) * 2  # a line that names it, and its type


@clients
@cuts
def test_T22_a_whole_reply_reports_no_call_cut_before_its_first_argument_as_whole(client: Dialect, reason: str) -> None:
    """Likewise without a stream, where an empty object is what is left of the arguments (ollama/ollama#18332)."""
    got, translation = replied(client, MESSAGES, messages_reply(reason, *CONTENT))
    assert noted(client, got) == [WHOLE, CUT]
    assert translation.losses.rows == []


@clients
@pytest.mark.parametrize("reason", ["max_tokens", "tool_use", "end_turn", "pause_turn"])
def test_T04_a_call_without_arguments_is_whole_where_nothing_cut_it(client: Dialect, reason: str) -> None:
    """Calls of tools without parameters lose their arguments (BerriAI/litellm#25836): one behind which the reply goes
    on is whole however that ends, and so is the last one of a reply that was not cut."""
    frames = [*FIRST, *LAST, *TEXT] if reason == "max_tokens" else [*FIRST, *LAST]
    _, _, out = restored(client, MESSAGES, begin(), *frames, end(reason))
    assert reported_in_stream(client, out) == [WHOLE, ("wipe", True, "{}")]
    content = [*CONTENT, {"type": "text", "text": "Hm."}] if reason == "max_tokens" else CONTENT
    got, _ = replied(client, MESSAGES, messages_reply(reason, *content))
    assert noted(client, got) == [WHOLE, ("wipe", True, "{}")]


@clients
def test_T04_a_call_without_arguments_that_another_overlaps_is_whole(client: Dialect) -> None:
    """Only the call that began last can be the one that was cut (BerriAI/litellm#25836)."""
    frames = [FIRST[0], LAST[0], stop(0), delta(1, "input_json", '{"a":1}'), stop(1), end("max_tokens")]
    _, _, out = restored(client, MESSAGES, begin(), *frames)
    assert reported_in_stream(client, out) == [WHOLE, ("wipe", True, '{"a":1}')]


@clients
def test_T22_a_stream_that_breaks_behind_an_empty_call_does_not_report_it_as_whole(client: Dialect) -> None:
    """Nothing came that states that the reply is whole (ollama/ollama#18332)."""
    held, _, out = restored(client, MESSAGES, begin(), tool(0, "call_b", "wipe"), stop(0))
    assert held.error is not None
    assert b'"{}"' not in out
    assert b"output_item.done" not in out


def test_T22_a_patch_cut_before_its_first_word_is_not_run() -> None:
    """Codex edits by a free-text tool, which is a function here (router-for-me/CLIProxyAPI#5753): it took none for the
    patch of nothing."""
    offer = {"type": "custom", "name": "wipe", "description": "Edits files."}
    row = direction(RESPONSES, MESSAGES)
    translation = translated(row, ask(RESPONSES, tools=[offer]), knobs=Knobs(custom_tool_bridge="wrap"))
    out = stream_through(translation, [begin(), tool(0, "call_b", "wipe"), stop(0), end("max_tokens")])
    assert judge(RESPONSES, out).error is None
    assert reported_in_stream(RESPONSES, out) == []
    assert b"custom_tool_call_input.done" not in out
    assert b"output_item.done" not in out
    whole = json.loads(translation.reply(json.dumps(messages_reply("max_tokens", use("call_b", "wipe"))).encode()))
    assert [(item["type"], item["status"]) for item in whole["output"]] == [("custom_tool_call", "incomplete")]


async def test_T22_the_sdk_holds_the_same_cut_calls_of_a_stream_and_of_a_whole_reply() -> None:
    """OpenAI's SDK returned the cut call to agents as a completed one (ollama/ollama#18332)."""
    frames = [begin(), *FIRST, *LAST, end("max_tokens")]
    scripts = stream(frames), answer(200, json.dumps(messages_reply("max_tokens", *CONTENT)).encode())
    async with (
        ScriptedServer(*scripts) as server,
        gate(config_for(server.url, MESSAGES)) as entrance,
        AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as client,
    ):
        async with client.responses.stream(model="m", input="Hi") as streaming:
            items = [event.item async for event in streaming if event.type == "response.output_item.done"]
        answered = await client.responses.create(model="m", input="Hi")
    assert noted(RESPONSES, {"output": [item.model_dump() for item in items]}) == [WHOLE, CUT]
    assert noted(RESPONSES, answered.model_dump()) == [WHOLE, CUT]
    assert answered.status == "incomplete"
