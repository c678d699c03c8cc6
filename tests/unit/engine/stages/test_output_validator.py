"""Everything that we are known to write passes, whole and however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Direction, direction, translate
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.gateway import CLIENT_DIALECTS, ReplyOptions
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import OutputValidator
from dragoman.wire.sse import Frame
from support.directions import CROSS, profiles, stream_through, translated, upstream_streams
from support.mutations import mutated_streams
from support.strategies import splits
from support.verdicts import TEXT, golden, goldens, settings_of, verdict

NAMES = [(dialect, name) for dialect in CLIENT_DIALECTS for name in goldens(dialect)]


@pytest.mark.parametrize(("dialect", "name"), NAMES, ids=[name for _, name in NAMES])
def test_every_golden_passes_whole_and_byte_by_byte(dialect: Dialect, name: str) -> None:
    data, settings = golden(name), settings_of(name)
    assert verdict(dialect, data, **settings) is None
    assert verdict(dialect, [data[at : at + 1] for at in range(len(data))], **settings) is None


def test_there_are_goldens_of_every_dialect() -> None:
    assert {dialect for dialect, _ in NAMES} == set(CLIENT_DIALECTS)
    assert len(NAMES) > 300


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_whatever_an_upstream_sends_no_stream_of_ours_is_a_breach(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    broken = data.draw(st.one_of(st.just(upstream.data), mutated_streams(upstream.data)))
    translation = translated(row, profile=data.draw(profiles))
    out = stream_through(translation, data.draw(splits(broken)))
    note(out.decode())
    assert translation.context.violation is None


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
@given(data=st.data())
def test_the_verdict_hangs_on_no_cut(dialect: Dialect, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from((TEXT[dialect], *goldens(dialect))))
    stream = data.draw(mutated_streams(golden(name)))
    settings = settings_of(name)
    whole = verdict(dialect, stream, **settings)
    for pieces in (data.draw(splits(stream)), [stream[at : at + 1] for at in range(len(stream))]):
        again = verdict(dialect, pieces, **settings)
        assert (again is None) == (whole is None)
        if again is not None and whole is not None:
            assert (again.rule, again.event, again.frame) == (whole.rule, whole.event, whole.frame)


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_bytes_pass_through_as_they_are(dialect: Dialect) -> None:
    """Right or wrong, and also what comes behind a breach."""
    data = golden(TEXT[dialect])
    context = ReplyContext("m", include_usage=True)
    stage = OutputValidator(context, CODECS[dialect].grammar(context))
    broken: list[bytes | list[Frame | bytes]] = [b"data: nonsense\n\n", data, [Frame("x", b"{}"), b": a comment\n\n"]]
    assert [stage.feed(piece) for piece in broken] == broken
    assert stage.finish() == []
    assert context.validated
    assert context.violation is not None
    assert context.violation.position == 0


def test_half_a_frame_at_the_end_is_a_breach() -> None:
    for dialect in CLIENT_DIALECTS:
        found = verdict(dialect, golden(TEXT[dialect])[:-1])
        assert found is not None
        assert found.rule == "a frame without its blank line"


def test_only_a_validated_stream_is_judged() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}'
    for validate in (True, False):
        translation = translate(direction("chat", "messages"), body, options=ReplyOptions(validate=validate))
        machine = translation.stream_machine()
        machine.feed(golden("messages_from_chat/text"))
        assert (translation.context.validated, translation.violation) == (validate, None)
