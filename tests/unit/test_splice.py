"""One value replaced inside JSON bytes: found where a parser finds it, and no other byte touched."""

from __future__ import annotations

import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.splice import Renamer, find_value, put
from support.strategies import texts

_keys = st.sampled_from(("model", "message", "a", "mode", '"model"', "model\\", "{", "mödel")) | texts
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | texts | _keys,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)
_objects = st.dictionaries(_keys, _values, max_size=6)
_paths = st.sampled_from((("model",), ("message", "model"), ("a", "message", "model")))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A JSON object in some spelling: compact or spread, with or without escapes."""
    value = draw(_objects)
    if draw(st.booleans()):
        value["message"] = draw(_objects)
    # Escaped keys are looked for as they are spelled: json.dumps escapes none of the three that are asked for.
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from((None, 1))))
    return text.encode("utf-8", "surrogatepass")


def at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


@given(bodies(), _paths)
def test_find_value_agrees_with_a_parser(body: bytes, path: tuple[str, ...]) -> None:
    expected = at(orjson.loads(body), path)
    span = find_value(body, *path)
    if isinstance(expected, str):
        assert span is not None
        assert orjson.loads(body[slice(*span)]) == expected
    else:
        assert span is None


@given(bodies(), _paths, texts)
def test_put_changes_that_value_only(body: bytes, path: tuple[str, ...], value: str) -> None:
    span = find_value(body, *path)
    if span is None:
        return
    changed = put(body, span, value)
    assert changed.startswith(body[: span[0]])
    assert changed.endswith(body[span[1] :])
    expected = orjson.loads(body)
    at(expected, path[:-1])[path[-1]] = value
    assert orjson.loads(changed) == expected


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"messages":[{"model":"no"}],"x":{"model":"no"},"model":"yes"}', ("model",)),
        (b'{"text":"\\"model\\":\\"no\\"","model":"yes"}', ("model",)),
        (b'{"a":"model","b":"no","model":"yes"}', ("model",)),
        (b'["model","no",{"model":"no"}]', ("model",)),
        (b'{"model":{"model":"no"}}', ("model",)),
        (b'{"model":["no"]}', ("model",)),
        (b'{"model":null,"x":"no"}', ("model",)),
        (b'{"model":5}', ("model",)),
        (b'{"message":[{"model":"no"}],"x":{"message":{"model":"no"}}}', ("message", "model")),
        (b'{"message":{"content":[{"model":"no"}],"model":"yes"},"model":"no"}', ("message", "model")),
        (b'{"message":{},"x":{"model":"no"}}', ("message", "model")),
    ],
)
def test_look_alikes_are_passed_over(body: bytes, path: tuple[str, ...]) -> None:
    span = find_value(body, *path)
    assert (body[slice(*span)] if span else None) == (b'"yes"' if b"yes" in body else None)


@given(st.binary(max_size=60), _paths)
def test_what_is_not_json_never_raises(data: bytes, path: tuple[str, ...]) -> None:
    find_value(data, *path)
    find_value(b'{"message":{"model"' + data, *path)


def test_an_endless_string_costs_linear_time() -> None:
    data = b'{"x":"' + b'\\"a' * 200_000
    started = time.perf_counter()
    assert find_value(data, "model") is None
    assert time.perf_counter() - started < 2.0


@given(st.lists(bodies(), min_size=1, max_size=5), texts)
def test_the_renamer_remembers_a_prefix_and_still_agrees_with_a_scan(frames: list[bytes], value: str) -> None:
    renamer = Renamer(value, ("model",))
    for frame in frames + frames:
        span = find_value(frame, "model")
        assert renamer.apply(frame) == (put(frame, span, value) if span is not None else frame)


def test_the_renamer_takes_the_first_path_that_exists() -> None:
    renamer = Renamer("new", ("message", "model"), ("model",))
    assert renamer.apply(b'{"message":{"model":"old"}}') == b'{"message":{"model":"new"}}'
    assert renamer.apply(b'{"model":"old"}') == b'{"model":"new"}'
    assert renamer.apply(b'{"type":"ping"}') == b'{"type":"ping"}'
