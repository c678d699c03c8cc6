"""The fields of errors in bodies of any form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.errors.fields import ErrorFields, find_error, hint, parse_body, plain_text, reports_error, unwrap


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, ("m", "t", "c", None)),
        ({"error": {"message": "m", "type": "error", "code": 429}}, ("m", None, None, 429)),
        ({"error": "invalid_client", "error_description": "who"}, ("who", "invalid_client", None, None)),
        ({"message": "slow", "__type": "ThrottlingException"}, ("slow", "ThrottlingException", None, None)),
        ([{"error": {"message": "m", "status": "INVALID_ARGUMENT"}}], ("m", "INVALID_ARGUMENT", None, None)),
        ({"detail": {"error": {"message": "m", "status_code": "503"}}}, ("m", None, None, 503)),
        ({"message": "m", "details": {"error_code": "c"}}, ("m", None, "c", None)),
    ],
)
def test_an_error_is_found_in_any_form(body: Any, found: tuple[str, str | None, str | None, int | None]) -> None:
    fields = find_error(body)
    assert fields is not None
    assert (fields.message, fields.type, fields.code, fields.status) == found


@pytest.mark.parametrize(
    "body", [None, 7, "text", {}, {"choices": []}, {"error": None}, [], [[[[[[[{"error": "m"}]]]]]]]]
)
def test_nothing_else_is_an_error(body: Any) -> None:
    assert find_error(body) is None


@pytest.mark.parametrize(
    ("payload", "is_error"),
    [
        ({"error": {}}, False),
        ({"errors": [{}]}, True),
        ({"message": "m", "code": 400}, True),
        ({"message": "m", "code": 200}, False),
        ({"message": "m", "type": "BadRequestError"}, True),
        ({"message": "m", "type": "message"}, False),
        ([{}, {"detail": "d"}], True),
    ],
)
def test_a_message_is_an_error_if_it_has_a_class(payload: Any, is_error: bool) -> None:
    assert reports_error(payload) is is_error


def test_an_error_within_the_message_takes_its_place() -> None:
    inner = json.dumps({"error": {"message": "too many", "type": "rate_limit_error", "code": "r"}})
    fields = ErrorFields(f"provider answered [{inner}]", "outer", status=500)
    unwrap(fields)
    assert (fields.message, fields.type, fields.code) == ("provider answered too many", "rate_limit_error", "r")


def test_what_stands_for_a_message() -> None:
    assert hint(ErrorFields(code="c", type="t")) == " (c)"
    assert hint(ErrorFields(status=503)) == " (503)"
    assert hint(ErrorFields()) == ""


def test_bodies_that_are_not_json() -> None:
    assert parse_body(b'event: error\ndata: {"a":1}\n\n') == {"a": 1}
    assert parse_body(b"<html>") is None
    assert plain_text(b"<html><title> Bad\n gateway </title><p>x") == "Bad gateway"
    assert plain_text(bytes(range(128, 160))) == ""
