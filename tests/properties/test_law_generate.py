"""Laws of Gemini as an upstream: its streams in any split, and requests that Google's own types take."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Knobs
from dragoman.canonical.events import Error, StopReason
from dragoman.canonical.parts import ToolCall
from dragoman.canonical.reply_events import events_of, reply_of
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.generate.reply.read import read_reply
from dragoman.errors import DragomanError
from dragoman.wire.json_codec import dumps
from support import canonical
from support.generate import GEMINI, OLDER, chunk, new_context, read, send, sse, written
from support.requests import Features, conversations
from support.strategies import splits, texts

Json = dict[str, Any]
WORDS = st.sampled_from(("", "a", "Hello ", "å", "日本", "\n\n", '"'))
SIGNED = st.sampled_from(({}, {}, {"thoughtSignature": "SIG1"}, {"thoughtSignature": "SIG2"}))
CALLS = st.fixed_dictionaries(
    {"name": st.sampled_from(("look", "cook"))},
    optional={
        "id": st.sampled_from(("a", "b")),
        "args": st.dictionaries(st.sampled_from("xy"), st.one_of(st.integers(), texts, st.none())),
        "willContinue": st.just(True),
    },
)
PIECES = st.sampled_from(
    (
        {},
        {"willContinue": True},
        {"partialArgs": [{"jsonPath": "$.a.b[0]", "stringValue": "x"}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]},
    )
)
DATA = st.one_of(
    st.builds(lambda text: {"text": text}, WORDS),
    st.builds(lambda text: {"text": text, "thought": True}, WORDS),
    st.builds(lambda call: {"functionCall": call}, CALLS),
    st.builds(lambda piece: {"functionCall": piece}, PIECES),
    st.sampled_from(
        (
            {},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}},
            {"executableCode": {"code": "1"}},
            {"new": 1},
        )
    ),
)
PARTS = st.builds(lambda data, signed: {**data, **signed}, DATA, SIGNED)
FINISH = st.sampled_from((None, None, None, "STOP", "MAX_TOKENS", "SAFETY", "OTHER", "NEW", "MALFORMED_FUNCTION_CALL"))
USAGE = st.sampled_from((None, (3, 1), (3, 2, 5, 1)))
GROUNDING = {
    "groundingChunks": [{"web": {"uri": "https://u.example", "title": "W"}}],
    "groundingSupports": [{"segment": {"endIndex": 1, "text": "a"}, "groundingChunkIndices": [0]}],
}


@st.composite
def chunks(draw: st.DrawFn) -> list[Json]:
    """The chunks of a stream: plausible ones, and now and then one that breaks the rules."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        fields: Json = {} if draw(st.integers(0, 3)) else {"groundingMetadata": GROUNDING}
        found.append(chunk(draw(st.lists(PARTS, max_size=3)), draw(FINISH), usage=draw(USAGE), **fields))
    if draw(st.booleans()):
        found.append(chunk([{"text": ""}], "STOP", usage=(3, 1)))
    if not draw(st.integers(0, 5)):
        odd: st.SearchStrategy[Json] = st.sampled_from(
            ({}, {"candidates": []}, {"promptFeedback": {"blockReason": "SAFETY"}}, {"error": {"code": 503}})
        )
        found.insert(draw(st.integers(0, len(found))), draw(odd))
    return found


@given(data=st.data())
def test_any_split_makes_the_same_events(data: st.DataObject) -> None:
    frames = data.draw(chunks())
    raw = sse(frames, data.draw(st.sampled_from((b"\r\n\r\n", b"\n\n"))))
    first = new_context()
    whole = read(raw, first)
    canonical.check(whole)
    for parser_keeps in (False, True):
        for pieces in (data.draw(splits(raw)), [raw[at : at + 1] for at in range(len(raw))]):
            context = new_context()
            assert read(pieces, context, whole=parser_keeps) == whole
            assert context.losses.counts == first.losses.counts
    if all(frames):
        array = read(b"[" + b",\n".join(map(dumps, frames)) + b"]")
        assert (isinstance(array[-1], Error) and isinstance(whole[-1], Error)) or array == whole


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@given(frames=chunks())
def test_every_client_gets_a_stream_of_its_grammar(client: Dialect, frames: list[Json]) -> None:
    context = new_context(client)
    events = read(sse(frames), context)
    note(repr(events))
    written(events, client, context)


@given(frames=chunks())
def test_a_stream_accumulates_to_its_complete_reply(frames: list[Json]) -> None:
    events = read(sse(frames))
    if not isinstance(events[-1], Error):
        reply = reply_of(events, "generate")
        assert reply_of(events_of(reply), "generate") == reply


@given(data=st.data())
def test_a_stream_is_the_whole_reply_of_the_same_content(data: st.DataObject) -> None:
    """However the parts are spread over chunks, and wherever the `finishReason` stands."""
    spread = data.draw(st.lists(st.lists(PARTS, max_size=3), min_size=1, max_size=4))
    fields: Json = {"groundingMetadata": GROUNDING} if data.draw(st.booleans()) else {}
    finish, usage = data.draw(FINISH.filter(bool)), data.draw(USAGE)
    *before, last = [*spread, []] if data.draw(st.booleans()) else spread
    frames = [*map(chunk, before), chunk(last, finish, usage=usage, **fields)]
    streaming, whole = new_context(), new_context()
    events = read(sse(frames), streaming)
    canonical.check(events)
    note(repr(events))
    body = chunk([part for parts in spread for part in parts], finish, usage=usage, **fields)
    if isinstance(failed := events[-1], Error):
        with pytest.raises(DragomanError) as caught:
            read_reply(body, whole)
        assert caught.value.failure.message == failed.failure.message
        return
    reply = read_reply(body, whole)
    assert reply_of(events, "generate") == reply
    assert streaming.losses.counts == whole.losses.counts
    if reply.stop.reason is StopReason.FILTERED:
        assert not any(isinstance(part, ToolCall) for part in reply.parts)


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@given(data=st.data())
def test_googles_own_types_take_every_request(client: Dialect, data: st.DataObject) -> None:
    features = Features(orphans=data.draw(st.booleans()))
    body = data.draw(conversations(client, features)).body()
    knobs = Knobs(
        mid_system=data.draw(st.sampled_from(("auto", "user"))),
        hosted_tools=data.draw(st.sampled_from(("drop", "map"))),
        demote_reasoning=data.draw(st.sampled_from(("off", "on"))),
        orphans=data.draw(st.sampled_from(("repair", "strip"))),
    )
    send(client, body, data.draw(st.sampled_from((GEMINI, OLDER))), knobs)
