"""Each rule for Chat streams by a seeded defect: a golden, one thing wrong with it, and the validator's message."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from support.defects import Change, add, double, drop, edit, move
from support.verdicts import assert_defect_is_found

TOOLS, THINKING = "two_tools", "thinking_text_tool"
CASES: list[tuple[str, Change, str]] = [
    (TOOLS, edit("data", "data: ", "event: chunk\ndata: "), "event line"),
    (TOOLS, drop('"role"'), "lacks the role"),
    (TOOLS, double('"role"'), "role twice"),
    (THINKING, edit('"role"', '"content":""', '"content":"Hi"'), "chunk of the role has other content"),
    (THINKING, edit('"content":"', '"created":1', '"created":2', 1), "changed within the stream"),
    (TOOLS, edit('"name"', '"index":0,"id"', '"index":1,"id"'), "leaves a gap"),
    (TOOLS, double('"name"'), "id or type of a tool twice"),
    (TOOLS, drop('"name"', 1), "starts without its type"),
    (TOOLS, edit('"name"', '"id":"toolu_b"', '"id":"toolu_a"', 1), "call id twice"),
    (TOOLS, edit('"name"', '"name":"', '"title":"'), "start of a tool without name"),
    (TOOLS, edit('"finish_reason":"', '"delta":{}', '"delta":{"content":"x"}'), "finish chunk carries a delta"),
    (THINKING, move('"finish_reason":"', "reasoning_content"), "tool_calls without a call"),
    (TOOLS, edit('"finish_reason":"', "tool_calls", "stop"), "stop although there are calls"),
    (TOOLS, edit('"finish_reason":"', "tool_calls", "done"), "that the API does not define"),
    ("text", move('"content":"', '"prompt_tokens"', 2), "a choice after the finish"),
    (TOOLS, double('"finish_reason":"'), "a choice after the finish"),
    (TOOLS, move('"prompt_tokens"', '"finish_reason":"'), "usage before the finish"),
    (TOOLS, double('"prompt_tokens"'), "a chunk after the usage"),
    (TOOLS, edit('"prompt_tokens"', '"total_tokens":', '"total_tokens":1'), "do not add up"),
    (TOOLS, drop('"prompt_tokens"'), "no usage although it was requested"),
    (TOOLS, edit('"content":"', ',"usage":null', ""), "key usage"),
    (TOOLS, drop("[DONE]"), "no terminal frame"),
    (TOOLS, drop('"finish_reason":"'), "the usage before the finish"),
    (TOOLS, add("data: [DONE]\n\n"), "after the terminal frame"),
    (TOOLS, add(": still here\n\n"), "after the terminal frame"),
    (TOOLS, add("data: {\n\n", "[DONE]"), "not JSON"),
    (TOOLS, add("data: []\n\n", "[DONE]"), "not a JSON object"),
    (TOOLS, add("id: 7\n\n", "[DONE]"), "not a name and lines of data"),
    (
        "logprobs",
        edit('"content":"', '"finish_reason"', '"logprobs":{},"finish_reason"', 1),
        "were not requested",
    ),
    ("error", edit('"error"', '"param"', '"parameter"'), "an error without param"),
]


@pytest.mark.parametrize(("case", "change", "rule"), CASES)
def test_a_seeded_defect_is_found(case: str, change: Change, rule: str) -> None:
    assert_defect_is_found(Dialect.CHAT, case, change, rule)
