"""JSON as the wire has it: half surrogate pairs, big numbers, and nothing but ValueError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import Fragment

from dragoman.wire.json_codec import dump_str, dumps, embed, loads
from support.strategies import texts

HALF = "\ud83d"
OTHER = "\ude00"

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("as_bytes", [True, False])
def test_T71_half_a_surrogate_pair_is_read_and_written_as_the_same_escape(as_bytes: bool) -> None:
    source = '{"t":"a\\ud83d"}'
    value = loads(source.encode() if as_bytes else source)
    assert value == {"t": "a" + HALF}
    assert dumps(value) == b'{"t":"a\\ud83d"}'
    assert dump_str(value["t"]) == b'"a\\ud83d"'


def test_T71_two_halves_in_two_deltas_make_one_character_for_the_client() -> None:
    first, second = loads(b'"\\ud83d"'), loads(b'"\\ude00"')
    sent = json.loads(dump_str(first)), json.loads(dump_str(second))
    assert "".join(sent).encode("utf-16", "surrogatepass").decode("utf-16") == "😀"


def test_a_whole_pair_is_one_character() -> None:
    assert loads(b'"\\ud83d\\ude00"') == "😀"
    assert dumps("😀") == '"😀"'.encode()
    assert dumps(["é", "\u2028"]) == '["é","\u2028"]'.encode()


@pytest.mark.parametrize("stated", [HALF, HALF + OTHER])
def test_T71_a_text_that_holds_halves_itself_is_json_as_well(stated: str) -> None:
    """Arguments come as text inside JSON, so their halves are characters there and no escapes."""
    value = loads(f'{{"t":"{stated}"}}')
    assert value == {"t": stated}
    with pytest.raises(ValueError):
        loads(f'{{"t":"{stated}"')


def test_a_half_in_a_key_and_deep_inside() -> None:
    value = {HALF: [1, {"x": OTHER, "é": None}]}
    assert loads(dumps(value)) == value
    assert b" " not in dumps(value), "compact in the fallback too"


def test_key_order_is_kept() -> None:
    assert dumps({"b": 1, "a": 2, "z": HALF}) == b'{"b":1,"a":2,"z":"\\ud83d"}'


def test_integers_of_any_size() -> None:
    assert loads(dumps({"n": 2**70})) == {"n": 2**70} or loads(dumps({"n": 2**70})) == {"n": float(2**70)}
    assert dumps(2**70) == str(2**70).encode()


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b"[1,]", b"nul", b'"\\u12"', b'{"a":1}x', b'"\\ud83d', b"\xff", b'\xff"\\u0041"', b"[NaN]"],
)
def test_what_is_not_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        loads(data)


@pytest.mark.parametrize("constant", [b"NaN", b"Infinity", b"-Infinity"])
def test_the_fallback_is_no_laxer_about_constants(constant: bytes) -> None:
    with pytest.raises(ValueError):
        loads(b'["\\ud83d",' + constant + b"]")


@pytest.mark.parametrize("depth", [2000, 100_000])
def test_deep_nesting_is_a_value_error(depth: int) -> None:
    with pytest.raises(ValueError):
        loads(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("depth", [2000, 100_000])
def test_deep_nesting_with_an_escape_is_a_value_error(depth: int) -> None:
    with pytest.raises(ValueError):
        loads(b"[" * depth + b'"\\ud83d"' + b"]" * depth)


@pytest.mark.parametrize("depth", [200, 500])
def test_what_could_be_read_can_be_written(depth: int) -> None:
    data = b"[" * depth + b"]" * depth
    assert dumps(loads(data)) == data


@given(VALUES)
def test_law_written_and_read_back(value: Any) -> None:
    data = dumps(value)
    assert json.loads(data) == value
    assert b"\n" not in data, "one line: it goes into an event stream"
    assert b"\r" not in data


@given(st.text(st.characters(), max_size=20))
def test_law_strings_with_lone_surrogates_survive(text: str) -> None:
    assert json.loads(dump_str(text)) == json.loads(json.dumps(text))
    assert dumps(text) == dump_str(text)


@pytest.mark.parametrize("stated", ["\ud83d", "\ud83d\\ude00", "\ud83d\ude00", "😀", "\u2028"])
def test_an_embedded_fragment_may_hold_half_a_surrogate_pair(stated: str) -> None:
    read = json.loads(dumps([embed(f'{{"t":"{stated}","n":1.50}}'), HALF]))[0]
    assert read == {"t": "😀" if len(stated) > 1 else stated, "n": 1.5}


def test_an_embedded_fragment_survives_beside_half_a_surrogate_pair() -> None:
    body = {"arguments": Fragment('{"n":1.50}'), "text": "\ud83d"}
    assert json.loads(dumps(body)) == {"arguments": {"n": 1.5}, "text": "\ud83d"}
