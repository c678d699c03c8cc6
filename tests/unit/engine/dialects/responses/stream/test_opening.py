"""The first two events of a Responses stream, compared as bytes."""

from __future__ import annotations

import pytest

from dragoman.dialects.responses.stream.opening import is_repeated, response_of

CREATED = b'{"type":"response.created","sequence_number":0,"response":{"id":"r"}}'
REPEATED = b'{"type":"response.in_progress","sequence_number":1,"response":{"id":"r"}}'


def test_the_response_of_created_is_found_in_the_next_event() -> None:
    response = response_of(CREATED)
    assert response == b'"id":"r"}}'
    assert is_repeated(REPEATED, response)


@pytest.mark.parametrize(
    "created", [REPEATED, CREATED[1:], CREATED.replace(b":0", b": 0"), CREATED.replace(b'{"id":"r"}', b"null")]
)
def test_other_forms_are_not_known(created: bytes) -> None:
    assert response_of(created) is None


@pytest.mark.parametrize(
    "data",
    [
        CREATED,
        REPEATED.replace(b'"r"', b'"s"'),
        REPEATED.replace(b'"id"', b'"x":1,"id"'),
        REPEATED.replace(b":1", b":01"),
        REPEATED.replace(b":1", b":2"),
        REPEATED.replace(b":1", b':1,"error":{}'),
        REPEATED[:-1],
        REPEATED + b"}",
    ],
)
def test_other_events_are_not_repetitions(data: bytes) -> None:
    assert not is_repeated(data, b'"id":"r"}}')
