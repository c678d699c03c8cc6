"""Reply headers between dialects (mapping §10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.errors.headers import failure_headers, reply_headers, request_id

C, M, R = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
NOW = 1_795_255_200.0  # 2026-11-21T10:00:00Z
CROSS = [(C, M), (R, M), (M, C), (M, R)]


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in Dialect for b in Dialect])
def test_T78_retry_headers_pass_in_every_direction(source: Dialect, target: Dialect) -> None:
    sent = {"Retry-After": "7", "Retry-After-Ms": "6500", "X-Should-Retry": "false"}
    got = reply_headers(source, target, sent, now=NOW)
    assert got == {"retry-after": "7", "retry-after-ms": "6500", "x-should-retry": "false"}
    date = {"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}
    assert reply_headers(source, target, date, now=NOW) == date


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in Dialect for b in Dialect])
def test_nothing_else_ever_passes(source: Dialect, target: Dialect) -> None:
    sent = {
        "Connection": "keep-alive",
        "Keep-Alive": "timeout=5",
        "Transfer-Encoding": "chunked",
        "Upgrade": "h2c",
        "Trailer": "x",
        "TE": "trailers",
        "Proxy-Authenticate": "Basic",
        "Set-Cookie": "__cf_bm=secret",
        "Content-Length": "5",
        "Content-Encoding": "gzip",
        "Content-Type": "application/json",
        "Server": "cloudflare",
        "Date": "now",
        "Alt-Svc": "h3",
        "x-api-key": "k",
        "x-anything": "y",
    }
    assert reply_headers(source, target, sent, now=NOW) == {}


@pytest.mark.parametrize(("source", "target"), [(C, C), (C, R), (R, C), (R, R)])
def test_openai_headers_are_forwarded_as_they_are(source: Dialect, target: Dialect) -> None:
    sent = {
        "x-request-id": "req_1",
        "openai-processing-ms": "120",
        "openai-organization": "org",
        "openai-version": "2020-10-01",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-ratelimit-limit-project-tokens": "5",
    }
    assert reply_headers(source, target, sent, now=NOW) == sent


def test_messages_headers_are_forwarded_as_they_are() -> None:
    sent = {
        "request-id": "req_1",
        "anthropic-organization-id": "org",
        "anthropic-workspace-id": "ws",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-21T10:00:01Z",
        "anthropic-ratelimit-unified-status": "allowed",
    }
    assert reply_headers(M, M, sent, now=NOW) == sent


@pytest.mark.parametrize(("source", "target"), CROSS)
def test_request_ids_change_their_name(source: Dialect, target: Dialect) -> None:
    theirs, ours = ("request-id", "x-request-id") if source is M else ("x-request-id", "request-id")
    sent = {theirs: "req_1", "openai-organization": "org", "anthropic-organization-id": "org"}
    assert reply_headers(source, target, sent, now=NOW) == {ours: "req_1"}


def test_request_id_falls_back_to_the_other_name() -> None:
    assert request_id(M, {"X-Request-Id": "a"}) == "a"
    assert request_id(M, {"X-Request-Id": "a", "Request-Id": "b"}) == "b"
    assert request_id(C, {"X-Request-Id": "a", "Request-Id": "b"}) == "a"
    assert request_id(C, {"x-request-id": "a\r\nset-cookie: b"}) is None


def test_T78_rate_limits_to_messages() -> None:
    sent = {
        "X-RateLimit-Limit-Requests": "10000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-tokens": "1999000",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-ratelimit-limit": "5",
    }
    assert reply_headers(C, M, sent, now=NOW) == {
        "anthropic-ratelimit-requests-limit": "10000",
        "anthropic-ratelimit-requests-remaining": "9999",
        "anthropic-ratelimit-requests-reset": "2026-11-21T10:00:01Z",
        "anthropic-ratelimit-tokens-limit": "2000000",
        "anthropic-ratelimit-tokens-remaining": "1999000",
        "anthropic-ratelimit-tokens-reset": "2026-11-21T10:06:00Z",
    }


def test_T78_rate_limits_to_openai() -> None:
    sent = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-21T10:06:00Z",
        "anthropic-ratelimit-tokens-reset": "2026-11-21T12:00:01+01:00",
        "anthropic-ratelimit-input-tokens-limit": "7",
    }
    assert reply_headers(M, C, sent, now=NOW) == {
        "x-ratelimit-limit-requests": "50",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-reset-tokens": "1h0m1s",
    }


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in CLIENT_DIALECTS for b in CLIENT_DIALECTS])
def test_rate_limits_can_be_left_out(source: Dialect, target: Dialect) -> None:
    limits = {
        "x-ratelimit-remaining-tokens": "5",
        "x-ratelimit-other": "x",
        "anthropic-ratelimit-tokens-remaining": "5",
        "anthropic-ratelimit-unified-status": "x",
    }
    kept = {"retry-after": "3", source.request_id_header: "req_1"}
    expected = {"retry-after": "3", target.request_id_header: "req_1"}
    assert reply_headers(source, target, kept | limits, now=NOW, rate_limits=False) == expected


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("0s", "10:00:00"),
        ("1s", "10:00:01"),
        ("7.66s", "10:00:08"),
        ("2m59.56s", "10:03:00"),
        ("1h2m3s", "11:02:03"),
        ("30", "10:00:30"),
        ("1795255260", "10:01:00"),
        ("1795255260000", "10:01:00"),
        ("2026-11-21T10:00:09Z", "10:00:09"),
        ("soon", None),
        ("", None),
        ("-5s", None),
        ("6m 0s", None),
        ("s6m", None),
        ("1s" * 32, "10:00:32"),
        ("1s" * 33, None),
        ("999999999999999h", None),
    ],
)
def test_durations_become_times(value: str, time: str | None) -> None:
    got = reply_headers(C, M, {"x-ratelimit-reset-tokens": value}, now=NOW)
    assert got == ({"anthropic-ratelimit-tokens-reset": f"2026-11-21T{time}Z"} if time else {})


@pytest.mark.parametrize(
    ("value", "duration"),
    [
        ("2026-11-21T10:00:00Z", "0s"),
        ("2026-11-21T09:00:00Z", "0s"),
        ("2026-11-21T10:00:00.120Z", "120ms"),
        ("2026-11-21T10:00:01.5Z", "2s"),
        ("2026-11-21T10:01:00Z", "1m0s"),
        ("2026-11-22T11:00:00Z", "25h0m0s"),
        ("2026-11-21T10:00:05", "5s"),
        ("6m0s", None),
        ("never", None),
    ],
)
def test_times_become_durations(value: str, duration: str | None) -> None:
    got = reply_headers(M, R, {"anthropic-ratelimit-tokens-reset": value}, now=NOW)
    assert got == ({"x-ratelimit-reset-tokens": duration} if duration else {})


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "", "１２"])
def test_counts_that_are_none_are_left_out(value: str) -> None:
    assert reply_headers(C, M, {"x-ratelimit-limit-tokens": value}, now=NOW) == {}


@pytest.mark.parametrize(("source", "target"), [(C, C), (C, M)])
def test_a_header_that_comes_twice_does_not_shift_the_others(source: Dialect, target: Dialect) -> None:
    sent = CIMultiDict([("Set-Cookie", "__cf_bm=secret"), ("set-cookie", "_cfuvid=secret"), ("x-request-id", "req_1")])
    assert reply_headers(source, target, sent, now=NOW) == {target.request_id_header: "req_1"}


@pytest.mark.parametrize(("source", "target"), [(C, C), (C, M)])
def test_the_last_of_several_headers_of_one_name_passes(source: Dialect, target: Dialect) -> None:
    sent = CIMultiDict([("x-request-id", "req_1"), ("server", "x"), ("X-Request-Id", "req_2"), ("retry-after", "7")])
    expected = {target.request_id_header: "req_2", "retry-after": "7"}
    assert reply_headers(source, target, sent, now=NOW) == expected


def test_line_breaks_never_pass() -> None:
    sent = {"retry-after": "1\r\nset-cookie: a=b", "x-request-id": "a\nb"}
    assert reply_headers(C, C, sent, now=NOW) == {}
    assert failure_headers(sent) == {}


@given(st.integers(0, 10**7))
def test_durations_survive_the_round_trip(seconds: int) -> None:
    there = reply_headers(C, M, {"x-ratelimit-reset-tokens": f"{seconds}s"}, now=NOW)
    back = reply_headers(M, C, there, now=NOW)
    again = reply_headers(C, M, back, now=NOW)
    assert again == there != {}


@given(st.text(max_size=40), st.sampled_from(CROSS))
def test_any_value_is_survived(value: str, direction: tuple[Dialect, Dialect]) -> None:
    sent = {"x-ratelimit-reset-tokens": value, "anthropic-ratelimit-tokens-reset": value}
    for noted in reply_headers(*direction, sent, now=NOW).values():
        assert noted.isascii()


def test_many_names_are_shown_as_few_are() -> None:
    sent = {f"X-RateLimit-{'long' * 20}-{number}": str(number) for number in range(600)}
    sent |= {f"X-Other-{number}": "no" for number in range(600)}
    for _ in range(2):
        got = reply_headers(C, C, sent | {"X-Request-Id": "req_1"}, now=NOW)
        assert got == {k.lower(): v for k, v in sent.items() if v != "no"} | {"x-request-id": "req_1"}


CODEX = {
    "x-codex-turn-state": "t1",
    "x-codex-primary-used-percent": "3",
    "openai-model": "gpt-5.6",
    "x-models-etag": "e",
    "x-reasoning-included": "true",
}


@pytest.mark.parametrize("source", Dialect)
@pytest.mark.parametrize("target", Dialect)
def test_the_headers_that_codex_reads_pass_between_two_responses_sides_only(source: Dialect, target: Dialect) -> None:
    passed = reply_headers(source, target, CODEX, now=0.0)
    both = source is target is Dialect.RESPONSES
    assert dict(passed) == (CODEX if both else {})
