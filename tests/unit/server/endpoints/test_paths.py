"""The table of paths, and endpoints whose modules are imported at their first request."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from dragoman_server.endpoints import model_list
from dragoman_server.endpoints.paths import TABLE, TREE, LazyEndpoints


class _Endpoints:
    def __init__(self, gateway: list[object]) -> None:
        gateway.append(self)

    async def get(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"get {request.path}")

    async def list(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"list {request.path}")


async def test_the_endpoints_are_created_once_at_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_list, "ModelList", _Endpoints)
    created: Any = []
    lazy = LazyEndpoints(created)
    handlers = [lazy.endpoint(f"model_list:ModelList.{method}") for method in ("get", "list")]
    assert not created
    texts = []
    for handler in (*handlers, *handlers):
        response = await handler(make_mocked_request("GET", "/path"))
        assert isinstance(response, web.Response)
        texts.append(response.text)
    assert texts == ["get /path", "list /path"] * 2
    assert len(created) == 1


@pytest.mark.parametrize("name", sorted({name for _, _, name in (TREE, *TABLE)}))
def test_each_endpoint_of_the_table_exists(name: str) -> None:
    owner, _, method = name.rpartition(".")
    assert inspect.iscoroutinefunction(getattr(LazyEndpoints(Mock()).get(owner), method))
