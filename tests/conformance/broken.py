"""The judges of replies that fail: before their first byte, in the middle, or by ending without an end.

An SDK that reads to the end without an exception takes what it has for the whole answer (T-20, T-22, T-23). Only
Responses has an event for it, `response.failed`, after which its helper refuses to give a final response.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from conformance.rounds import Round
from conformance.served import RETRY_AFTER
from conformance.speaker import Trouble

ANSWER = "Hello, here"
HALF = '{"path":"notes'


class ReportedError(NamedTuple):
    """The error that a client must receive."""

    raised: str
    status: int
    type: str
    code: str | None = None


_OVERLOADED = ReportedError("InternalServerError", 503, "service_unavailable_error", "server_is_overloaded")
OPENAI: dict[str, ReportedError] = {
    "sim-error-429": ReportedError("RateLimitError", 429, "rate_limit_error", "rate_limit_exceeded"),
    "sim-error-401": ReportedError("InternalServerError", 502, "server_error", "upstream_credential"),
    "sim-error-400-context": ReportedError("BadRequestError", 400, "invalid_request_error", "context_length_exceeded"),
    "sim-error-503": _OVERLOADED,
    "sim-error-529": _OVERLOADED,
}
_TOO_MUCH = ReportedError("OverloadedError", 529, "overloaded_error")
ANTHROPIC: dict[str, ReportedError] = {
    "sim-error-429": ReportedError("RateLimitError", 429, "rate_limit_error"),
    "sim-error-401": ReportedError("InternalServerError", 502, "api_error"),
    "sim-error-400-context": ReportedError("BadRequestError", 400, "invalid_request_error"),
    "sim-error-503": _TOO_MUCH,
    "sim-error-529": _TOO_MUCH,
}
BY_CLIENT = {"chat": OPENAI, "messages": ANTHROPIC, "responses": OPENAI}


def _reported(trouble: Trouble) -> tuple[str, int | None, str | None, str | None]:
    return trouble.raised, trouble.status, trouble.type, trouble.code


def before(r: Round) -> None:
    """Status, envelope and exception are the client's own; the words, the id and the wait are the upstream's."""
    trouble = r.received.trouble
    assert trouble is not None
    assert _reported(trouble) == BY_CLIENT[r.client][r.script]
    assert r.received.text == ""
    # Google's replies have no id in a header: the gateway's own takes its place.
    assert (trouble.request_id or "").startswith("req_" if r.upstream == "generate" else "req_sim")
    waits = r.script in ("sim-error-429", "sim-error-503", "sim-error-529")
    assert trouble.retry_after == (str(RETRY_AFTER) if waits else None), "T-78: without it agents retry for ever"
    if r.script != "sim-error-401":  # about the gateway's own key
        assert f"simulated-{r.upstream}" not in trouble.message, "the words are the upstream's alone"
    if r.script == "sim-error-400-context" and r.client == "messages":
        assert trouble.message.startswith("prompt is too long"), "Claude Code compacts on these words"
    assert len(r.bodies) == (2 if r.streamed else 1), "one request for each of the two ways to read a stream: no retry"


def _broken(r: Round, kind: str) -> None:
    """In the stream: what was stated before it stays, the error follows, and nothing ends as if it were whole."""
    received, trouble = r.received, r.received.trouble
    assert trouble is not None
    assert trouble.status is None
    assert trouble.message
    if r.client == "messages":
        assert trouble.type == {"overloaded": "overloaded_error", "broken": "api_error"}[kind]
    else:
        if r.client == "chat":
            assert trouble.type == {"overloaded": "service_unavailable_error", "broken": "server_error"}[kind]
        if r.client == "responses" or kind == "overloaded":
            # The API's schema of a failed response has no code for it; what passes through keeps the upstream's.
            typed = r.client == "responses" and not r.same
            assert trouble.code == ("server_is_overloaded" if kind == "overloaded" and not typed else "server_error")
    assert received.finish is None
    assert received.text == ANSWER
    if "tools" in r.script and r.upstream != "generate":  # whose calls come whole
        [call] = received.calls
        assert call.arguments == HALF, "what the model had said, and no bracket more"
        with pytest.raises(json.JSONDecodeError):
            json.loads(call.arguments)
    else:
        assert received.calls == []


def inside(r: Round) -> None:
    """The upstream reports its failure in the middle."""
    if r.streamed:
        _broken(r, "overloaded")
        return
    trouble = r.received.trouble
    assert trouble is not None
    if r.client == r.upstream == "responses":
        assert (trouble.raised, trouble.code) == ("failed", "server_is_overloaded")
    else:
        assert _reported(trouble) == (_TOO_MUCH if r.client == "messages" else _OVERLOADED)


def cut(r: Round) -> None:
    """The connection ends, or the stream does without its terminal event."""
    if r.streamed:
        _broken(r, "broken")
    else:
        _bad_gateway(r)


def _bad_gateway(r: Round) -> None:
    trouble = r.received.trouble
    assert trouble is not None
    assert (trouble.raised, trouble.status) == ("InternalServerError", 502)
    assert trouble.type == ("api_error" if r.client == "messages" else "server_error")


def reset(r: Round) -> None:
    """A reset may destroy what was sent before it: then it is a 502 instead of an error in the stream."""
    assert r.received.trouble is not None
    if r.streamed and r.received.trouble.status is None:
        assert r.received.trouble.raised != "APIConnectionError", "told in words, not by a dead socket"
        assert ANSWER.startswith(r.received.text)
        assert r.received.finish is None
    else:
        _bad_gateway(r)
