"""Errors of a Responses stream, with codes that clients know."""

from __future__ import annotations

import json

import pytest
from openai.types.responses import Response

from dragoman import Failure, Knobs, direction, translate
from dragoman.dialects.openai.error_envelope import error_object
from dragoman.dialects.responses.errors import response_error
from dragoman.errors import FailureKind
from dragoman.gateway import ReplyOptions
from dragoman.stages.passthrough import Passthrough
from dragoman.wire.sse import encode

QUOTA = "insufficient_quota"


@pytest.mark.parametrize(
    ("kind", "code", "whole", "codex", "documented"),
    [
        (FailureKind.BILLING, "credit_balance_exhausted", "credit_balance_exhausted", QUOTA, "rate_limit_exceeded"),
        (FailureKind.BILLING, "usage_not_included", "usage_not_included", "usage_not_included", "rate_limit_exceeded"),
        (FailureKind.BILLING, "billing_error", QUOTA, QUOTA, "rate_limit_exceeded"),
        (FailureKind.BILLING, None, QUOTA, QUOTA, "rate_limit_exceeded"),
        (FailureKind.OVERLOADED, "slow_down", "slow_down", "slow_down", "server_error"),
        (FailureKind.OVERLOADED, None, "server_is_overloaded", "server_is_overloaded", "server_error"),
        (FailureKind.CONTEXT_LENGTH, None, "context_length_exceeded", "context_length_exceeded", "invalid_prompt"),
        (FailureKind.POLICY, "cyber_policy", "cyber_policy", "cyber_policy", "invalid_prompt"),
        (FailureKind.POLICY, "bio_policy", "bio_policy", "bio_policy", "bio_policy"),
        (FailureKind.API, "slow_down", "slow_down", "server_error", "server_error"),
        (FailureKind.INVALID_REQUEST, "invalid_image", "invalid_image", "invalid_prompt", "invalid_image"),
        (FailureKind.INVALID_REQUEST, None, None, "invalid_prompt", "invalid_prompt"),
    ],
)
def test_codes_that_clients_know_stay_between_the_openai_dialects(
    kind: FailureKind, code: str | None, whole: str | None, codex: str, documented: str
) -> None:
    failure = Failure(kind, "no", 429, code=code)
    assert error_object(failure)["code"] == whole
    assert response_error(failure, Knobs(error_codes="codex"))["code"] == codex
    assert response_error(failure)["code"] == documented


@pytest.mark.parametrize("kind", FailureKind)
@pytest.mark.parametrize("code", [None, "slow_down", "server_is_overloaded", "odd", "insufficient_quota"])
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_a_strictly_typed_client_can_parse_every_failure(kind: FailureKind, code: str | None, upstream: str) -> None:
    """In a translated stream, and in one that passes through and ends in an error of our own."""
    body = b'{"model":"m","input":"Hi","stream":true}'
    translation = translate(direction("responses", upstream), body, options=ReplyOptions(request_id="req_1"))
    out = translation.error_stream(Failure(kind, "no", 429, code=code))
    if upstream == "responses":
        stage = translation.stages()
        assert isinstance(stage, Passthrough)
        out = encode(stage.observer.error_frame(Failure(kind, "no", 429, code=code)))
    Response.model_validate(json.loads(out.rsplit(b"data: ", 1)[1])["response"], strict=True)
