"""Servers' own words for an error and for a stop, as their documentation or their code has them."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from dragoman.canonical.events import StopReason
from dragoman.dialects import Dialect
from dragoman.dialects.chat.stop_and_usage import read_finish_reason
from dragoman.dialects.errors import codes
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.openai.error_envelope import write_failure
from dragoman.errors import Failure, FailureKind

K = FailureKind


def in_band(**error: object) -> Failure:
    return read_error_payload({"error": {"message": "no", **error}}, Dialect.CHAT)


def test_no_word_has_two_meanings() -> None:
    rows = (*codes._OPENAI, *codes._ANTHROPIC, *codes._OTHERS)
    words = Counter(word for _, _, row in rows for word in row.split())
    assert words.most_common(1)[0][1] == 1
    assert all(word == word.lower() for word in words)


@pytest.mark.parametrize(
    ("word", "kind", "status"),
    [
        ("organization_spend_limit_exceeded", K.BILLING, 429),
        ("server_overloaded", K.OVERLOADED, 503),
        ("permission_denied_error", K.PERMISSION, 403),
        ("resource_not_found_error", K.NOT_FOUND, 404),
        ("Throttling.RateQuota", K.RATE_LIMIT, 429),
        ("throttling_error", K.RATE_LIMIT, 429),
        ("auth_error", K.AUTHENTICATION, 401),
        ("budget_exceeded", K.BILLING, 429),
        ("unavailable_error", K.OVERLOADED, 503),
        ("Service Unavailable", K.OVERLOADED, 503),
        ("what nobody says", K.API, 502),
    ],
)
def test_a_word_inside_a_stream_reports_kind_and_status(word: str, kind: FailureKind, status: int) -> None:
    for failure in (in_band(type=word), in_band(code=word)):
        assert (failure.kind, failure.status) == (kind, status)


def test_openrouter_reports_its_word_in_the_metadata() -> None:
    """openrouter.ai/docs/client-sdks/python/components/apierrortype; `code` is the HTTP status."""
    failure = in_band(code=503, metadata={"error_type": "provider_overloaded"})
    assert (failure.kind, failure.status, failure.native_type) == (K.OVERLOADED, 503, "provider_overloaded")
    odd = in_band(code=500, metadata={"error_type": "payment_required"})
    assert odd.kind is K.BILLING
    assert in_band(code=503, metadata=["error_type"]).kind is K.OVERLOADED
    own = in_band(type="timeout", metadata={"error_type": "server"})
    assert (own.kind, own.native_type) == (K.TIMEOUT, "timeout")


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        # DashScope answers an account in arrears with a 400, which no agent should send again with other words.
        (400, {"code": "Arrearage", "message": "Access denied."}, K.BILLING),
        (400, {"code": "DataInspectionFailed", "message": "inappropriate content"}, K.POLICY),
        # LiteLLM puts its exception's name before whatever the model's server stated.
        (400, {"type": "None", "code": "400", "message": "litellm.ContextWindowExceededError: no"}, K.CONTEXT_LENGTH),
        (400, {"type": "None", "code": "400", "message": "litellm.BadRequestError: no"}, K.INVALID_REQUEST),
        (429, {"type": "engine_overloaded_error", "message": "busy"}, K.RATE_LIMIT),
    ],
)
def test_a_word_beside_a_status(status: int, error: dict[str, str], kind: FailureKind) -> None:
    failure = read_error_response(status, orjson.dumps({"error": error}), {}, Dialect.CHAT)
    assert (failure.kind, failure.status) == (kind, status)
    assert write_failure(failure)[0] in (status, 402)


def test_glm_states_that_the_window_is_full_in_messages_words() -> None:
    """anomalyco/opencode#18814: taken for an unknown end, an agent went on for ever."""
    assert read_finish_reason("model_context_window_exceeded") is StopReason.CONTEXT
