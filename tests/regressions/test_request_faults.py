"""Codes of a failed response that mean a fault of the request: clients must not repeat it."""

from __future__ import annotations

import pytest

from dragoman import Knobs, direction
from dragoman.dialects.responses.errors import DOCUMENTED
from dragoman.errors import FailureKind, UpstreamStatusError
from oracles.grammar import sse
from regressions.repaired import replied
from regressions.wire import CHAT, MESSAGES
from support import responses_frames as emitted
from support.directions import error_of, stream_through, translated
from support.responses_samples import numbered

RESPONSES = "responses"
OTHERS = {"server_error", "rate_limit_exceeded", "vector_store_timeout"}
FAULTS = sorted(DOCUMENTED - OTHERS)
TYPES = {CHAT: "type", MESSAGES: "type", RESPONSES: "code"}


def failed(code: str) -> dict[str, object]:
    return emitted.response("failed", error={"code": code, "message": "Bad."})


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_the_request_is_a_400(client: str, code: str) -> None:
    with pytest.raises(UpstreamStatusError, match="Bad") as caught:
        replied(client, RESPONSES, failed(code))
    translation = translated(direction(client, RESPONSES))
    assert translation.error_of(caught.value.failure).status == 400


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_the_request_in_a_stream_is_an_invalid_request(client: str, code: str) -> None:
    translation = translated(direction(client, RESPONSES))
    frames = numbered(emitted.created(), {"type": "response.failed", "response": failed(code)})
    errors = [error_of(client, item) for item in sse.split(stream_through(translation, frames))]
    assert next(error for error in errors if error)["type"] == "invalid_request_error"


@pytest.mark.parametrize("knobs", [Knobs(), Knobs(error_codes="codex")], ids=["documented", "codex"])
def test_a_client_of_responses_does_not_repeat_an_invalid_request(knobs: Knobs) -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"Bad."}}\n\n'
    translation = translated(direction(RESPONSES, MESSAGES), knobs=knobs)
    errors = [error_of(RESPONSES, item) for item in sse.split(stream_through(translation, [error]))]
    assert next(found for found in errors if found)["code"] == "invalid_prompt"
    assert translation.failure is not None
    assert translation.failure.kind is FailureKind.INVALID_REQUEST
