"""Secrets in the messages of upstreams are masked."""

import json
from functools import partial
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.errors.redact import MESSAGE_MAX, redact
from dragoman.errors import (
    Failure,
)

read_failure = partial(read_error_response, dialect=Dialect.CHAT)
read_error_frame = partial(read_error_payload, dialect=Dialect.CHAT)


def answer(status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_failure(status, raw, headers or {})


def error(message: str = "m", type: str | None = None, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Incorrect API key provided: sk-proj-abcdefghijkl1234. Find it", "abcdefghijkl1234"),
        ("Incorrect API key provided: sk-a*b*c*d*e*f*wxyz.", "wxyz"),
        ("Incorrect API key provided: my-own-secret. Find it", "my-own-secret"),
        ("bad header Authorization: Bearer abc123def456", "abc123def456"),
        ('{"authorization":"Basic dXNlcjpwYXNzd29yZA=="}', "dXNlcjpwYXNzd29yZA"),
        ("x-api-key: 0123456789abcdef is unknown", "0123456789abcdef"),
        ("GET https://host/v1?key=AIzaSyA1234567890abcdefghijk&x=1 failed", "SyA1234567890"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl refused", "eyJzdWIiOiIxIn0"),
        ("key gsk_abcdefghijklmnop invalid", "abcdefghijklmnop"),
        ("sk-ant-api03-AAAA_bbbb-cccc invalid", "AAAA_bbbb"),
    ],
)
def test_secrets_in_messages_are_masked(text: str, secret: str) -> None:
    for failure in (answer(401, error(text)), answer(401, text.encode()), read_error_frame(error(text))):
        assert secret not in failure.message
        assert "***" in failure.message


def test_public_parameters_of_a_url_stay() -> None:
    url = "https://host/v1beta/models/m:streamGenerateContent?alt=sse"
    assert redact(f"POST {url} failed") == f"POST {url} failed"
    url = "https://host/openai?api-version=2026-03-01-preview&beta=true&x;alt=json"
    assert redact(url) == url
    assert redact("https://host/?alt=secret&beta=secret&api-version=secret&alt=sse=secret#a=secret") == (
        "https://host/?alt=***&beta=***&api-version=***&alt=***#a=***"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Bearer token is missing",
        "You didn't provide an API key. Pass it as Authorization: Bearer YOUR_KEY",
        "the risk-management task-scheduler failed",
        "Rate limit reached for gpt-6 in organization org-abc on tokens per min. Please try again in 6s.",
        "messages: at least one message is required — überall",
    ],
)
def test_ordinary_words_are_not_masked(text: str) -> None:
    assert answer(401, error(text)).message == text


def test_long_messages_are_cut() -> None:
    for body in (error("x" * 1_000_000), b"y" * 1_000_000):
        message = answer(500, body).message
        assert len(message) == MESSAGE_MAX
        assert message.endswith("…")


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-********************abcd. You can find your API key at the console.",
        "Incorrect API key provided: xa***yz. You can obtain an API key from the console.",
        "Authentication Fails, Your api key: ****b2a3 is invalid",
        "Incorrect API key provided: sk-ab***********wxyz.",
    ],
)
def test_a_key_that_the_vendor_masked_stays(text: str) -> None:
    assert redact(text) == text


def test_the_full_stop_behind_a_key_stays() -> None:
    assert redact("Incorrect API key provided: sk-abcdef1234567890. Go on.").endswith("provided: sk-***. Go on.")
    assert redact("Incorrect API key provided: my-own-secret. Go on.").endswith("provided: ***. Go on.")


@pytest.mark.parametrize("key", ["sk-abc***" + "d" * 20, "sk-" + "a" * 20 + "***b", "sk-a**bcdefghijk"])
def test_stars_in_a_key_do_not_unmask_it(key: str) -> None:
    assert key not in redact(f"Incorrect API key provided: {key}.")
