"""Law: a key that a reader does not know, at any level of a reply, arrives at the client or is one row.

The key is added to each object of replies that have every construct: whole, in each frame of a stream, and in each
error. All nine directions are tried; those within one dialect as they are where a reply is read and written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Set
from typing import Any

import pytest

from dragoman import Direction, Knobs, LossCode, Translation, UpstreamError, builtin_profile
from dragoman.dialects import Dialect
from dragoman.dialects.directions import DIRECTIONS
from support.full_replies import ERRORS, FREE, HOSTED, NATIVE, STREAMS, WHOLE, as_stream

Json = dict[str, Any]
Where = tuple[str | int, ...]
KEY, MARK = "zz_unknown", "an unknown value"
ROWS = [*DIRECTIONS.values()]
EXPECTED = {"container", "content_filter_results", "context_management", "cost_details", "input_transformations"}
EXPECTED |= {"iterations", "prompt_filter_results", "refusal", "tool_usage", "cost", "logprobs", "content"}
"""The last steps of the paths that are recorded without an added key."""


def objects(value: Any, whole: Set[str] = NATIVE, at: Where = ()) -> Iterator[Where]:
    """The places of the objects that are read: not those of types in `whole`."""
    if type(value) is dict and value.get("type") not in whole:
        yield at
        for key, inner in value.items():
            if key not in FREE:
                yield from objects(inner, whole, (*at, key))
    elif type(value) is list:
        for index, inner in enumerate(value):
            yield from objects(inner, whole, (*at, index))


def put(value: Any, at: Where, key: str = KEY, mark: Any = MARK) -> Any:
    """The value with a key in the object at `at`."""
    copy = json.loads(json.dumps(value))  # not `deepcopy`, which keeps objects shared
    inner = copy
    for step in at:
        inner = inner[step]
    inner[key] = mark
    return copy


def translation(row: Direction) -> Translation:
    made = Translation.for_reply(row, "up", profile=builtin_profile(row.upstream.dialect), knobs=Knobs())
    if row.passthrough:
        made.rewritten, made.context.same_dialect, made.context.names = True, True, {"sent": "declared"}
    return made


def rows_of(made: Translation) -> list[str]:
    return [loss.path for loss in made.losses.rows if loss.path.endswith(KEY)]


def played(row: Direction, frames: list[Json], size: int = 1 << 20) -> tuple[bytes, Translation]:
    made = translation(row)
    machine, data = made.stream_machine(), as_stream(row.upstream.dialect, frames)
    return b"".join(machine.feed(data[at : at + size]) for at in range(0, len(data), size)) + machine.finish(), made


def whole(row: Direction, body: Json) -> tuple[bytes, Translation]:
    made = translation(row)
    return made.reply(json.dumps(body).encode()), made


def streamed(row: Direction, frames: list[Json]) -> tuple[bytes, Translation]:
    out, made = played(row, frames)
    assert made.failure is None, made.failure
    return out, made


def joined(row: Direction, frames: list[Json]) -> tuple[bytes, Translation]:
    """A stream for a client that requested a whole reply."""
    made = translation(row)
    return made.reply(as_stream(row.upstream.dialect, frames)), made


def split(row: Direction, body: Json) -> tuple[bytes, Translation]:
    """A whole reply for a client that requested a stream."""
    made = translation(row)
    return made.replay(json.dumps(body).encode()), made


FORMS: list[tuple[Callable[..., tuple[bytes, Translation]], dict[Dialect, Any]]] = [
    (whole, WHOLE),
    (streamed, STREAMS),
    (joined, STREAMS),
    (split, WHOLE),
]


def lost(row: Direction, way: Any, body: Any) -> list[Any]:
    """The places of a reply at which a key is neither carried nor one row, or both."""
    found = []
    for at in objects(body, HOSTED if row.passthrough else NATIVE):
        out, made = way(row, put(body, at))
        rows, carried = rows_of(made), MARK.encode() in out
        if len(rows) + carried != 1 and not _is_repeated(row, body, at):
            found.append((at, rows, carried))
    return found


def _is_repeated(row: Direction, body: Any, at: Where) -> bool:
    """True for a citation that a later event of a stream repeats, within Responses: the first one is passed on."""
    return row.passthrough and type(body) is list and "annotations" in at


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_replies_have_no_unknown_key(row: Direction) -> None:
    for way, bodies in FORMS:
        for body in bodies[row.upstream.dialect]:
            _, made = way(row, body)
            paths = [loss.path for loss in made.losses.rows if loss.code is LossCode.UNKNOWN_FIELD]
            assert {path.rpartition(".")[2] for path in paths} <= EXPECTED


@pytest.mark.few
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0].__name__)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_unknown_key_is_lost_silently(row: Direction, form: Any) -> None:
    way, bodies = form
    assert [found for body in bodies[row.upstream.dialect] for found in lost(row, way, body)] == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_unknown_key_of_an_error_is_lost_silently(row: Direction) -> None:
    for frame in ERRORS[row.upstream.dialect]:
        read = [at for at in objects([frame]) if "raw" not in at and at[-1] != "response"]
        for at in read:
            out, made = played(row, put([frame], at))
            assert made.failure is not None
            assert (at, len(rows_of(made)), MARK.encode() in out) == (at, 1, False)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_unknown_key_of_an_error_response_is_lost_silently(row: Direction) -> None:
    body = next(frame for frame in ERRORS[row.upstream.dialect] if "error" in frame)
    for status in (400, 200):
        for at in objects(body):
            made = translation(row)
            data = json.dumps(put(body, at)).encode()
            if status == 400:
                out = made.error(status, data, {}).body
            else:
                with pytest.raises(UpstreamError) as caught:
                    made.reply(data)
                out = made.error_of(caught.value.failure).body
            assert (at, len(rows_of(made)) + (MARK.encode() in out)) == (at, 1)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_key_in_every_frame_is_one_row_for_each_path_however_the_stream_is_split(row: Direction) -> None:
    frames = [{**frame, KEY: MARK} for frame in STREAMS[row.upstream.dialect][0]]
    (_, once), (_, pieces) = played(row, frames), played(row, frames, 7)
    found = rows_of(once)
    assert found
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(rows_of(pieces))


@pytest.mark.parametrize("empty", [None, "", [], {}, 0, False])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_unknown_key_without_a_value_is_no_loss(row: Direction, empty: Any) -> None:
    for body in WHOLE[row.upstream.dialect]:
        for at in objects(body):
            assert rows_of(whole(row, put(body, at, mark=empty))[1]) == []


@pytest.mark.few
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_rows_are_bounded(row: Direction) -> None:
    body = {**WHOLE[row.upstream.dialect][0], **{f"zz_{number}": 1 for number in range(20_000)}}
    _, made = whole(row, body)
    assert len(made.losses.rows) <= made.losses.keep
    assert len(made.losses) <= made.losses.keep + 10
