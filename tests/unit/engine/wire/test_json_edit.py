"""One value replaced inside JSON bytes: found where a parser finds it, and no other byte touched."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.json_edit import (
    EditedObject,
    JsonStringRewriter,
    drop_null,
    edit_members,
    find_member,
    find_values,
    put,
    repeated_key,
)
from support.growth import growth
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
    """A JSON object in some form: compact or spread, with or without escapes."""
    value = draw(_objects)
    if draw(st.booleans()):
        value["message"] = draw(_objects)
    # Escaped keys are looked for as they are written: json.dumps escapes none of the three that are asked for.
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from((None, 1))))
    return text.encode("utf-8", "surrogatepass")


def at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def find_value(data: bytes, *path: str) -> tuple[int, int] | None:
    return next(find_values(data, *path), None)


@given(bodies(), _paths)
def test_find_values_agrees_with_a_parser(body: bytes, path: tuple[str, ...]) -> None:
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
    changed = put(body, [span], value)
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
    small, large = (b'{"x":"' + b'\\"a' * count for count in (20_000, 200_000))
    assert find_value(large, "model") is None
    assert growth(lambda data: find_value(data, "model"), small, large) < 40


@given(st.lists(bodies(), min_size=1, max_size=5), texts)
def test_the_renamer_remembers_a_prefix_and_still_agrees_with_a_scan(frames: list[bytes], value: str) -> None:
    renamer = JsonStringRewriter(value, ("model",))
    for frame in frames + frames:
        span = find_value(frame, "model")
        assert renamer.apply(frame) == (put(frame, [span], value) if span is not None else frame)


def test_the_renamer_takes_the_first_path_that_exists() -> None:
    renamer = JsonStringRewriter("new", ("message", "model"), ("model",))
    assert renamer.apply(b'{"message":{"model":"old"}}') == b'{"message":{"model":"new"}}'
    assert renamer.apply(b'{"model":"old"}') == b'{"model":"new"}'
    assert renamer.apply(b'{"type":"ping"}') == b'{"type":"ping"}'


# --- repeated keys ----------------------------------------------------------------------------------------------------


def escaped(key: str, places: set[int]) -> str:
    """The key as a JSON string, with the characters at `places` as escapes."""
    formatted = "".join(f"\\u{ord(char):04x}" if n in places else json.dumps(char)[1:-1] for n, char in enumerate(key))
    return f'"{formatted}"'


_names = st.sampled_from(("model", "stream", "message", 'mo"del', "mod", "m\\")) | st.text("mode", max_size=5)


@st.composite
def members(draw: st.DrawFn) -> list[tuple[str, Any, str]]:
    """Members of an object: the key, the value, and the member as it is written."""
    found = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(_names)
        value = draw(_values | st.lists(st.dictionaries(_names, _values, max_size=2), max_size=2))
        key = escaped(name, draw(st.sets(st.integers(0, len(name)))))
        space = draw(st.sampled_from(("", " ", "\n\t")))
        found.append((name, value, f"{space}{key}{space}:{space}{json.dumps(value)}{space}"))
    return found


@given(members())
def test_a_repeated_key_is_found_however_it_is_written(given_members: list[tuple[str, Any, str]]) -> None:
    body = ("{" + ",".join(formatted for _, _, formatted in given_members) + "}").encode("utf-8", "surrogatepass")
    names = [name for name, _, _ in given_members]
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    assert repeated_key(body, orjson.loads(body)) == (repeated[0] if repeated else None)


@given(members(), st.text("abc", min_size=1, max_size=3))
def test_every_value_of_a_repeated_key_is_replaced(given_members: list[tuple[str, Any, str]], value: str) -> None:
    body = ("{" + ",".join(formatted for _, _, formatted in given_members) + "}").encode("utf-8", "surrogatepass")
    changed = json.loads(put(body, find_values(body, "model"), value), object_pairs_hook=list)
    before = json.loads(body, object_pairs_hook=list)
    assert changed == [(key, value if key == "model" and isinstance(old, str) else old) for key, old in before]
    assert JsonStringRewriter(value, ("model",)).apply(body) == put(body, find_values(body, "model"), value)


@given(st.lists(members(), min_size=2, max_size=4))
def test_a_renamer_replaces_every_value_behind_a_remembered_prefix_too(
    frames: list[list[tuple[str, Any, str]]],
) -> None:
    renamer = JsonStringRewriter("new", ("model",))
    renamer.apply(b'{"model":"old"}')
    for frame in frames:
        data = ("{" + ",".join(['"model":"old"', *(formatted for _, _, formatted in frame)]) + "}").encode(
            "utf-8", "surrogatepass"
        )
        for key, value in json.loads(renamer.apply(data), object_pairs_hook=list):
            assert key != "model" or not isinstance(value, str) or value == "new"


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"model":"a","model":"b"}', "model"),
        (b'{"model":"a","mod\\u0065l":"b"}', "model"),
        (b'{"\\u006dodel":"a","x":[{"model":"c"}],"model":"b"}', "model"),
        (b'{"stream":true,"model":"a","stream":false}', "stream"),
        (b'{"model":"a","x":{"model":"b"},"messages":[{"model":"c"},"model"]}', None),
        (b'{"model":"a","x":"\\",\\"model\\":\\"b"}', None),
        (b'{"model":"a"}', None),
        (b" { } ", None),
    ],
)
def test_keys_that_are_repeated(body: bytes, key: str | None) -> None:
    assert repeated_key(body, orjson.loads(body)) == key


def test_many_repeated_keys_are_replaced() -> None:
    data = b"{" + b",".join([b'"model":"a"'] * 200_000) + b"}"
    assert put(data, find_values(data, "model"), "b") == data.replace(b'"a"', b'"b"')


@given(bodies(), st.sampled_from(("a", "model", "mode")))
def test_drop_null_removes_a_null_at_the_top_level_only(body: bytes, key: str) -> None:
    expected = orjson.loads(body)
    if expected.get(key, 0) is None:
        del expected[key]
        assert orjson.loads(drop_null(body, key)) == expected
    else:
        assert drop_null(body, key) is body


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":1,"u":null}', b'{"a":1}'),
        (b'{"a": 1, "u": null, "b": 2}', b'{"a": 1, "b": 2}'),
        (b'{"u": null, "b": 2}', b'{"b": 2}'),
        (b'{"u":null}', b"{}"),
        (b'{"a":{"u":null}}', b'{"a":{"u":null}}'),
        (b'{"u":null,"u":null}', b'{"u":null,"u":null}'),
        (b"[]", b"[]"),
    ],
)
def test_drop_null_removes_one_comma(data: bytes, expected: bytes) -> None:
    assert drop_null(data, "u") == expected


@given(bodies(), st.sampled_from(("a", "model", "mode")))
def test_find_member_agrees_with_a_parser(body: bytes, key: str) -> None:
    start = find_member(body, key)
    assert (start is not None) == (key in orjson.loads(body))
    if start is not None:
        assert not body[start : start + 1].isspace()


# --- members of an object ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "values", "omit", "edited"),
    [
        (b'{"a":1.50,"b":[2e0, 3]}', {}, ("b",), (b'{"a":1.50}', ["b"], [])),
        (b' { "a" : 1.50 , "b" : {"a":"}"} } ', {}, ("a",), (b'{"b" : {"a":"}"}}', ["a"], [])),
        (b'{"a":1,"b":2}', {}, ("a", "b"), (b"{}", ["a", "b"], [])),
        (b'{"a":1}', {"b": b"[1]"}, (), (b'{"a":1,"b":[1]}', [], [])),
        (b"{}", {"b": b"1", "c": b'"x"'}, (), (b'{"b":1,"c":"x"}', [], [])),
        (b'{"a":1,"b":2}', {"a": b"3"}, (), (b'{"a":3,"b":2}', [], ["a"])),
        (b'{"a" : 1 ,"b":2}', {"a": b"1"}, (), (b'{"a" : 1 ,"b":2}', [], [])),
        (b'{"a" : 1 ,"b":2}', {"a": b"1"}, ("b",), (b'{"a":1}', ["b"], [])),
        (b'{"a":{"b":1}}', {}, ("b",), (b'{"a":{"b":1}}', [], [])),
        (b'{"\\u0061":1,"b":2}', {}, ("a",), (b'{"b":2}', ["a"], [])),
        (b'{"a":"\\"},","b":2}', {"c": b"1"}, ("b",), (b'{"a":"\\"},","c":1}', ["b"], [])),
        (b'{"a":12345678901234567890.10}', {"b": b"1"}, (), (b'{"a":12345678901234567890.10,"b":1}', [], [])),
        (b'{"a":1}', {}, ("b",), (b'{"a":1}', [], [])),
        (b"[]", {"a": b"1"}, (), (b"[]", [], [])),
    ],
)
def test_members_are_put_and_left_out(
    data: bytes, values: dict[str, bytes], omit: tuple[str, ...], edited: tuple[bytes, list[str], list[str]]
) -> None:
    assert edit_members(data, values, omit) == EditedObject(*edited)


@given(bodies(), st.dictionaries(_keys, _values, max_size=3), st.lists(_keys, max_size=3))
def test_an_edited_object_has_what_a_parser_expects(data: bytes, put_: dict[str, Any], omit: list[str]) -> None:
    put_ = {name: value for name, value in put_.items() if name not in omit}
    expected = {name: value for name, value in json.loads(data).items() if name not in omit} | put_
    edited = edit_members(data, {name: json.dumps(value).encode() for name, value in put_.items()}, omit)
    assert json.loads(edited.data) == expected
    assert set(edited.omitted) == json.loads(data).keys() & set(omit)
    assert set(edited.replaced) <= json.loads(data).keys() & put_.keys()
