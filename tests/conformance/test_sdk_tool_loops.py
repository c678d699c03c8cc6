"""A whole tool loop: call, result, answer. The second request is strictly checked by the simulated upstream."""

from __future__ import annotations

import json
from typing import Any

from anthropic import AsyncAnthropic
from anthropic.types import Message
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion

from conformance.judges import (
    CHAT_TOOLS,
    HI,
    MESSAGES_TOOLS,
    ask_claude,
    ask_gpt,
    chat_calls,
    messages_calls,
    shown,
)
from conformance.served import Served, Upstream, model_at

RESULTS = ["-3 °C, sunny ☀", "09:30"]


def claude_results(reply: Message, *, extra: list[Any] | None = None) -> list[Any]:
    """The conversation so far, with a result for each call. The reply goes back as the SDK returned it."""
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": result}
        for (call_id, _, _), result in zip(messages_calls(reply), RESULTS, strict=False)
    ]
    return [*HI, {"role": "assistant", "content": reply.content}, {"role": "user", "content": results + (extra or [])}]


def gpt_results(reply: ChatCompletion) -> list[Any]:
    """Return the same for Chat: the message as the SDK writes it, less what only its streaming helper adds."""
    message: Any = reply.choices[0].message.to_dict()
    message.pop("parsed", None)
    for call in message["tool_calls"]:
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": result}
        for (call_id, _, _), result in zip(chat_calls(reply), RESULTS, strict=False)
    ]
    return [*HI, message, *results]


async def test_claude_calls_and_is_answered(
    claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool
) -> None:
    model = model_at(upstream, "sim-tools")
    reply = await ask_claude(claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS)
    [(call_id, _, _)] = messages_calls(reply)
    answer = await ask_claude(
        claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS, messages=claude_results(reply)
    )
    assert (shown(answer), answer.stop_reason) == (f"The tool says: {RESULTS[0]}.", "end_turn")
    first, second = served.received(upstream, number=0), served.received(upstream)
    assert second["tools"] == first["tools"], "the cached prefix stays as it is (T-81)"
    assert second["messages"][: len(first["messages"])] == first["messages"]
    if upstream == "chat":
        asked, called, result = second["messages"]
        assert asked == {"role": "user", "content": "Hi"}
        assert (called["role"], called["content"]) == ("assistant", "I will look it up.")
        [call] = called["tool_calls"]
        assert (call["id"], call["function"]["name"]) == (call_id, "get_weather")
        assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
        assert result == {"role": "tool", "tool_call_id": call_id, "content": RESULTS[0]}
    else:
        assert [block["type"] for block in second["messages"][1]["content"]] == ["text", "tool_use"]
        assert second["messages"][2]["content"][0]["tool_use_id"] == call_id


async def test_claude_answers_parallel_calls(
    claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool
) -> None:
    """One user message with both results and a remark becomes two tool messages and then a user's (mapping §6.4)."""
    model = model_at(upstream, "sim-parallel")
    reply = await ask_claude(claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS)
    history = claude_results(reply, extra=[{"type": "text", "text": "Be brief."}])
    answer = await ask_claude(claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS, messages=history)
    ids = [call_id for call_id, _, _ in messages_calls(reply)]
    sent = served.received(upstream)["messages"]
    if upstream == "chat":
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
        assert [call["id"] for call in sent[1]["tool_calls"]] == ids
        assert [(m["tool_call_id"], m["content"]) for m in sent[2:4]] == list(zip(ids, RESULTS, strict=True))
    else:
        assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert shown(answer) == f"The tool says: {RESULTS[0]} and {RESULTS[1]}."


async def test_claude_replays_thinking(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    """T-10: to its own upstream it goes untouched; another one gets neither the block nor its text as an answer."""
    model = model_at(upstream, "sim-thinking")
    reply = await ask_claude(claude, streamed=True, model=model, tools=MESSAGES_TOOLS, thinking={"type": "adaptive"})
    answer = await ask_claude(
        claude,
        streamed=True,
        model=model,
        tools=MESSAGES_TOOLS,
        thinking={"type": "adaptive"},
        messages=claude_results(reply),
    )
    assert RESULTS[0] in shown(answer)
    called = served.received(upstream)["messages"][1]
    if upstream == "messages":
        assert called["content"][0] == reply.content[0].to_dict()
    else:
        assert called["content"] == "I will look it up."


async def test_a_failed_call_is_reported(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    """Chat has no error flag: the wording goes on, and an empty failure is put into words (mapping §6.4)."""
    model = model_at(upstream, "sim-parallel")
    reply = await ask_claude(claude, streamed=True, model=model, tools=MESSAGES_TOOLS)
    history = claude_results(reply)
    history[2]["content"] = [
        {**history[2]["content"][0], "is_error": True, "content": [{"type": "text", "text": "no such city"}]},
        {**history[2]["content"][1], "is_error": True, "content": ""},
    ]
    await ask_claude(claude, streamed=True, model=model, tools=MESSAGES_TOOLS, messages=history)
    sent = served.received(upstream)["messages"]
    if upstream == "chat":
        assert sent[2]["content"] == "no such city"
        assert "error" in sent[3]["content"].lower()
    else:
        assert [block["is_error"] for block in sent[2]["content"]] == [True, True]


async def test_T41_a_call_without_a_result_is_repaired(
    claude: AsyncAnthropic, gpt: AsyncOpenAI, served: Served
) -> None:
    """T-41: a cancelled call must not poison the conversation. Only across: a passthrough is the client's own."""
    stated = await ask_claude(claude, streamed=True, model="chat/sim-parallel", tools=MESSAGES_TOOLS)
    history = claude_results(stated)
    del history[2]["content"][1]
    await ask_claude(claude, streamed=True, model="chat/sim-parallel", tools=MESSAGES_TOOLS, messages=history)
    sent = served.received("chat")["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
    reply = await ask_gpt(gpt, streamed=True, model="messages/sim-parallel", tools=CHAT_TOOLS)
    await ask_gpt(gpt, streamed=True, model="messages/sim-parallel", tools=CHAT_TOOLS, messages=gpt_results(reply)[:-1])
    blocks = served.received("messages")["messages"][2]["content"]
    assert [block.get("is_error", False) for block in blocks] == [False, True]


async def test_gpt_calls_and_is_answered(gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-tools")
    reply = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS)
    [(call_id, _, _)] = chat_calls(reply)
    answer = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS, messages=gpt_results(reply))
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == (f"The tool says: {RESULTS[0]}.", "stop")
    first, second = served.received(upstream, number=0), served.received(upstream)
    assert second["tools"] == first["tools"], "the cached prefix stays as it is (T-81)"
    if upstream == "messages":
        asked, called, result = second["messages"]
        assert asked == first["messages"][0]
        assert called["role"] == "assistant"
        assert called["content"] == [
            {"type": "text", "text": "I will look it up."},
            {"type": "tool_use", "id": call_id, "name": "get_weather", "input": {"city": "Oslo"}},
        ]
        assert result["role"] == "user"
        [block] = result["content"]
        assert (block["type"], block["tool_use_id"], block["content"]) == ("tool_result", call_id, RESULTS[0])
        assert not block.get("is_error")
    else:
        assert second["messages"][2]["tool_call_id"] == call_id


async def test_gpt_answers_parallel_calls(gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool) -> None:
    """Two tool messages are one user turn for Messages, which refuses results in any other place (mapping §6.4)."""
    model = model_at(upstream, "sim-parallel")
    reply = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS)
    history = [*gpt_results(reply), {"role": "user", "content": "Be brief."}]
    answer = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS, messages=history)
    assert answer.choices[0].message.content == f"The tool says: {RESULTS[0]} and {RESULTS[1]}."
    ids = [call_id for call_id, _, _ in chat_calls(reply)]
    sent = served.received(upstream)["messages"]
    if upstream == "messages":
        assert [message["role"] for message in sent] == ["user", "assistant", "user"]
        blocks = sent[2]["content"]
        assert [block["type"] for block in blocks] == ["tool_result", "tool_result", "text"]
        assert [(b["tool_use_id"], b["content"]) for b in blocks[:2]] == list(zip(ids, RESULTS, strict=True))


async def test_gpt_replays_reasoning(gpt: AsyncOpenAI, served: Served, upstream: Upstream) -> None:
    """Clients send `reasoning_content` back. Unsigned, Messages would refuse it: it is left out (mapping §5.3)."""
    model = model_at(upstream, "sim-thinking")
    reply = await ask_gpt(gpt, streamed=False, model=model, tools=CHAT_TOOLS)
    history = gpt_results(reply)
    assert history[1]["reasoning_content"]
    answer = await ask_gpt(gpt, streamed=False, model=model, tools=CHAT_TOOLS, messages=history)
    assert RESULTS[0] in (answer.choices[0].message.content or "")
    called = served.received(upstream)["messages"][1]
    if upstream == "messages":
        assert [block["type"] for block in called["content"]] == ["text", "tool_use"]
    else:
        assert called["reasoning_content"] == history[1]["reasoning_content"]


async def test_a_forced_tool(
    claude: AsyncAnthropic, gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool
) -> None:
    model = model_at(upstream, "sim-tools")
    forced = {"type": "tool", "name": "get_time"}
    reply = await ask_claude(claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS, tool_choice=forced)
    assert [name for _, name, _ in messages_calls(reply)] == ["get_time"]
    by_chat = {"type": "function", "function": {"name": "get_time"}}
    completion = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS, tool_choice=by_chat)
    assert [name for _, name, _ in chat_calls(completion)] == ["get_time"]
    want: Any = by_chat if upstream == "chat" else forced
    assert [served.received(upstream, number=n)["tool_choice"] for n in (0, 1)] == [want, want]


async def test_T42_tool_names_that_the_upstream_would_refuse(claude: AsyncAnthropic, served: Served) -> None:
    """T-42: Messages takes 128 characters and Chat 64. The client gets back the name it returned, in each turn."""
    name = "mcp__files__" + "read_" * 15
    tools: list[Any] = [{"name": name, "input_schema": {"type": "object", "properties": {}}}]
    reply = await ask_claude(claude, streamed=True, model="chat/sim-tools", tools=tools)
    assert [called for _, called, _ in messages_calls(reply)] == [name]
    await ask_claude(claude, streamed=False, model="chat/sim-tools", tools=tools, messages=claude_results(reply))
    sent = served.received("chat")
    offered = sent["tools"][0]["function"]["name"]
    assert len(offered) <= 64
    assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == offered
