"""Endpoints whose modules are imported at their first request."""

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from dragoman_server.endpoints.lazy_endpoints import LazyEndpoints


class _Endpoints:
    async def get(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"get {request.path}")

    async def list(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"list {request.path}")


async def test_the_endpoints_are_created_once_at_the_first_request() -> None:
    created: list[_Endpoints] = []

    def create() -> _Endpoints:
        created.append(_Endpoints())
        return created[-1]

    lazy = LazyEndpoints(create)
    handlers = lazy.endpoint(lambda it: it.get), lazy.endpoint(lambda it: it.list)
    assert not created
    texts = []
    for handler in (*handlers, *handlers):
        response = await handler(make_mocked_request("GET", "/path"))
        assert isinstance(response, web.Response)
        texts.append(response.text)
    assert texts == ["get /path", "list /path"] * 2
    assert len(created) == 1
