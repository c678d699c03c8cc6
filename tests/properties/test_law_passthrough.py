"""Law: what passes, and how the stream ends, does not depend on how its bytes were split."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman import Dialect, Limits
from dragoman.dialects.all_codecs import CODECS
from dragoman.errors import Failure
from dragoman.reply_context import ReplyContext
from dragoman.stages.passthrough import Passthrough
from dragoman.wire.json_edit import JsonStringRewriter
from support.directions import DIALECTS, upstream_streams
from support.mutations import mutated_streams
from support.strategies import examples, splits

DAMAGE = (
    b"data: {\n\n",
    b"data: <html>\n\n",
    b"data: [1]\n\n",
    b"da\xffta: {}\n\n",
    b"\x00\n\n",
    b"\xef\xbb\xbfdata: {}\n\n",
    b"data: [DONE]\n\n",
    b'data: {"error":{"message":"no","type":"server_error"},"type":"error"}\n\n',
    b'event: error\ndata: {"error":{"message":"key sk-abcdefgh1234","type":"x"},"type":"error"}\n\n',
    b"data: " + b"x" * 700 + b"\n\n",
    b": " + b"y" * 700 + b"\n: z\n\n",
)
HARMLESS = (b": c\n\n", b"\n", b"\n\n\n", b"novelty: x\n\n", b": a\n: b\n\n", b"data:\n\n", b"id: 7\nretry: 10\n\n")


class Outcome(NamedTuple):
    passed: bytes
    fault: Failure | None
    failure: Failure | None
    complete: bool
    begun: bool
    odd: bool
    repair: str


def play(dialect: Dialect, pieces: list[bytes], limits: Limits, model: str | None) -> Outcome:
    codec = CODECS[dialect]
    stage = Passthrough(
        codec.observer(),
        ReplyContext("m", request_id="req_1", limits=limits),
        JsonStringRewriter(model, *codec.model_paths) if model else None,
    )
    out = b""
    for piece in pieces:
        out += stage.feed(piece)
        if stage.done:
            break
    else:
        out += stage.finish()
    observer = stage.observer
    return Outcome(out, stage.fault, observer.failure, observer.complete, stage.begun, observer.odd, observer.repair)


@st.composite
def streams(draw: st.DrawFn, dialect: Dialect) -> bytes:
    """A good stream with frames put between its own, line ends of any kind, and perhaps an end in its middle."""
    frames = [frame + b"\n\n" for frame in draw(upstream_streams(dialect)).data.split(b"\n\n")[:-1]]
    for extra in draw(st.lists(st.sampled_from((*DAMAGE, *HARMLESS, *HARMLESS)), max_size=3)):
        frames.insert(draw(st.integers(0, len(frames))), extra)
    data = draw(st.sampled_from((b"", b"", b"\xef\xbb\xbf"))) + b"".join(frames)
    data = data.replace(b"\n", draw(st.sampled_from((b"\n", b"\n", b"\r\n", b"\r"))))
    data = draw(st.one_of(st.just(data), st.just(data), mutated_streams(data)))
    return data[: draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@examples(4)
@given(data=st.data())
def test_any_split_makes_the_same_bytes_and_the_same_outcome(dialect: Dialect, data: st.DataObject) -> None:
    raw = data.draw(streams(dialect))
    limits = data.draw(st.sampled_from((Limits(), Limits(), Limits(sse_frame=600, sse_line=500))))
    model = data.draw(st.sampled_from((None, "client-model")))
    whole = play(dialect, [raw], limits, model)
    assert play(dialect, data.draw(splits(raw)), limits, model) == whole
    assert play(dialect, [raw[at : at + 1] for at in range(len(raw))], limits, model) == whole


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_a_damaged_frame_ends_the_stream_in_an_error_in_its_place(dialect: Dialect, data: st.DataObject) -> None:
    raw = data.draw(upstream_streams(dialect)).data
    assume(b"\r" not in raw and not raw.startswith(b"\xef"))
    frames = [frame + b"\n\n" for frame in raw.split(b"\n\n")[:-1]]
    assume(len(frames) > 1)
    at = data.draw(st.integers(1, len(frames) - 1))
    before = b"".join(frames[:at])
    stage = Passthrough(CODECS[dialect].observer(), ReplyContext("m"))
    assume(stage.feed(before) == before and not stage.done)
    damaged = before + data.draw(st.sampled_from(DAMAGE[:6])) + b"".join(frames[at:])
    outcome = play(dialect, data.draw(splits(damaged)), Limits(), None)
    assert outcome.fault is not None
    assert outcome.fault.status == 502
    assert outcome.passed.startswith(before)
    *opening, error = outcome.passed[len(before) :].split(b"\n\n")[:-1]
    # The SDK for Responses accepts no other first event.
    assert [frame.partition(b"\n")[0] for frame in opening] in ([], [b"event: response.created"])
    payload: Any = json.loads(error.partition(b"data: ")[2])
    assert payload.get("error") or payload["response"]["error"]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_a_good_stream_passes_byte_for_byte_to_its_end(dialect: Dialect, data: st.DataObject) -> None:
    raw = data.draw(upstream_streams(dialect)).data
    outcome = play(dialect, data.draw(splits(raw)), Limits(), None)
    assume(not outcome.odd)  # a call that is cut before another block, an empty object before arguments
    assume(not outcome.repair)  # a last event without the items
    assert outcome.fault is None
    assert outcome.complete or outcome.failure is not None
    assert raw.startswith(outcome.passed)
    rest = raw[len(outcome.passed) :]
    assert not rest or outcome.passed.endswith((b"\n\n", b"\r\n", b"\r\r"))
    assert b"{" not in rest
