"""The table of routes: every endpoint rejects a request without a valid key, apart from those that are listed here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.app import make_app, setup
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.config.schema import Config
from dragoman_server.proxy.gateway import Gateway
from support.gateways import config_for, served
from support.named_keys import keyed, made
from support.sockets import ScriptedServer, answer

OPEN = dict.fromkeys(("/", "/health", "/ready", "/ui", "/ui/"), ("GET", "HEAD"))
"""The paths that need no key, with their methods.

Most are for balancers, and reveal only whether the gateway runs. Those of the console are its page without any data.
"""
UNKNOWN = ("/{path}", "/ui/{name}")
"""The routes of all paths that do not exist."""
_VARIABLE = re.compile(r"\{[^{}]*\}")


def endpoints(app: web.Application) -> Iterator[tuple[str, str]]:
    """The methods and paths of all routes. Variables in paths stay as they are."""
    for route in app.router.routes():
        assert route.resource is not None
        for method in ("GET", "POST", "PUT", "DELETE") if route.method == "*" else (route.method,):
            yield method, route.resource.canonical


def configurations(url: str) -> list[tuple[Config, str]]:
    """Configurations with a key each, and a wrong key that differs from it by its last letter."""
    key, record = made()
    return [
        (config_for(url, Dialect.CHAT, keys=("the-only-key",)), "the-only-kez"),
        (keyed(url, Dialect.CHAT, record), key[:-1] + ("a" if key[-1] != "a" else "b")),
    ]


async def check(session: ClientSession, url: str, method: str, path: str, prefix: str, forged: str) -> str:
    """Send a request without a key, and some with a wrong key. Returns what the endpoint needs."""
    target = url + _VARIABLE.sub("x", path)
    found = set()
    for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "drg_" + "0" * 40}, {"x-api-key": forged}):
        async with session.request(method, target, json={"model": "m"}, headers=headers) as response:
            found.add(response.status)
    if method in OPEN.get(path.removeprefix(prefix), ()):
        assert found == {200}, (method, path, found)
        return "nothing"
    if path.removeprefix(prefix) in UNKNOWN:
        assert found <= {404, 405}, (method, path, found)
        return "unknown"
    assert found == {401}, f"{method} {path} answers {found} without a key"
    return "key"


@pytest.mark.parametrize("mounted", [False, True])
async def test_every_endpoint_needs_a_key(mounted: bool) -> None:
    async with ScriptedServer(answer(200, b"{}")) as upstream, ClientSession() as session:
        for config, forged in configurations(upstream.url):
            config = replace(config, server=replace(config.server, cors_origins=("https://page.example",), ui=True))
            if mounted:
                app, prefix = web.Application(), "/llm"
                setup(app, config, prefix=prefix)
            else:
                app, prefix = make_app(config, gateway=Gateway(config)), ""
            needs: dict[str, set[str]] = {}
            async with served(app) as (url, _):
                for method, path in endpoints(app):
                    if method != "OPTIONS":  # a preflight has no key; it gets no data
                        needs.setdefault(await check(session, url, method, path, prefix, forged), set()).add(path)
            assert {f"{prefix}/v1/{path}" for path in FORWARDED} < needs["key"]
            assert {
                f"{prefix}/ui/api/{path}" for path in ("live", "health", "history", "about", "record", "explain")
            } < needs["key"]
            assert len(needs["key"]) > 60, "the table was not walked"
        assert not upstream.requests
