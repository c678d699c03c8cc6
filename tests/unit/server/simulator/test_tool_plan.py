"""`sim-agent`: the simulated model makes the calls of a plan, and quotes the results."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from dragoman_server.simulator.parse_request import RequestTurn, read_chat, read_messages, read_responses
from dragoman_server.simulator.scenarios import scenario_for
from dragoman_server.simulator.steps import Finish, Scenario, Text, ToolArgs, ToolStart
from dragoman_server.simulator.tool_plan import count_images
from oracles.simulator import strict_simulator

PROMPT = 'Do it. [[call look {"at": "a [b]"} + look {"at": "ü"}]] and [[call patch "*** Begin\\n"]]'
LOOK = {"type": "object", "properties": {"at": {"type": "string"}}}
PATCH = {"type": "object", "properties": {"text": {"type": "string"}}}


def function(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [function("look", LOOK), function("patch", PATCH)]


def chat(*results: str, prompt: str = PROMPT, tools: Any = TOOLS, **fields: Any) -> Scenario:
    """Return the steps after so many results."""
    messages: list[Any] = [{"role": "user", "content": prompt}]
    messages += [{"role": "assistant", "content": "Now"}] if results else []
    messages += [{"role": "tool", "tool_call_id": "c", "content": result} for result in results]
    return scenario_for(read_chat({"model": "sim-agent", "messages": messages, "tools": tools, **fields}))


def calls(scenario: Scenario) -> list[tuple[str, str]]:
    """Name and arguments of each call."""
    names = {step.call: step.tool.name for step in scenario.steps if type(step) is ToolStart}
    texts = dict.fromkeys(names, "")
    for step in scenario.steps:
        if type(step) is ToolArgs:
            texts[step.call] += step.text
    return [(names[number], texts[number]) for number in names]


def output(scenario: Scenario) -> str:
    return "".join(step.text for step in scenario.steps if type(step) is Text)


def test_each_pair_of_brackets_is_a_turn() -> None:
    first = chat()
    assert [(name, json.loads(text)) for name, text in calls(first)] == [
        ("look", {"at": "a [b]"}),
        ("look", {"at": "ü"}),
    ]
    assert first.steps[-1] == Finish("tool_calls")
    assert [(name, json.loads(text)) for name, text in calls(chat("one", "two"))] == [
        ("patch", {"text": "*** Begin\n"})
    ]
    last = chat("one", "two", "three")
    assert calls(last) == []
    assert output(last) == "The tools said: one and two and three."
    assert last.steps[-1] == Finish("stop")


def test_parallel_calls_come_side_by_side() -> None:
    order = [step.call for step in chat().steps if type(step) is ToolArgs]
    assert order[:4] == [0, 1, 0, 1]


def test_a_new_prompt_starts_its_own_plan() -> None:
    messages = [
        {"role": "user", "content": PROMPT},
        {"role": "tool", "tool_call_id": "c", "content": "one"},
        {"role": "user", "content": 'Again. [[call look {"at": "b"}]]'},
        {"role": "user", "content": "By the way: no calls here."},
    ]
    scenario = scenario_for(read_chat({"model": "sim-agent", "messages": messages, "tools": TOOLS}))
    assert calls(scenario) == [("look", '{"at":"b"}')]


@pytest.mark.parametrize("fields", [{"tools": []}, {"tool_choice": "none"}, {"prompt": "Give it a title"}])
def test_nothing_is_called(fields: Any) -> None:
    scenario = chat(**fields)
    assert calls(scenario) == []
    assert scenario.steps[-1] == Finish("stop")


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("[[call draw {}]]", "no tool draw is offered, only look, patch"),
        ("[[call look at it]]", "the arguments of look are not JSON"),
        ("[[call ook {}]]", "no tool ook is offered"),
    ],
)
def test_a_plan_that_cannot_be_played_reports_the_reason(prompt: str, why: str) -> None:
    scenario = chat(prompt=prompt)
    assert calls(scenario) == []
    assert why in output(scenario)


def test_a_free_text_tool_gets_its_text() -> None:
    plan = '[[call patch "*** Begin\\n"]]'
    body = {"input": plan, "tools": [{"type": "custom", "name": "patch"}]}
    assert calls(scenario_for(read_responses({"model": "sim-agent", **body}))) == [("patch", "*** Begin\n")]


def test_pictures_are_counted_wherever_they_are() -> None:
    seen = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    messages = [{"role": "user", "content": PROMPT}, {"role": "user", "content": [seen, {"type": "text", "text": "?"}]}]
    last_text = output(scenario_for(read_chat({"model": "sim-agent", "messages": messages})))
    assert last_text == "The tools said: nothing (pictures: 1)."
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "url"}}]}
    assert count_images([{"content": [result]}, {"output": [{"type": "input_image", "image_url": "x"}]}]) == 2


def test_a_member_of_a_flattened_namespace_is_found() -> None:
    tools = [function("files__look", LOOK), function("patch", PATCH)]
    assert calls(chat(tools=tools))[0][0] == "files__look"
    assert "no tool look is offered" in output(chat(tools=[function("a__look", LOOK), function("b__look", LOOK)]))


def test_the_plan_is_found_in_every_dialect() -> None:
    plan = '[[call look {"at": "x"}]]'
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "seen"}]}
    messages = read_messages(
        {
            "model": "sim-agent",
            "max_tokens": 9,
            "tools": [{"name": "look", "input_schema": LOOK}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Note."}, {"type": "text", "text": plan}]},
                {"role": "assistant", "content": "Now"},
                {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
            ],
        }
    )
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    responses = read_responses(
        {
            "model": "sim-agent",
            "tools": [{"type": "function", "name": "look", "parameters": LOOK}],
            "input": [
                {"role": "user", "content": plan},
                call,
                {"type": "function_call_output", "call_id": "c", "output": "seen"},
                {"role": "user", "content": "Go on."},
            ],
        }
    )
    turns: list[RequestTurn] = [messages, responses]
    for turn in turns:
        assert (turn.plan.endswith(plan), turn.answered) == (True, ("seen",))
        assert output(scenario_for(turn)) == "The tools said: seen."


async def test_the_first_stream_of_a_plan_is_cut() -> None:
    """Each plan's once, and only where tools are offered: a title may be asked for first."""
    messages = [{"role": "user", "content": PROMPT}]
    asked = {"model": "sim-agent-cut", "messages": messages, "stream": True}
    server = TestServer(strict_simulator())
    async with server, aiohttp.ClientSession(base_url=server.make_url("/")) as session:

        async def streamed(**fields: Any) -> bytes:
            async with session.post("/v1/chat/completions", json={**asked, **fields}) as response:
                return await response.read()

        assert (await streamed()).endswith(b"[DONE]\n\n")
        with pytest.raises(aiohttp.ClientPayloadError):
            await streamed(tools=TOOLS)
        assert (await streamed(tools=TOOLS)).endswith(b"[DONE]\n\n")
        # A cut reply may be quoted behind the prompt: the plan is the same.
        messages[0]["content"] += " You have begun: Hello, here"
        assert (await streamed(tools=TOOLS)).endswith(b"[DONE]\n\n")
