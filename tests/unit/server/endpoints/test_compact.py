"""`POST /v1/responses/compact`; its compaction is in unit/server/proxy/test_compaction.py."""

from __future__ import annotations

from unittest.mock import AsyncMock, Mock

from aiohttp.test_utils import make_mocked_request

from dragoman.dialects import Dialect
from dragoman_server.endpoints.compact import CompactEndpoint
from dragoman_server.proxy.request_keys import COMPACT


async def test_a_marked_request_of_the_responses_api() -> None:
    gateway, request = Mock(), make_mocked_request("POST", "/v1/responses/compact")
    gateway.handler.answer = AsyncMock(return_value="response")
    assert await CompactEndpoint(gateway).post(request) == "response"
    gateway.handler.answer.assert_awaited_once_with(request, Dialect.RESPONSES)
    assert request[COMPACT]
