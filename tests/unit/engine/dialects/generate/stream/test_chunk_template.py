"""The fast path for chunks of one text whose counts grow: what it reads is what is read without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import Delta, Error, Event, Finish, TextRun, expand_runs
from dragoman.dialects.generate.stream import reader as module
from dragoman.dialects.generate.stream.chunk_template import ChunkTemplate, learn
from dragoman.dialects.generate.stream.reader import GenerateReader
from dragoman.limits import Limits
from dragoman.wire.sse_parser import Parser
from support.generate import chunk, new_context

Json = dict[str, Any]


def counted(text: str, number: int, **fields: Any) -> Json:
    return chunk([{"text": text}], usage=(9, number), **fields)


def framed(each: Json, **options: Any) -> bytes:
    return b"data: " + json.dumps(each, **options).encode() + b"\r\n\r\n"


def played(frames: list[bytes], **options: Any) -> list[Event]:
    """The events of a stream, each frame of which is a read. Runs are not expanded."""
    context = new_context(**options)
    parser, reader = Parser(context.limits, whole=True, bare=True), GenerateReader(context)
    events = [event for frame in frames for event in reader.feed(parser.feed(frame))]
    return [*events, *reader.feed(parser.finish()), *reader.finish()]


def slow(frames: list[bytes], **options: Any) -> list[Event]:
    """Read frames without templates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FRUITLESS", 0)
        return played(frames, **options)


def test_a_stream_of_google_s_is_read_by_it() -> None:
    words = ["Hel", "lo ", "wör", '"ld"', "👋🏽\n"]
    frames = [framed(counted(word, number)) for number, word in enumerate(words)]
    frames.append(framed(chunk([{"text": ""}], "STOP", usage=(9, 44, 5))))
    events = played(frames)
    assert [event.text for event in events if type(event) is TextRun] == words[2:]
    assert expand_runs(events) == expand_runs(slow(frames))
    assert not [event for event in slow(frames) if type(event) is TextRun]


def test_counts_with_a_further_digit_keep_the_template() -> None:
    frames = [framed(counted(f"{number} ", number)) for number in (8, 9, 10, 99, 100)]
    events = played([*frames, framed(chunk([{"text": ""}], "STOP", usage=(9, 101)))])
    assert [event.text for event in events if isinstance(event, TextRun)] == ["10 ", "99 ", "100 "]
    broken = framed(counted("x", 1000)).replace(b"1000", b"1000,")
    assert isinstance(played([*frames, broken])[-1], Error)


def test_the_counts_of_the_last_chunk_that_has_some_are_used() -> None:
    frames = [framed(counted("ab", number)) for number in (1, 2, 3, 4)]
    frames.append(framed(chunk([{"text": "."}], "STOP")))
    events = played(frames)
    [finish] = [event for event in events if type(event) is Finish]
    assert finish.usage is not None
    assert finish.usage.output_total == 4
    assert expand_runs(events) == expand_runs(slow(frames))


CHUNKS = st.one_of(
    st.builds(counted, st.text(max_size=5), st.integers(0, 99)),
    st.builds(counted, st.sampled_from(["usageMetadata", '"usageMetadata":', "\\", "a", ""]), st.integers(0, 9)),
    st.sampled_from(
        [
            chunk([{"text": "x", "thought": True}], usage=(9, 1)),
            chunk([{"text": "x"}, {"text": "y"}], usage=(9, 1)),
            chunk([{"text": "x", "thoughtSignature": "S"}], usage=(9, 1)),
            chunk([{"functionCall": {"name": "f", "args": {"text": "x"}}}], usage=(9, 1)),
            chunk([{"text": "x"}], usage=(9, 1), groundingMetadata={"webSearchQueries": ["x"]}),
            chunk([{"text": "x"}], usage=(9, 1), groundingMetadata={}),
            chunk([{"text": "x"}]),
            chunk([{"text": "x"}]) | {"usageMetadata": 5},
            chunk(None, usage=(9, 2)),
            {"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 7}},
            counted("x", 3) | {"modelVersion": "usageMetadata"},
            {"usageMetadata": {"promptTokenCount": 9}, **chunk([{"text": "x"}])},
        ]
    ),
)


@given(st.lists(st.tuples(CHUNKS, st.booleans()), max_size=12), st.booleans())
def test_nothing_changes_by_it(chunks: list[tuple[Json, bool]], ends: bool) -> None:
    frames = [framed(each, ensure_ascii=ascii_only) for each, ascii_only in chunks]
    frames += [framed(chunk([{"text": ""}], "STOP"))] * ends
    assert expand_runs(played(frames)) == expand_runs(slow(frames))


@pytest.mark.parametrize(
    "wrong",
    [
        b'data: {"candidates":[{"content":{"parts":[{"text":"x}],"role":"model"},"index":0}]}\r\n\r\n',
        framed(counted("x", 1)).replace(b'"promptTokenCount": 9', b'"promptTokenCount": 9,'),
        framed(counted("x", 1)).replace(b'{"promptTokenCount": 9, "candidatesTokenCount": 1}', b"7"),
    ],
)
def test_a_chunk_that_only_looks_alike_is_read_in_full(wrong: bytes) -> None:
    frames = [framed(counted("ab", number)) for number in (1, 2, 3)]
    assert expand_runs(played([*frames, wrong])) == expand_runs(slow([*frames, wrong]))


def test_the_limit_holds() -> None:
    frames = [framed(counted("ab" * 500, number)) for number in range(9)]
    limits = Limits(tool_arguments=5_000)
    events = played(frames, limits=limits)
    assert isinstance(events[-1], Error)
    assert expand_runs(events) == expand_runs(slow(frames, limits=limits))


def test_streams_whose_chunks_differ_stop_learning() -> None:
    frames = [framed(counted("ab", 1) | {"responseId": str(number)}) for number in range(40)]
    context = new_context()
    reader = GenerateReader(context)
    for frame in frames:
        reader.feed(Parser().parse(frame))
    assert reader._fruitless == module._FRUITLESS


def test_what_has_no_template() -> None:
    def learnt(each: Json, text: str = "ab") -> ChunkTemplate | None:
        return learn(json.dumps(each).encode(), each, Delta(0, text))

    assert learnt(counted("ab", 1)) is not None
    assert learnt(counted("ab", 1) | {"modelVersion": "ab"}) is None  # two places
    assert learnt(counted("role", 1), "role") is None  # a key is the text too
    assert learnt(counted("\ud800", 1), "\ud800") is None
    assert learnt(chunk([{"text": "ab"}])) is None
