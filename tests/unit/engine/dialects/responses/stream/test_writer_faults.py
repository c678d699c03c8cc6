"""The Responses stream writer with too much text, misplaced events, and wrapped calls that were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Limits
from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Citation,
    Delta,
    End,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Ping,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer
from dragoman.losses import Losses
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.stages.tool_restorer import ToolRestorer
from dragoman.tools.bridge import OriginalTool
from support.frames import frames_of

Json = dict[str, Any]
START = Start("chatcmpl-x", "upstream-model")
ENVELOPE = Envelope("anthropic", "claude")
THINKING = {"type": "thinking", "thinking": "Hm", "signature": "SIG"}
WEB = {"type": "web_search_result_location", "url": "https://a.example", "title": "A"}
TOKENS: list[Json] = [{"token": "Hel", "logprob": -0.1, "bytes": None}]


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req_1", **settings)


def payloads(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    frames = frames_of(Writer(into or context()).feed(list(events)))
    return [json.loads(frame.data) for frame in frames if frame.data is not None]


def test_what_is_kept_has_a_limit() -> None:
    into = context(limits=Limits(reply_body=10))
    events: list[Event] = [
        START,
        BlockStart(0, "text"),
        Delta(0, "12345"),
        BlockEnd(0),
        BlockStart(1, "text"),
    ]
    written = payloads(*events, Delta(1, "123456"), Ping(), into=into)
    assert written[-1]["type"] == "response.failed"
    assert "reply_body" in written[-1]["response"]["error"]["message"]
    assert [item["status"] for item in written[-1]["response"]["output"]] == ["completed", "incomplete"]
    assert into.failure is not None


@pytest.mark.parametrize(
    "event",
    [
        Opaque(0, "messages", "signature", "s" * 99, THINKING),
        Annotation(1, Citation("messages", WEB | {"title": "t" * 99}, "u", "t" * 99)),
        Logprobs(1, TOKENS * 9),
    ],
)
def test_proofs_citations_and_probabilities_count_too(event: Event) -> None:
    into = context(limits=Limits(reply_body=90), envelope=ENVELOPE, logprobs=True)
    started = (START, BlockStart(0, "reasoning"), BlockStart(1, "text"))
    assert payloads(*started, event, into=into)[-1]["type"] == "response.failed"


@pytest.mark.parametrize("events", [[Delta(3, "x")], [BlockStart(0, "text"), BlockEnd(0), Delta(0, "x")], [End()]])
def test_T02_events_out_of_place_are_the_upstreams_fault(events: list[Event]) -> None:
    written = payloads(START, *events)
    assert written[-1]["type"] == "response.failed"
    assert written[-1]["response"]["error"]["code"] == "server_error"


WRAPPED = {"exec": OriginalTool("exec", None, "custom")}


@pytest.mark.parametrize(
    ("arguments", "text", "status"),
    [
        ('{"input":"rm x"}', "rm x", "completed"),
        ('{"input":"rm x"', "rm x", "incomplete"),
        ('{"input":"rm x', "rm x", "incomplete"),
        ('{"input":"', "", "incomplete"),
        ('{"inp', "", "incomplete"),
        ('{"other":"rm x"}', "rm x", "completed"),
    ],
)
def test_T22_T50_a_wrapped_call_that_was_cut_is_incomplete(arguments: str, text: str, status: str) -> None:
    """Codex runs every free-text call that is done, and half a text looks like a complete one."""
    call: list[Event] = [BlockStart(0, "tool", "toolu_a", "exec"), Delta(0, arguments), BlockEnd(0)]
    events = [START, *call, Finish(Stop(StopReason.LENGTH, "max_tokens"), Usage(1, 0, 0, 1, 0)), End()]
    written = payloads(*ToolRestorer(WRAPPED, Losses()).feed(events))
    (item,) = written[-1]["response"]["output"]
    assert (item["type"], item["input"], item["status"]) == ("custom_tool_call", text, status)
    done = [event for event in written if event["type"] == "response.custom_tool_call_input.done"]
    assert len(done) == (status == "completed")
