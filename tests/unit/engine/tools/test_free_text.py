"""The text of a wrapped free-text call, out of its JSON as it streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DragomanError, UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.tools.free_text import FreeTextDecoder
from support.growth import growth

SPACES = st.text(" \t\r\n", max_size=3)
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\/\n\t{}:,é東👋'), max_size=40)
JSONISH = st.text(st.sampled_from('{}[]":,\\uinptabc0189dDeEfF \n+-_'), max_size=30)


def unwrap(pieces: Sequence[str], losses: Losses | None = None) -> tuple[str, bool]:
    """The text of a call that came in these pieces, and whether its JSON was cut."""
    unwrapper = FreeTextDecoder("patch")
    text = "".join(unwrapper.feed(piece) for piece in pieces)
    text += unwrapper.finish(Losses() if losses is None else losses)
    return text, unwrapper.truncated


def split(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


@given(TEXTS, st.booleans(), st.lists(SPACES, min_size=6, max_size=6), st.lists(st.integers(0, 500), max_size=6))
def test_every_split_of_every_text_makes_the_text(
    text: str, ascii_only: bool, gaps: list[str], cuts: list[int]
) -> None:
    literal = json.dumps(text, ensure_ascii=ascii_only)
    raw = gaps[0] + "{" + gaps[1] + '"input"' + gaps[2] + ":" + gaps[3] + literal + gaps[4] + "}" + gaps[5]
    losses = Losses()
    assert unwrap(split(raw, cuts), losses) == (text, False)
    assert unwrap(list(raw)) == (text, False)
    assert not losses.counts


@given(TEXTS, st.booleans())
def test_the_text_leaves_as_it_comes(text: str, ascii_only: bool) -> None:
    """All but an escape that is not whole has left before the end."""
    unwrapper = FreeTextDecoder("patch")
    raw = json.dumps({"input": text}, ensure_ascii=ascii_only)
    assert "".join(map(unwrapper.feed, raw[:-2])) == text


@given(TEXTS, st.booleans(), st.integers(0, 500))
def test_a_cut_call_has_the_beginning_of_its_text(text: str, ascii_only: bool, cut: int) -> None:
    raw = json.dumps({"input": text}, ensure_ascii=ascii_only)
    size = cut % len(raw)
    noted, is_cut = unwrap([raw[:size]])
    assert is_cut == (size > 0)
    assert text.startswith(noted)


@given(st.lists(JSONISH, max_size=5), st.sampled_from(("", '{"input":"', '{"input": "a\\', '{"input":"\\ud83d')))
def test_hostile_arguments_raise_nothing_but_our_errors(pieces: list[str], head: str) -> None:
    try:
        whole = unwrap([head + "".join(pieces)])
    except DragomanError:
        whole = None
    try:
        in_pieces = unwrap([head, *pieces])
    except DragomanError:
        in_pieces = None
    assert whole == in_pieces


def test_a_surrogate_pair_may_be_cut_anywhere() -> None:
    raw = '{"input":"a\\ud83d\\udc4bb"}'
    for first in range(len(raw)):
        for second in range(first, len(raw)):
            assert unwrap([raw[:first], raw[first:second], raw[second:]]) == ("a👋b", False)


@pytest.mark.parametrize(
    ("formatted", "text"),
    [
        (r"\ud83d", "\ufffd"),
        (r"\ud83dx", "\ufffdx"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83d\ud83d\udc4b", "\ufffd👋"),
        (r"\udc4b\ud83d", "\ufffd\ufffd"),
        (r"\ud83dA6789012", "\ufffdA6789012"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\b\f\n\r\t\/\\\"", '\b\f\n\r\t/\\"'),
    ],
)
def test_escapes(formatted: str, text: str) -> None:
    raw = f'{{"input":"{formatted}"}}'
    assert unwrap([raw]) == (text, False)
    assert unwrap(list(raw)) == (text, False)


@pytest.mark.parametrize("escape", [r"\x", r"\u+123", r"\u-001", r"\u1_23", r"\u 123", r"\uzzzz", r"\ud83d\uzzzz"])
def test_an_escape_that_is_none_is_the_upstreams_error(escape: str) -> None:
    for pieces in ([f'{{"input":"{escape}'], list(f'{{"input":"{escape}')):
        with pytest.raises(UpstreamProtocolError, match="no JSON string"):
            unwrap(pieces)


@pytest.mark.parametrize(
    "raw",
    [
        '{"input":"text","more":1}',
        '{"input":"text" , "more" : [1, {"input":"other"}]}',
        '{"input":"text","input":"again"}',
        '{"more":1,"input":"text"}',
        '{"\\u0069nput":"text","more":1}',
    ],
)
def test_further_arguments_are_left_out_with_a_row(raw: str) -> None:
    for pieces in ([raw], list(raw)):
        losses = Losses()
        assert unwrap(pieces, losses) == ("text", False)
        assert losses.counts == {LossCode.CUSTOM_WRAPPED: 1}
        assert losses.rows[0].path == "patch"


@pytest.mark.parametrize("raw", ['{"patch":"text"}', '{"\\u0069nput":"text"}', '\n{ "text" : "text" }'])
def test_the_only_argument_is_the_text_whatever_its_name(raw: str) -> None:
    losses = Losses()
    assert unwrap(list(raw), losses) == ("text", False)
    assert not losses.counts


@pytest.mark.parametrize("raw", ["", " ", "{}", "{ }"])
def test_no_arguments_are_no_text(raw: str) -> None:
    assert unwrap([raw]) == ("", False)


@pytest.mark.parametrize(
    "raw", ['"text"', "[]", "null", '{"input":5}', '{"input":null}', '{"a":"x","b":"y"}', '{"input":1,"b":"y"}']
)
def test_whole_arguments_without_a_text_are_the_upstreams_error(raw: str) -> None:
    with pytest.raises(UpstreamProtocolError, match="'patch' without its 'input' text"):
        unwrap([raw])


@pytest.mark.parametrize(
    ("raw", "noted"),
    [
        ("{", ""),
        ('{"inp', ""),
        ('{"input"', ""),
        ('{"input":"', ""),
        ('{"input":"ab', "ab"),
        ('{"input":"ab\\', "ab"),
        ('{"input":"ab\\ud83d', "ab"),
        ('{"input":"ab"', "ab"),
        ('{"input":"ab","x', "ab"),
        ('{"x":1,"input":"ab', ""),
        ('{"input":"ab"} garbage', "ab"),
    ],
)
def test_what_is_not_whole_is_known(raw: str, noted: str) -> None:
    losses = Losses()
    assert unwrap([raw], losses) == (noted, True)
    assert not losses.counts


def test_time_is_linear() -> None:
    def decode(size: int) -> None:
        raw = '{"input":"' + "\\u00e9\\n" * size + '"}'
        unwrapper = FreeTextDecoder("patch")
        for at in range(0, len(raw), 5):
            unwrapper.feed(raw[at : at + 5])
        unwrapper.finish(Losses())

    assert growth(decode, 2_000, 20_000) < 40
