from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Annotation, BlockEnd, BlockStart, Delta, Error, Event, Logprobs, Opaque
from dragoman.limits import Limits
from dragoman.losses import LossCode
from support import canonical
from support.generate import chunk, new_context, read, sse

Json = dict[str, Any]
CALL = {"functionCall": {"id": "a", "name": "look", "args": {}}}
PNG = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}}


def hidden(text: str, **fields: Any) -> Json:
    return {"text": text, "thought": True, **fields}


def signed(part: Json, signature: str = "S1") -> Json:
    return {**part, "thoughtSignature": signature}


def blocks(events: list[Event]) -> list[tuple[Any, ...]]:
    """Kind, text and signature of each block; the kind of the signature's part with it."""
    made: dict[int, list[Any]] = {}
    for event in events:
        if isinstance(event, BlockStart):
            made[event.index] = [event.name if event.kind == "opaque" else event.kind, "", None]
        elif isinstance(event, Delta):
            made[event.index][1] += event.text
        elif isinstance(event, Opaque) and event.native is not None:
            made[event.index][2] = (event.native["on"], event.native["thoughtSignature"])
    return [tuple(each) for each in made.values()]


def play(*chunks: list[Any], finish: str = "STOP", **options: Any) -> tuple[list[Event], list[LossCode]]:
    context = new_context(**options)
    events = read(sse([*map(chunk, chunks), chunk([{"text": ""}], finish)]), context)
    canonical.check(events)
    return events, [loss.code for loss in context.losses]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([[{"text": "Hel"}], [{"text": "lo"}]], [("text", "Hello", None)]),
        ([[{"text": "a"}, {"text": "b"}]], [("text", "ab", None)]),
        (
            [[hidden("Need ")], [hidden("weather")], [signed(CALL)]],
            [("reasoning", "Need weather", ("functionCall", "S1")), ("tool", "{}", None)],
        ),
        (
            [[{"text": "Hi"}], [signed(CALL), {"functionCall": {"id": "b", "name": "look"}}]],
            [
                ("text", "Hi", None),
                ("reasoning", "", ("functionCall", "S1")),
                ("tool", "{}", None),
                ("tool", "{}", None),
            ],
        ),
        # reasoning without a signature come back as Gemini's own too
        ([[hidden("Hm")], [{"text": "Hi"}]], [("reasoning", "Hm", ("", "")), ("text", "Hi", None)]),
        ([[signed({"text": "Hi"})]], [("text", "Hi", None), ("reasoning", "", ("end", "S1"))]),
        ([[hidden("Hm"), signed({"text": "Hi"})]], [("reasoning", "Hm", ("text", "S1")), ("text", "Hi", None)]),
        # a signature behind a text that has begun does not split it
        ([[{"text": "a"}], [signed({"text": "b"})]], [("text", "ab", None), ("reasoning", "", ("end", "S1"))]),
        ([[{"text": "Three"}], [signed({"text": ""})]], [("text", "Three", None), ("reasoning", "", ("end", "S1"))]),
        (
            [[{"text": "a"}], [signed({"text": ""})], [CALL]],
            [("text", "a", None), ("reasoning", "", ("end", "S1")), ("tool", "{}", None)],
        ),
        (
            [[signed(hidden("Hm")), hidden("Or")]],
            [("reasoning", "Hm", ("thought", "S1")), ("reasoning", "Or", ("", ""))],
        ),
        (
            [[{"text": "Here:"}, signed(PNG)]],
            [("text", "Here:", None), ("reasoning", "", ("inlineData", "S1")), ("image", "", None)],
        ),
    ],
)
def test_blocks(chunks: list[list[Json]], expected: list[tuple[Any, ...]]) -> None:
    events, _ = play(*chunks)
    assert blocks(events) == expected


def test_a_client_without_envelopes() -> None:
    context = new_context("chat")
    events = read(
        sse([chunk([hidden("Hm"), signed(CALL)]), chunk([{"text": "Hi"}, signed({"text": ""}, "S2")], "STOP")]),
        context,
    )
    assert [event.payload for event in events if isinstance(event, Opaque)] == ["S1", "S2"]
    assert all(event.native is None for event in events if isinstance(event, Opaque))


def test_a_picture() -> None:
    events, losses = play([PNG])
    [opaque] = [event for event in events if isinstance(event, Opaque)]
    assert opaque.payload == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}
    assert losses == []


@pytest.mark.parametrize("kind", ["executableCode", "codeExecutionResult", "toolCall", "toolResponse", "fileData"])
def test_what_only_gemini_has(kind: str) -> None:
    events, _ = play([{kind: {"x": 1}}], [{"text": "42"}])
    assert blocks(events) == [(kind, "", None), ("text", "42", None)]
    start = next(event for event in events if isinstance(event, BlockStart))
    assert start.code == LossCode.VENDOR_BLOCK
    alone = read(sse([chunk([{kind: {"x": 1}}], "STOP")]))
    assert isinstance(alone[-1], Error)
    assert alone[-1].failure.message == f"upstream reply holds {kind} only"


def test_sound_is_left_out() -> None:
    events, _ = play([{"inlineData": {"mimeType": "audio/wav", "data": "AA"}}, {"text": "x"}])
    assert blocks(events)[0][0] == "inlineData"


@pytest.mark.parametrize("more", [{}, {"promptFeedback": {}}, {"promptFeedback": {"blockReason": "OTHER"}}], ids=str)
def test_a_call_of_a_withheld_reply_does_not_run(more: dict[str, Any]) -> None:
    context = new_context()
    events = read(sse([{**chunk([{"text": "Hi"}, CALL], "SAFETY"), **more}]), context)
    assert blocks(events) == [("text", "Hi", None)]
    assert [loss.code for loss in context.losses] == [LossCode.CALL_CUT]


def test_sources_come_last() -> None:
    sources = {
        "groundingChunks": [{"web": {"uri": "U", "title": "W"}}],
        "groundingSupports": [{"segment": {"endIndex": 12, "text": "Regn på Å."}, "groundingChunkIndices": [0]}],
    }
    chunks = [
        chunk([{"text": "Regn på "}], groundingMetadata={}),
        chunk([{"text": "Å."}, signed({"text": ""})], "STOP"),
    ]
    chunks[1]["candidates"][0]["groundingMetadata"] = sources
    events = read(sse(chunks))
    [note] = [event.citation for event in events if isinstance(event, Annotation)]
    assert (note.url, note.title, note.start, note.end) == ("U", "W", 0, 10)
    assert blocks(events) == [("text", "Regn på Å.", None), ("reasoning", "", ("end", "S1"))]

    context = new_context()
    chunks = [chunk([{"text": "Regn på Å."}, CALL]), chunk([], "STOP", groundingMetadata=sources)]
    assert not any(isinstance(event, Annotation) for event in read(sse(chunks), context))
    assert [loss.code for loss in context.losses] == [LossCode.CITATIONS]


def test_log_probabilities() -> None:
    result = {"chosenCandidates": [{"token": "Hi", "logProbability": -0.1}]}
    context = new_context(logprobs=True)
    events = read(sse([chunk([{"text": "Hi"}], "STOP", logprobsResult=result)]), context)
    assert [event.tokens[0]["token"] for event in events if isinstance(event, Logprobs)] == ["Hi"]
    read(sse([chunk([CALL], "STOP", logprobsResult=result)]), context)
    assert [loss.code for loss in context.losses] == [LossCode.UNKNOWN_FIELD]


def test_a_cut_reply_has_an_unfinished_block() -> None:
    events, _ = play([{"text": "Step one"}], finish="MAX_TOKENS")
    assert [event.complete for event in events if isinstance(event, BlockEnd)] == [False]


@pytest.mark.parametrize("part", [["x"], 5, {"text": 5}, {"text": ["x"]}])
def test_a_malformed_part(part: Any) -> None:
    assert isinstance(read(sse([chunk([part], "STOP")]))[-1], Error)


def test_empty_and_unknown_parts() -> None:
    events, losses = play([None, {}, {"text": ""}, hidden(""), {"videoMetadata": {"fps": 1}}])
    assert blocks(events) == []
    assert losses == [LossCode.UNKNOWN_FIELD]


def test_the_text_that_is_kept_is_limited() -> None:
    context = new_context(limits=Limits(tool_arguments=10))
    for whole in (True, False):
        events = read(sse(chunk([{"text": "abc"}]) for _ in range(9)), context, whole=whole)
        assert isinstance(events[-1], Error)
        assert "tool_arguments" in events[-1].failure.message
