"""The playground in a browser: the reply is assembled from the events that the client gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from support.browser import page
from support.console_page import gateway, send

pytestmark = pytest.mark.asyncio(loop_scope="session")

ASK = "How is the weather in Oslo?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WHOLE = """async (value) => {
  const { Reply } = await import("./reply.js");
  const found = [];
  new Reply((...piece) => found.push(piece), (...end) => found.push(end)).whole(value);
  return found;
}"""
"""Returns the pieces and the end of a whole reply."""


def request(client: Dialect, model: str, *, stream: bool, tool: bool) -> Any:
    body: Any = {"model": model, "stream": stream}
    about = {"name": "get_weather", "description": "the weather"}
    if client is Dialect.RESPONSES:
        tools = [{"type": "function", **about, "parameters": SCHEMA, "strict": False}]
        body |= {"input": ASK}
    else:
        body |= {"messages": [{"role": "user", "content": ASK}]}
        tools = [{"type": "function", "function": {**about, "parameters": SCHEMA}}]
    if client is Dialect.MESSAGES:
        body |= {"max_tokens": 500}
        tools = [{**about, "input_schema": SCHEMA}]
    return body | ({"tools": tools} if tool else {})


@pytest.mark.whole
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENT_DIALECTS, ids=str)
async def test_the_reply_is_assembled(browser: Any, client: Dialect, stream: bool) -> None:
    async with gateway(pace=0.0) as up, page(browser, f"{up.url}/ui/#playground") as shown:
        await shown.get_by_label("The client's API").select_option(client.value)
        reply = shown.get_by_role("region", name="The reply")
        text = await send(up.url, client, "messages/sim-echo", "an echo of it")
        assert "echo" in text
        for model, tool, expected in (
            ("messages/sim-thinking", False, ["Reasoning", "Text"]),
            ("chat/sim-tools", True, ["Call of get_weather"]),
            ("generate/sim-tools", True, ["Text", "Call of get_weather"]),
        ):
            sent = json.dumps(request(client, model, stream=stream, tool=tool))
            await shown.get_by_label("Request", exact=True).fill(sent)
            await shown.get_by_role("button", name="Send").click()
            await shown.wait_for_selector("#play-state:has-text('complete')")
            heads = [str(head) for head in await reply.locator("h4").all_inner_texts()]
            assert set(expected) <= set(heads), heads
            if tool:
                call = reply.locator("pre.call").first
                assert json.loads(await call.inner_text())["city"]
            await shown.get_by_text("End: ").wait_for()
            raw = await shown.get_by_label("What the client gets").inner_text()
            for part in await reply.locator("pre.text").all_inner_texts():
                assert all(word in raw for word in part.split())
            await shown.wait_for_selector("text=Open this exchange")


async def test_the_error_of_a_stream_is_the_end_of_the_reply(browser: Any) -> None:
    async with gateway(pace=0.0) as up, page(browser, f"{up.url}/ui/#playground") as shown:
        sent = json.dumps(request(Dialect.MESSAGES, "chat/sim-error-mid", stream=True, tool=False))
        await shown.get_by_label("Request", exact=True).fill(sent)
        await shown.get_by_role("button", name="Send").click()
        await shown.wait_for_selector("text=End: error: ")
        assert await shown.get_by_role("region", name="The reply").locator("pre.text").count() == 1


@pytest.mark.whole
async def test_a_custom_tool_and_a_refusal_of_whole_replies(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        custom = {
            "output": [{"type": "custom_tool_call", "name": "patch", "input": "*** Begin"}],
            "status": "completed",
        }
        assert (await shown.evaluate(WHOLE, custom))[0] == ["0", "call", "patch", "*** Begin"]
        refusal = {"choices": [{"index": 0, "message": {"refusal": "No.", "content": None}, "finish_reason": "stop"}]}
        assert (await shown.evaluate(WHOLE, refusal))[0] == ["0 refusal", "refusal", "", "No."]
