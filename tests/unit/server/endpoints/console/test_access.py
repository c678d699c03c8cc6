"""Access to the console: an admin's key, or this machine without keys; never another page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from dragoman_server.app import setup
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.access import check_access
from dragoman_server.observability.exchange_record import Principal
from dragoman_server.proxy.gateway import Gateway
from support.gateways import CHAT, config_for, gate, raw_exchange, served
from support.named_keys import keyed, made

DATA = "/ui/api/exchanges"
EVIL = "https://evil.example"


def with_ui(config: Config | None = None, **server: Any) -> Config:
    config = config or config_for("http://127.0.0.1:9/v1", CHAT)
    return replace(config, server=replace(config.server, ui=True, **server))


async def status(port: int, *lines: str, host: str | None = None, path: str = DATA, method: str = "GET") -> int:
    host = host or f"127.0.0.1:{port}"
    head = "\r\n".join([f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", *lines, "\r\n"])
    return int((await raw_exchange(port, head.encode()))[9:12])


async def test_off_by_default() -> None:
    async with gate(config_for("http://127.0.0.1:9/v1", CHAT)) as up:
        assert await status(up.port) == 404
        assert await status(up.port, path="/ui/") == 404


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), 200),
        (("sec-fetch-site: same-origin",), 200),
        ((f"origin: {EVIL}",), 403),
        (("origin: null",), 403),
        (("sec-fetch-site: cross-site",), 403),
        (("sec-fetch-site: same-site",), 403),
        (("sec-fetch-site: same-origin", f"origin: {EVIL}"), 403),
        (("x-forwarded-for: 10.0.0.9",), 403),
        (("forwarded: for=10.0.0.9",), 403),
    ],
)
async def test_without_keys_only_this_machine_and_the_own_page(lines: tuple[str, ...], expected: int) -> None:
    async with gate(with_ui()) as up:
        assert await status(up.port, *lines) == expected


@pytest.mark.parametrize("host", ["evil.example", "x", "10.0.0.1:80"])
async def test_without_keys_a_name_must_be_a_loopback_name(host: str) -> None:
    """`x` is one of `server.allowed_hosts`, for which the other endpoints answer."""
    async with gate(with_ui()) as up:
        assert await status(up.port, host=host) == 403
        assert await status(up.port, host="localhost") == 200
        assert await status(up.port, host="me.localhost:1") == 200


async def test_pages_that_may_use_the_gateway_may_not_use_the_console() -> None:
    async with gate(with_ui(cors_origins=(EVIL,))) as up:
        assert await status(up.port, f"origin: {EVIL}", path="/v1/models") == 200
        assert await status(up.port, f"origin: {EVIL}") == 403
        assert await status(up.port, f"origin: {EVIL}", method="OPTIONS") == 405
        async with up.session.get(f"{up.url}/ui/", headers={"origin": EVIL}) as response:
            assert "access-control-allow-origin" not in response.headers


async def test_a_key_is_needed_if_there_are_keys() -> None:
    key, plain = made("alice")
    admin_key, admin = made("root", admin=True)
    async with gate(with_ui(keyed("http://127.0.0.1:9/v1", CHAT, plain, admin, keys=("the-key",)))) as up:
        assert await status(up.port) == 401
        assert await status(up.port, "x-api-key: wrong") == 401
        assert await status(up.port, f"x-api-key: {key}") == 403
        assert await status(up.port, f"x-api-key: {admin_key}") == 200
        assert await status(up.port, "authorization: Bearer the-key") == 200
        assert await status(up.port, "x-api-key: the-key", host="console.example") == 200
        assert await status(up.port, "x-api-key: the-key", f"origin: {EVIL}") == 403
        assert await status(up.port, path="/ui/") == 200, "the page asks for the key"


@pytest.mark.parametrize("admin", [False, True])
async def test_of_an_application_with_users_only_admins_may_use_it(admin: bool) -> None:
    async def authorize(_: web.Request) -> Principal[Any]:
        return Principal("u", admin=admin)

    app = web.Application()
    setup(app, with_ui(), prefix="/llm", authorize=authorize)
    async with served(app) as (url, _):
        port = int(url.rpartition(":")[2])
        assert await status(port, path=f"/llm{DATA}") == (200 if admin else 403)
        assert await status(port, path="/llm/ui/") == 200


async def test_a_request_of_another_machine_is_refused_without_keys() -> None:
    """A request whose connection does not come from a loopback address."""

    class Transport:
        def get_extra_info(self, name: str) -> object:
            return ("10.0.0.9", 1) if name == "peername" else ("10.0.0.1", 80)

    class Request:
        method, path, transport, headers = "GET", DATA, Transport(), {"host": "localhost"}

    request: Any = Request()
    with pytest.raises(Exception, match="only on its own machine"):
        await check_access(Gateway(with_ui()).services, request)
