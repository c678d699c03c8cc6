"""Generated streams of the Responses writer before two judges: our independent grammar and the official SDK."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from dragoman import Knobs
from dragoman.canonical.events import Event
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame, encode_frames
from oracles.grammar import open_responses, responses
from support import canonical
from support.frames import frames_of
from support.strategies import ANY, RESPONSES_ONLY, batches, event_streams

Json = dict[str, Any]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
EVERYTHING = replace(ANY, custom_tools=True, namespaces=True, searches=True, errors=True)
shapes = st.sampled_from((EVERYTHING, replace(EVERYTHING, origin="chat", kinds=ANY.kinds[:4]), RESPONSES_ONLY))
streams = shapes.flatmap(event_streams)
surfaces = st.sampled_from(("reasoning_text", "summary"))


def context(surface: Any = "reasoning_text", **settings: Any) -> ReplyContext:
    knobs = Knobs(reasoning_surface=surface, refusal_terminal="native")
    return ReplyContext("client-model", 1, "req_1", knobs=knobs, envelope=Envelope("f", "m"), **settings)


def written(events: list[Event], into: ReplyContext) -> list[Frame]:
    writer = Writer(into)
    frames = frames_of(writer.feed(events))
    assert writer.done
    return frames


@given(streams, surfaces)
def test_every_stream_satisfies_the_open_responses_schema(events: list[Event], surface: str) -> None:
    for frame in written(events, context(surface)):
        if frame.data is not None:
            open_responses.check_event(json.loads(frame.data))


@given(streams, surfaces)
def test_T01_T02_T23_every_stream_keeps_the_grammar_and_has_the_same_content(events: list[Event], surface: str) -> None:
    found = responses.check(encode_frames(written(events, context(surface))), own=True)
    meant = canonical.check(events)
    if meant.error is not None:
        assert found.error is not None
        return
    assert found.text == meant.text
    assert [call.id for call in found.calls] == [call.id for call in meant.calls]
    assert [(call.kind, call.namespace, call.name) for call in found.calls] == [
        (call.kind, call.namespace, call.name) for call in meant.calls
    ]
    if found.finish == "completed":
        assert found.parsed_calls() == meant.parsed_calls()
    # Parts of one reasoning item are separated by a blank line; every item here has one part.
    assert found.reasoning == meant.reasoning
    assert found.refusal.startswith(meant.refusal)


@given(streams, surfaces, st.booleans())
def test_every_stream_is_what_the_sdk_assembles(events: list[Event], surface: str, logs: bool) -> None:
    payloads = [
        json.loads(frame.data) for frame in written(events, context(surface, logprobs=logs)) if frame.data is not None
    ]
    state = ResponseStreamState[Any](input_tools=omit, text_format=omit)
    for payload in payloads:
        state.handle_event(EVENT.validate_python(payload, strict=True))
    last = payloads[-1]["response"]
    if last["status"] == "completed":
        final = state._completed_response
        assert final is not None
        assert [getattr(item, "id", None) for item in final.output] == [item["id"] for item in last["output"]]
        assert final.output_text == "".join(
            part["text"]
            for item in last["output"]
            if item["type"] == "message"
            for part in item["content"]
            if "text" in part
        )


@given(streams.flatmap(lambda events: st.tuples(st.just(events), batches(events))), st.booleans())
def test_any_batches_give_the_same_frames(split: tuple[list[Event], list[list[Event]]], logs: bool) -> None:
    events, pieces = split
    writer = Writer(context(logprobs=logs))
    frames = [frame for piece in pieces for frame in frames_of(writer.feed(piece))]
    assert [*frames, *writer.finish()] == written(events, context(logprobs=logs))
