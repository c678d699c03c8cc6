from __future__ import annotations

from typing import Any

import pytest

from dragoman import builtin_profile
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.directions import direction
from dragoman.dialects.errors.google_details import read_details
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.translation import Translation
from dragoman.wire.json_codec import dumps

RPC = "type.googleapis.com/google.rpc."
RETRY = {"@type": RPC + "RetryInfo", "retryDelay": "34.4s"}
MINUTE = {"@type": RPC + "QuotaFailure", "violations": [{"quotaId": "RequestsPerMinutePerProject"}]}
DAY = {"@type": RPC + "QuotaFailure", "violations": [{"quotaId": "RequestsPerDayPerProject"}]}
FIELD = {"@type": RPC + "BadRequest", "fieldViolations": [{"field": "generation_config.temperature"}]}


def error(*details: Any) -> dict[str, Any]:
    return {"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": list(details)}}


def test_when_to_retry() -> None:
    wait = {"retry-after": "35", "retry-after-ms": "34400"}
    assert read_details([RETRY, MINUTE]).headers == wait
    assert read_error_response(429, dumps(error(MINUTE, RETRY)), {}, Dialect.CHAT).headers == wait
    assert read_error_payload(error(RETRY), Dialect.CHAT).headers == wait


def test_a_model_without_a_quota_is_not_tried_again() -> None:
    message = "Quota exceeded for metric: requests, limit: 0, model: gemini-3-pro. Please retry in 34.4s."
    none = {"error": {**error(MINUTE, RETRY)["error"], "message": message}}
    assert read_error_payload(none, Dialect.GENERATE).headers == {"x-should-retry": "false"}
    assert read_details([RETRY], "limit: 0.5 of 10").headers == read_details([RETRY], None).headers


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
def test_when_to_retry_reaches_the_client(client: Dialect, upstream: Dialect) -> None:
    def headers(body: Any, **stated: str) -> dict[str, str]:
        way, profile = direction(client, upstream), builtin_profile(upstream)
        return (
            Translation.for_reply(way, "m", profile=profile, knobs=DEFAULT_KNOBS)
            .error(429, dumps(body), stated)
            .headers
        )

    assert headers(error(RETRY)).items() >= {"retry-after": "35", "retry-after-ms": "34400"}.items()
    assert headers(error(RETRY), **{"retry-after": "3"})["retry-after"] == "3"
    daily = headers(error(DAY, RETRY))
    assert daily["x-should-retry"] == "false"
    assert "retry-after" not in daily


def test_a_header_of_the_response_wins() -> None:
    failure = read_error_response(429, dumps(error(RETRY)), {"Retry-After": "3"}, Dialect.CHAT)
    assert failure.headers == {"retry-after": "3", "retry-after-ms": "34400"}


def test_no_retry_within_a_daily_quota() -> None:
    assert read_details([DAY, RETRY]).headers == {"x-should-retry": "false"}


def test_the_field_and_the_reason() -> None:
    found = read_details([FIELD, {"@type": RPC + "ErrorInfo", "reason": "API_KEY_INVALID"}, {"reason": "SOME_OTHER"}])
    assert (found.param, found.reason) == ("temperature", "API_KEY_INVALID")
    assert read_error_response(400, dumps(error(FIELD)), {}, Dialect.CHAT).param == "temperature"


@pytest.mark.parametrize(
    "entry",
    [
        {"@type": RPC + "RetryInfo", "retryDelay": "soon"},
        {"@type": RPC + "RetryInfo", "retryDelay": 3},
        {"@type": RPC + "QuotaFailure", "violations": "x"},
        {"@type": RPC + "BadRequest", "fieldViolations": [None, {"field": 1}]},
    ],
)
def test_what_does_not_fit_is_ignored(entry: dict[str, Any]) -> None:
    assert read_details([entry]) == (None, None, {}, False)


@pytest.mark.parametrize("details", [["x"], [{"@type": RPC + "New"}], [RETRY] * 9])
def test_other_details_are_unread(details: list[Any]) -> None:
    assert read_details(details).unread
    assert "error.details" in read_error_response(429, dumps(error(*details)), {}, Dialect.CHAT).unread
