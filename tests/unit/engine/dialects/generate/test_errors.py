from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_response
from dragoman.dialects.generate.errors import is_error
from dragoman.errors import FailureKind
from dragoman.wire.json_codec import dumps
from support.generate import chunk

OVERLOADED: dict[str, Any] = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


def test_an_error() -> None:
    assert is_error(OVERLOADED)
    assert is_error({**chunk(["x"]), **OVERLOADED})
    assert is_error({"message": "no", "code": "bad", "type": "error"})  # of a relay


@pytest.mark.parametrize("reply", [chunk([]), {"promptFeedback": {"blockReason": "SAFETY"}}, {"responseId": "x"}, {}])
def test_no_error(reply: dict[str, Any]) -> None:
    assert not is_error(reply)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (503, OVERLOADED["error"], FailureKind.OVERLOADED),
        (
            400,
            {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]},
            FailureKind.AUTHENTICATION,
        ),
        (403, {"code": 403, "details": [{"reason": "BILLING_DISABLED"}]}, FailureKind.BILLING),
        (
            400,
            {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            },
            FailureKind.CONTEXT_LENGTH,
        ),
        (404, {"code": 404, "status": "NOT_FOUND"}, FailureKind.NOT_FOUND),
    ],
)
@pytest.mark.parametrize("array", [False, True])
def test_an_error_response(status: int, error: dict[str, Any], kind: FailureKind, array: bool) -> None:
    body = {"error": error}
    failure = read_error_response(status, dumps([body] if array else body), {}, Dialect.GENERATE)
    assert failure.kind is kind
