"""The programs of the how-tos on embedding run, and do what their pages promise."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman import Dialect
from dragoman_server.simulator import REQUESTS
from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator
from support.asgi import asgi_server
from support.paths import ROOT
from support.samples import text_stream
from support.sockets import Abort, Close, ScriptedServer, Send, Stall, Step, answer, chunk, sse_head
from support.waiting import until

HOWTO = ROOT / "docs/howto"
BODY = {"model": "claude-sonnet-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello!"}]}


def program(page: str) -> dict[str, Any]:
    """The names of a page's Python program, run as a module that is not the main one."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (HOWTO / page).read_text("utf-8"), re.DOTALL | re.MULTILINE))
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, page, "exec"), names)
    return names


async def test_an_application_with_its_own_users() -> None:
    example = program("embed-with-own-users.md")
    simulators = {"shared": strict_simulator(), "own": strict_simulator()}
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(example["SCHEMA"])
        async with contextlib.AsyncExitStack() as stack:
            urls = {
                name: await stack.enter_async_context(listening(simulator, "127.0.0.1", 0, drain=0.5))
                for name, simulator in simulators.items()
            }
            database.executemany(
                "insert into users values (?, ?, ?, ?, ?)",
                [
                    ("key-of-ada", "ada", 1_000_000, None, None),
                    ("key-of-bob", "bob", 1_000_000, f"{urls['own']}/v1", "sk-of-bob"),
                    ("key-of-eve", "eve", 0, None, None),
                ],
            )
            app: web.Application = example["make_app"](database, f"{urls['shared']}/v1")
            url = await stack.enter_async_context(listening(app, "127.0.0.1", 0, drain=0.5))
            session = await stack.enter_async_context(ClientSession())

            async def post(key: str, **fields: Any) -> tuple[int, str]:
                headers = {"x-api-key": key}
                async with session.post(f"{url}/llm/v1/messages", json=BODY | fields, headers=headers) as response:
                    return response.status, await response.text()

            async def bill(user: str) -> int:
                async with session.get(f"{url}/bill/{user}") as response:
                    tokens: int = (await response.json())["tokens"]
                    return tokens

            status, text = await post("key-of-ada")
            assert (status, "You said: Hello!" in text) == (200, True)
            after_one = await bill("ada")
            assert after_one > 0
            status, text = await post("key-of-ada", stream=True)
            assert (status, "message_stop" in text) == (200, True)
            await until(lambda: database.execute("select count(*) from usage").fetchone()[0] == 2)
            assert await bill("ada") > after_one
            assert await bill("bob") == 0
            assert (await post("key-of-bob", model="sim-text"))[0] == 200
            assert await bill("bob") > 0
            status, text = await post("key-of-eve")
            assert (status, '"rate_limit_error"' in text) == (429, True)
            assert "your tokens of today are used up" in text
            status, text = await post("no key of ours")
            assert (status, '"authentication_error"' in text) == (401, True)
    assert [(each.body["model"]) for each in simulators["shared"][REQUESTS] if each.method == "POST"] == [
        "sim-text"
    ] * 2
    (own,) = (each for each in simulators["own"][REQUESTS] if each.body)
    assert own.headers["authorization"] == "Bearer sk-of-bob"


async def test_the_gateway_in_starlette() -> None:
    simulator = strict_simulator()
    async with listening(simulator, "127.0.0.1", 0, drain=0.5) as upstream:
        app = program("embed-in-starlette.md")["make_app"](f"{upstream}/v1")
        async with asgi_server(app) as url, ClientSession() as session:
            async with session.get(url) as response:
                assert await response.text() == "the application itself\n"
            async with session.post(f"{url}/llm/v1/messages", json=BODY | {"stream": True}) as response:
                assert (await response.text()).endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')


async def test_the_engine_in_starlette() -> None:
    example = program("translate-in-starlette.md")
    simulator = strict_simulator()
    async with (
        listening(simulator, "127.0.0.1", 0, drain=0.5) as upstream,
        asgi_server(example["make_app"](f"{upstream}/v1", "sim-text", "sk-of-the-page")) as url,
        ClientSession() as session,
    ):

        async def post(**fields: Any) -> tuple[int, str, str]:
            async with session.post(f"{url}/v1/messages", json=BODY | fields) as response:
                return response.status, response.content_type, await response.text()

        status, kind, text = await post()
        assert (status, kind) == (200, "application/json")
        assert json.loads(text)["content"][0]["text"].startswith("You said: Hello!")
        status, kind, text = await post(stream=True)
        assert (status, kind) == (200, "text/event-stream")
        assert text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
        status, _, text = await post(max_tokens="many")
        assert (status, json.loads(text)["error"]["type"]) == (400, "invalid_request_error")
    sent = [each for each in simulator[REQUESTS] if each.body]
    assert [each.body["model"] for each in sent] == ["sim-text"] * 2
    assert sent[0].headers["authorization"] == "Bearer sk-of-the-page"


@pytest.mark.parametrize(
    ("script", "status", "ended"),
    [
        ([*answer(429, b'{"error":{"message":"slow down","type":"rate_limit_error"}}')], 429, '"rate_limit_error"'),
        ([Close()], 502, "the upstream connection failed"),
        ([Send(sse_head()), Send(chunk(text_stream(Dialect.CHAT)[0])), Abort()], 200, "event: error"),
    ],
    ids=["status", "connection", "stream"],
)
async def test_failures_of_the_upstream_in_starlette(script: list[Step], status: int, ended: str) -> None:
    make_app = program("translate-in-starlette.md")["make_app"]
    async with (
        ScriptedServer(script) as upstream,
        asgi_server(make_app(f"{upstream.url}/v1", "m", "sk-of-the-page")) as url,
        ClientSession() as session,
        session.post(f"{url}/v1/messages", json=BODY | {"stream": True}) as response,
    ):
        text = await response.text()
        assert (response.status, ended in text) == (status, True), text


async def test_a_client_that_leaves_starlette_cuts_the_upstream() -> None:
    pytest.importorskip("starlette")
    begun = b"".join(text_stream(Dialect.CHAT)[:2])
    async with (
        ScriptedServer([Send(sse_head()), Send(chunk(begun)), Stall()]) as upstream,
        asgi_server(
            program("translate-in-starlette.md")["make_app"](f"{upstream.url}/v1", "m", "sk-of-the-page")
        ) as url,
        ClientSession() as session,
    ):
        async with session.post(f"{url}/v1/messages", json=BODY | {"stream": True}) as response:
            assert b"message_start" in await response.content.readany()
            response.close()
        await until(lambda: upstream.hangups == 1)
