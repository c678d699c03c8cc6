"""Each rule of a Responses stream by a seeded defect; numbers are put right again where they are not the defect."""

from __future__ import annotations

import re

import pytest

from dragoman import direction, translate
from dragoman.dialects import Dialect
from support.defects import Change, add, double, drop, edit, find, repeat
from support.verdicts import checker_of, golden_frames, verdict

RESPONSES = Dialect.RESPONSES
TEXT, TOOLS, REASONING, CUSTOM = "text", "two_tools", "thinking_text_tool", "free_text_call"


def numbered(frames: list[bytes]) -> bytes:
    """The frames with the numbers that are due."""
    formatted = rb'"sequence_number":\d+,'
    return b"".join(re.sub(formatted, b'"sequence_number":%d,' % n, frame, count=1) for n, frame in enumerate(frames))


ARGS, ITEM = "function_call_arguments.", "output_item."
CASES: list[tuple[str, Change, str]] = [
    (TEXT, edit("created", "event: response.created", "event: response.begun"), "name is not its type"),
    (TEXT, drop("event: response.created"), "before response.created"),
    (TEXT, double("event: response.created"), "response.created twice"),
    (TEXT, edit("in_progress", '"created_at":1', '"created_at":2', 1), "differs from the first one"),
    (TEXT, edit("response.created", '"parallel_tool_calls":true,', ""), "without parallel_tool_calls"),
    (TEXT, edit("response.created", '"instructions":null,', ""), "without instructions"),
    (TEXT, edit("response.created", '"completed_at":null', '"ended_at":null'), "without completed_at"),
    (TEXT, edit("response.created", '"temperature":1.0', '"temperature":null'), "without one of its numbers"),
    (TEXT, edit("response.created", '"background":false', '"background":null'), "without one of its booleans"),
    (TEXT, edit("response.created", '"output":[]', '"output":[{}]'), "with output"),
    (TEXT, edit("response.created", '"usage":null', '"usage":{}'), "only an end has"),
    (TEXT, drop("event: response.completed"), "no terminal frame"),
    (TEXT, double("event: response.completed"), "after the terminal frame"),
    (TEXT, add("data: [DONE]\n\n"), "after the terminal frame"),
    (TEXT, add("data: [DONE]\n\n", "event: response.completed"), "not JSON"),
    (TEXT, edit("event: response.completed", '"status":"completed"', '"status":"incomplete"'), "another status"),
    (TEXT, edit("event: response.completed", '"error":null', '"error":{"code":"x"}'), "error without failure"),
    (TEXT, edit("event: response.completed", '"incomplete_details":null', '"incomplete_details":{}'), "incomplete"),
    (TEXT, edit("event: response.completed", '"total_tokens":', '"total_tokens":1'), "do not add up"),
    (TEXT, edit("event: response.completed", '"role":"assistant"', '"role":"user"'), "another item than was done"),
    (TEXT, edit("event: response.completed", '"output":[{', '"output":[{},{'), "another number of items"),
    (TEXT, drop("output_item.added"), "not open"),
    (TEXT, double("output_item.added"), "not the next"),
    (TEXT, edit("output_item.added", '"output_index":0', '"output_index":1'), "not the next"),
    (TEXT, edit("output_item.added", '"id":"msg_', '"id":"rs_'), "an id that is not of it"),
    (TEXT, edit("output_item.added", '"content":[]', '"content":[{}]'), "a part that its item cannot have"),
    (
        TEXT,
        edit("output_item.added", '"content":[]', '"content":[{"type":"refusal","refusal":""}]'),
        "starts with content",
    ),
    (TEXT, edit("output_item.added", '"status":"in_progress"', '"status":"completed"'), "another status"),
    (TEXT, drop("content_part.added"), "not announced"),
    (TEXT, double("content_part.added"), "not the next"),
    (TEXT, edit("content_part.added", '"output_text"', '"reasoning_text"'), "cannot have"),
    (TEXT, edit("output_text.delta", '"item_id":"msg_', '"item_id":"msg_0'), "not its item's"),
    (TEXT, edit("output_text.delta", '"output_index":0', '"output_index":1'), "not open"),
    (TEXT, edit("output_text.delta", '"content_index":0', '"content_index":1'), "not announced"),
    (TEXT, drop("output_text.delta"), "not what its deltas were"),
    (TEXT, repeat("output_text.delta", "content_part.done"), "after its end"),
    (TEXT, repeat("output_text.delta", "output_item.done"), "closed one"),
    (TEXT, repeat("output_text.delta", "event: response.completed"), "not open"),
    (TEXT, double("output_text.done"), "text done twice"),
    (TEXT, drop("output_text.done"), "part done before its text"),
    (TEXT, drop("content_part.done"), "item done before its part"),
    (TEXT, drop("output_item.done"), "never done"),
    (TEXT, double("output_item.done"), "not open"),
    (
        TEXT,
        edit("event: response.content_part.done", '"text":"', '"text":"x'),
        "a part that is not what its deltas were",
    ),
    (
        TEXT,
        edit("event: response.output_item.done", '"text":"', '"text":"x'),
        "a part that is not what its deltas were",
    ),
    (TEXT, edit("output_item.done", '"role":"assistant"', '"role":"user"'), "not the assistant's"),
    (TOOLS, edit("output_item.done", '"name":"', '"name":"x', 1), "changed its id, type or name"),
    (TEXT, edit("output_item.done", '"status":"completed"', '"status":"in_progress"'), "another status"),
    (TEXT, edit("output_item.done", '"status":"completed"', '"status":"incomplete"'), "another item"),
    (TOOLS, edit("output_item.added", '"call_id":"call_b"', '"call_id":"call_a"', -1), "a call_id twice"),
    (TOOLS, edit(ARGS + "delta", ARGS + "delta", "custom_tool_call_input.delta"), "name is not its type"),
    (TOOLS, drop(ARGS + "done"), "without its arguments"),
    (TOOLS, edit(ARGS + "done", '"name":"', '"name":"x'), "under another name"),
    (TOOLS, edit(ARGS + "done", '"arguments":"', '"arguments":" '), "not what their deltas were"),
    (TOOLS, double(ARGS + "done"), "more arguments after their end"),
    (REASONING, edit("reasoning_text.delta", "rs_", "rs_0"), "not its item's"),
    (
        REASONING,
        add('event: novelty\ndata: {"type":"novelty","sequence_number":0,"x":0}\n\n', "output_text"),
        "dialect",
    ),
    (
        REASONING,
        add('event: error\ndata: {"type":"error","sequence_number":0,"error":{}}\n\n', "output_text"),
        "the SDK raises",
    ),
    (REASONING, edit("output_text.delta", '"delta"', '"error":{"a":1},"delta"'), "the SDK raises"),
]


@pytest.mark.parametrize(("case", "change", "rule"), CASES)
def test_a_seeded_defect_is_found(case: str, change: Change, rule: str) -> None:
    frames = golden_frames(f"responses_from_chat/{case}")
    change(frames)
    found = verdict(RESPONSES, numbered(frames))
    assert found is not None
    assert rule in found.rule


@pytest.mark.parametrize("mark", ["in_progress", "output_item.added", "output_text.delta", "event: response.completed"])
@pytest.mark.parametrize("defect", [drop, double], ids=["gap", "twin"])
def test_a_number_that_is_not_the_next_is_found(mark: str, defect: type) -> None:
    frames = golden_frames("responses_from_chat/text")
    at = find(frames, mark)
    defect(mark)(frames)
    found = verdict(RESPONSES, b"".join(frames))
    assert found is not None
    assert "sequence_number" in found.rule or mark == "event: response.completed"
    assert found.position <= at + 1


def test_numbers_are_held_within_a_run_of_texts() -> None:
    frames = golden_frames("responses_from_chat/text")
    first = find(frames, "output_text.delta")
    pattern = rb'"sequence_number":\d+'
    texts = [re.sub(pattern, b'"sequence_number":%d' % (first + n), frames[first]) for n in range(12)]
    rest = [
        re.sub(pattern, b'"sequence_number":%d' % (first + 12 + n), frame)
        for n, frame in enumerate(frames[find(frames, "output_text.done") :])
    ]
    opening = frames[:first]

    def noted(run: list[bytes]) -> object:
        judge = checker_of(RESPONSES)
        for piece in (b"".join(opening), run[0], b"".join(run[1:]), b"".join(rest)):
            judge.feed(piece)
        violation = judge.violation
        return violation and violation.rule

    assert noted(texts) == "a text that is not what its deltas were"
    assert noted([*texts[:5], *texts[6:]]) == "a sequence_number that is not the next"
    assert noted([*texts[:5], *texts[4:]]) == "a sequence_number that is not the next"


def test_free_text_that_was_cut_is_not_reported_as_done() -> None:
    """Codex would run it."""
    frames = golden_frames("responses_from_messages/two_tools")
    for at, frame in enumerate(frames):
        swaps = (
            (b"function_call_arguments", b"custom_tool_call_input"),
            (b'"type":"function_call"', b'"type":"custom_tool_call"'),
            (b'"fc_', b'"ctc_'),
            (b'"arguments":', b'"input":'),
        )
        for old, new in swaps:
            frame = frame.replace(old, new)
        frames[at] = frame
    frames = [frame for frame in frames if b"event: response.custom_tool_call_input.done" not in frame]
    frames = [
        frame.replace(b'"status":"completed"}', b'"status":"incomplete"}') if b"ctc_" in frame else frame
        for frame in frames
    ]
    frames[-1] = (
        frames[-1]
        .replace(b"response.completed", b"response.incomplete")
        .replace(b'"incomplete_details":null', b'"incomplete_details":{"reason":"max_output_tokens"}')
        .replace(b'"status":"completed","output"', b'"status":"incomplete","output"')
    )
    found = verdict(RESPONSES, numbered(frames))
    assert found is not None
    assert found.rule == "free text that was cut, but is done"


def test_a_long_echo_is_compared() -> None:
    frames = golden_frames("responses_from_chat/text")
    tools = b",".join(b'{"type":"function","name":"tool_%d","parameters":{}}' % n for n in range(200))
    long = [frame.replace(b'"tools":[]', b'"tools":[' + tools + b"]") for frame in frames]
    assert verdict(RESPONSES, b"".join(long)) is None
    other = [*long[:-1], long[-1].replace(b"tool_199", b"tool_1999")]
    found = verdict(RESPONSES, b"".join(other))
    assert found is not None
    assert found.rule == "a snapshot that differs from the first one"


def test_an_echo_that_changed_is_found_however_the_reply_ends() -> None:
    ends = ("text", "token_cap", "cut", "refusal")
    for case in ends:
        frames = golden_frames(f"responses_from_chat/{case}")
        assert verdict(RESPONSES, b"".join(frames)) is None
        frames[-1] = frames[-1].replace(b'"store":false', b'"store":true')
        found = verdict(RESPONSES, b"".join(frames))
        assert found is not None
        assert found.rule == "a snapshot that differs from the first one"


def test_a_line_break_in_the_last_frame_is_found() -> None:
    frames = golden_frames("responses_from_chat/text")
    judge = checker_of(RESPONSES)
    judge.feed(b"".join(frames[:-4]))
    judge.feed(b"".join(frames[-4:-1]) + frames[-1][:-1] + b"x")
    assert judge.violation is not None
    assert judge.violation.rule == "a frame without its blank line"


def test_a_frame_between_texts_of_one_batch_is_checked() -> None:
    frames = golden_frames("responses_from_chat/text")
    delta = frames[4]
    note = re.sub(rb"output_text\.delta", b"output_text.annotation.added", delta)
    note = re.sub(rb'"delta":.*\n\n', b'"annotation_index":7,"annotation":{}}\n\n', note)
    pieces = [piece + b"\n\n" for piece in numbered([*frames[:4], delta, delta, note, delta]).split(b"\n\n")[:-1]]
    judge = checker_of(RESPONSES)
    judge.feed(b"".join(pieces[:5]))
    judge.feed(b"".join(pieces[5:]))
    assert judge.violation is not None
    assert judge.violation.rule == "an annotation_index that is not the next"


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_id_with_half_a_surrogate_pair_is_no_defect(one_by_one: bool) -> None:
    identity = b'"id":"\\ud83d","object":"chat.completion.chunk","created":1,"model":"m"'
    chunk = b"data: {" + identity + b',"choices":[{"index":0,%b}]}\n\n'
    stream = [
        chunk % b'"delta":{"role":"assistant","content":"Hi"},"finish_reason":null',
        chunk % b'"delta":{},"finish_reason":"stop"' + b"data: [DONE]\n\n",
    ]
    translation = translate(direction("responses", "chat"), b'{"model":"m","input":"Hi","stream":true}')
    machine = translation.stream_machine()
    written = b"".join(machine.feed(data) for data in (stream if one_by_one else [b"".join(stream)]))
    assert b"event: response.completed" in written
    assert translation.context.violation is None
