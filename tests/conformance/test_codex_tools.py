"""Codex runs a call only in the very kind, name and namespace that it declared; anything else it calls "aborted".

Its recorded requests are posted to upstreams that lack those kinds. The simulated model calls what it was offered, and
what comes back must be what a Responses upstream itself would have sent (mapping §6.1, §11).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from openai.types.responses import Response

from conformance.judges_responses import EVENTS, judge_responses
from conformance.served import PATHS, Served, everything_to, serving
from dragoman_server.simulator.examples import PATCH
from oracles.grammar import sse

FIXTURES = Path(__file__).parents[1] / "fixtures"
UPSTREAMS = ("chat", "messages", "responses")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a recorded request: what it is for Codex, and by what name other dialects know it."""

    fixture: str
    kind: str
    name: str
    namespace: str | None = None

    @property
    def flat(self) -> str:
        """The name where there are no namespaces."""
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


TOOLS = {
    "plain function": Tool("codex_tool_1", "function_call", "exec_command"),
    "in a namespace": Tool("codex_namespace_1", "function_call", "add_note", "mcp__notes"),
    "in a namespace, later turn": Tool("codex_namespace_2", "function_call", "get_pic", "mcp__notes"),
    "free text": Tool("codex_patch-tool_1", "custom_tool_call", "apply_patch"),
    "free text, later turn": Tool("codex_patch-write_2", "custom_tool_call", "apply_patch"),
    "free text in a namespace of an additional_tools item": Tool(
        "codex_lite-tool_1", "custom_tool_call", "exec", "functions"
    ),
    "the same, later turn": Tool("codex_lite-image_2", "custom_tool_call", "exec", "functions"),
    "tool search": Tool("codex_patch-search_1", "tool_search_call", "tool_search"),
    "found by a tool search": Tool("codex_patch-search_2", "function_call", "add_note", "mcp__notes"),
    "found by a tool search, later turn": Tool("codex_patch-search_3", "function_call", "add_note", "mcp__notes"),
}


async def ask(served: Served, tool: Tool, *, streamed: bool) -> tuple[Response, list[Any]]:
    """The final response, and the events of a stream."""
    body = json.loads((FIXTURES / f"{tool.fixture}.json").read_text("utf-8"))["request"]["body"]
    body["stream"] = streamed
    async with aiohttp.ClientSession() as http, http.post(served.url + PATHS["responses"], json=body) as response:
        answer = await response.read()
        assert response.status == 200, answer[:500]
    if not streamed:
        return Response.model_validate(json.loads(answer), strict=True), []
    frames = [json.loads(item.data) for item in sse.split(answer) if item.data is not None]
    events = [EVENTS[frame["type"]].model_validate(frame, strict=True) for frame in frames]
    return judge_responses(events), events


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))
async def test_T50_a_call_comes_back_as_what_was_declared(tool: Tool, upstream: str, streamed: bool) -> None:
    called = tool.name if upstream == "responses" else tool.flat
    async with serving(everything_to(upstream, f"sim-call-{called}")) as served:
        final, events = await ask(served, tool, streamed=streamed)
        assert json.dumps(served.received(upstream)["model"]) == f'"sim-call-{called}"'
    assert final.status == "completed"
    [item] = final.output
    assert item.type == tool.kind
    noted: dict[str, Any] = item.to_dict()
    assert noted["call_id"]
    if tool.kind == "tool_search_call":
        assert noted["execution"] == "client"
        assert type(noted["arguments"]) is dict
        assert set(noted["arguments"]) >= {"query"}
        return
    assert (noted["name"], noted.get("namespace")) == (tool.name, tool.namespace)
    if tool.kind == "custom_tool_call":
        assert noted["input"] == PATCH
    else:
        assert type(json.loads(noted["arguments"])) is dict
    if streamed:
        deltas = [event.delta for event in events if event.type.endswith(".delta")]
        assert "".join(deltas) == noted.get("input", noted.get("arguments"))
        if tool.kind == "custom_tool_call":
            assert len(deltas) > 1, "it is shown while it comes"


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))
async def test_what_the_other_upstreams_were_offered(tool: Tool, upstream: str) -> None:
    """Functions only (a Chat upstream of OpenAI's takes free-text tools too), and each name once."""
    async with serving(everything_to(upstream, "sim-text")) as served:
        await ask(served, tool, streamed=True)
        sent = served.received(upstream)
    names = [(offer.get("function") or offer.get("custom") or offer)["name"] for offer in sent["tools"]]
    assert len(set(names)) == len(names)
    assert tool.flat in names
    [offer] = [offer for offer, name in zip(sent["tools"], names, strict=True) if name == tool.flat]
    if tool.kind != "custom_tool_call":
        return
    if upstream == "chat":
        assert offer["type"] == "custom"
        assert offer["custom"]["format"]["type"] == "grammar"
    else:
        assert offer["input_schema"]["required"] == ["input"]
        assert "grammar" in offer["description"]
