"""Modifiers in the names of simulated models."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from dragoman_server.simulator.modifiers import ADVISER, FALLBACK, modified
from dragoman_server.simulator.steps import Ending, Failure, Finish, Scenario, Text
from support.simulated import USER, VERSION, lines, post

WHOLE = Scenario((Text("a"), Text("b"), Text("c"), Finish("stop")))


def test_unknown_words_have_no_effect() -> None:
    assert modified(WHOLE, "sim-text+n17+") == WHOLE


@pytest.mark.parametrize(
    ("word", "ending"),
    [("cut", Ending.CUT), ("reset", Ending.RESET), ("stalled", Ending.STALL), ("missing", Ending.WHOLE)],
)
def test_a_reply_ends_after_two_thirds(word: str, ending: Ending) -> None:
    found = modified(WHOLE, f"sim-text+{word}")
    assert (found.steps, found.ending) == ((Text("a"), Text("b")), ending)


def test_a_reply_fails_after_two_thirds() -> None:
    assert modified(WHOLE, "sim-text+failed").steps == (Text("a"), Text("b"), Failure())


async def test_an_uncounted_reply_has_no_usage_in_any_dialect(raw: aiohttp.ClientSession) -> None:
    chat = {"model": "sim-text+uncounted", "messages": USER, "stream_options": {"include_usage": True}}
    assert not any("usage" in each for each in await lines(raw, "/v1/chat/completions", chat) if each != "[DONE]")
    messages = {"model": "sim-text+uncounted", "messages": USER, "max_tokens": 9}
    assert "usage" not in str(await lines(raw, "/v1/messages", messages))
    last = (await lines(raw, "/v1/responses", {"model": "sim-text+uncounted", "input": "Hi"}))[-1]
    assert last["response"]["usage"] is None
    whole = await post(raw, "/v1/messages", messages, VERSION)
    assert "usage" not in whole[1]


async def test_what_is_stated_besides_the_counts(raw: aiohttp.ClientSession) -> None:
    model = "sim-thinking+searched+flex+apart"
    _, reply = await post(raw, "/v1/chat/completions", {"model": model, "messages": USER})
    usage = reply["usage"]
    assert reply["service_tier"] == "flex"
    assert usage["num_search_queries"] == 2
    reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] + reasoning
    _, reply = await post(raw, "/v1/responses", {"model": model, "input": "Hi"})
    assert (reply["service_tier"], reply["tool_usage"]) == ("flex", {"web_search": {"num_requests": 2}})
    body = {"model": "sim-text+searched+priority+written", "messages": USER, "max_tokens": 9}
    usage = (await post(raw, "/v1/messages", body, VERSION))[1]["usage"]
    assert usage["server_tool_use"]["web_search_requests"] == 2
    assert (usage["service_tier"], usage["cache_creation_input_tokens"]) == ("priority", 3)


async def test_iterations_leave_the_counts_of_the_reply_as_they_are(raw: aiohttp.ClientSession) -> None:
    async def usage(model: str) -> Any:
        body = {"model": model, "messages": USER, "max_tokens": 9}
        return (await post(raw, "/v1/messages", body, VERSION))[1]["usage"]

    plain, advised = await usage("sim-text"), await usage("sim-text+compacted+advised")
    assert [(each["type"], each.get("model")) for each in advised.pop("iterations")] == [
        ("compaction", None),
        ("advisor_message", ADVISER),
        ("message", "sim-text+compacted+advised"),
    ]
    assert advised == plain
    (own,) = (await usage("sim-text+replaced"))["iterations"]
    assert (own["type"], own["model"], own["input_tokens"]) == ("fallback_message", FALLBACK, plain["input_tokens"])


async def test_the_first_request_of_a_busy_model_is_rejected(raw: aiohttp.ClientSession) -> None:
    body = {"model": "sim-text+busy", "messages": USER}
    assert [(await post(raw, "/v1/chat/completions", body))[0] for _ in range(3)] == [503, 200, 200]


async def test_the_first_request_of_a_lost_model_gets_no_response(raw: aiohttp.ClientSession) -> None:
    body = {"model": "sim-text+lost", "messages": USER}
    async with asyncio.timeout(30):
        with pytest.raises(aiohttp.ClientError):
            await post(raw, "/v1/chat/completions", body)
        assert (await post(raw, "/v1/chat/completions", body))[0] == 200
