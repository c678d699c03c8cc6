"""The data that steps read and write: the way of a request, and the use of stored responses."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

from dragoman import ClientRequestError
from dragoman.gateway import StoredReply
from dragoman.threads import StoredRequest
from dragoman_server.draft import StoredTurn
from support.scopes import drafted


async def test_a_form_is_sent_as_an_upload() -> None:
    transport, call, timers, upload = AsyncMock(), object(), object(), object()
    draft: Any = drafted()
    draft.transport, draft.call = transport, call
    await draft.send(timers)
    transport.open.assert_awaited_once_with(call, timers)
    draft.upload = upload
    await draft.send(timers)
    transport.open_upload.assert_awaited_once_with(call, upload, timers)


def test_an_error_names_the_place_in_the_clients_own_request() -> None:
    payload = {"model": "m", "input": [{"role": "user", "content": 7}], "previous_response_id": "resp_1"}
    request = StoredRequest.read(payload)
    assert request is not None
    for turn, path in (
        (StoredTurn(StoredReply({}), request, 2), "input[0].content"),
        (StoredTurn(StoredReply({})), "input[2].content"),
    ):
        error = ClientRequestError(("input", 2, "content"), "expected a string")
        turn.relocate(error)
        assert error.failure.param == path
