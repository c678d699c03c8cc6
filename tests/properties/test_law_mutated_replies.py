"""Law: no whole reply and no error of an upstream, however mutated, raises anything but a documented error."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, DragomanError
from support.directions import ALL, judge, profiles, translated
from support.mutations import mutated_json
from support.samples import read_error
from support.whole_forms import both_forms

ERRORS: dict[Dialect, tuple[Any, ...]] = {
    Dialect.CHAT: (
        {"error": {"message": "no", "type": "invalid_request_error", "param": "messages", "code": "context_length"}},
        {"error": {"message": "maximum context length is 8 tokens, you requested 9", "code": 400, "metadata": {}}},
        {"message": "no", "detail": [{"loc": ["body"], "msg": "bad"}]},
    ),
    Dialect.MESSAGES: ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "r"},),
    Dialect.RESPONSES: (
        {"error": {"message": "no", "type": "server_error", "param": None, "code": "rate_limit_exceeded"}},
    ),
}
ERRORS[Dialect.GENERATE] = (
    {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}},
    {
        "error": {
            "code": 429,
            "message": "slow down",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}],
        }
    },
    [{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}],
)
STATUSES = st.sampled_from((400, 401, 404, 413, 418, 429, 500, 529))
HEADERS = {"retry-after": "2", "x-ratelimit-remaining-requests": "9", "anthropic-ratelimit-tokens-reset": "soon"}


@pytest.mark.few
@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data())
def test_a_mutated_reply_is_translated_or_refused(row: Direction, data: st.DataObject) -> None:
    _, whole = data.draw(both_forms(row))
    body = json.dumps(data.draw(mutated_json(json.loads(whole)))).encode()
    note(body.decode())
    profile = data.draw(profiles)
    with suppress(DragomanError):
        assert type(json.loads(translated(row, profile=profile, stream=False).reply(body))) is dict
    with suppress(DragomanError):
        replayed = translated(row, profile=profile).replay(body)
        note(replayed.decode())
        if not row.passthrough:
            judge(row.client.dialect, replayed)


@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data(), status=STATUSES)
def test_a_mutated_error_is_an_error_of_the_client(row: Direction, data: st.DataObject, status: int) -> None:
    body = json.dumps(data.draw(mutated_json(data.draw(st.sampled_from(ERRORS[row.upstream.dialect]))))).encode()
    note(body.decode())
    translation = translated(row, profile=data.draw(profiles))
    response = translation.error(status, body, HEADERS, now=1_790_000_000.0)
    assert response.status >= 400
    if not row.passthrough:
        read_error(row.client.dialect, response.body)
