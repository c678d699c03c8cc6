"""The gateway as an ASGI application: under uvicorn, mounted in Starlette, used by the official SDKs."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from conformance.judges import CHAT_TOOLS, HI, MESSAGES_TOOLS
from conformance.served import anthropic_sdk, openai_sdk
from dragoman import Dialect, DragomanError
from dragoman.aio import Timeouts
from dragoman_server import Config, ConfigError, ExchangeRecord, Secret, asgi, make_app
from dragoman_server.config import WebSocketOptions
from dragoman_server.config.load import simulated_config
from dragoman_server.simulator import REQUESTS, STREAMS
from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator
from support.asgi import Call, asgi_server, body, http_scope, websocket_scope
from support.gateways import config_for, with_limits
from support.paths import ROOT
from support.samples import PATHS, chat_frame, dump, reply, request, text_stream
from support.sockets import LAST_CHUNK, Abort, ScriptedServer, Send, Stall, Step, answer, chunk, sse_head
from support.waiting import turns, until

UPSTREAMS = ("chat", "messages", "responses")
JSON = {"content-type": "application/json"}
HEADERS = [(b"host", b"x"), (b"content-type", b"application/json")]


@asynccontextmanager
async def simulated() -> AsyncIterator[tuple[Config, Any]]:
    """A configuration whose model names choose a script of the simulated upstream, and that upstream."""
    simulator = strict_simulator()
    async with listening(simulator, "127.0.0.1", 0, drain=0.5) as url:
        yield simulated_config().with_simulator(url), simulator


def streamed(dialect: Dialect) -> list[Step]:
    return [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(dialect)), Send(LAST_CHUNK)]


@pytest.fixture(params=["alone", "mounted", "with-middleware"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, Any]]:
    """The gateway under uvicorn: its base URL without `/v1`, and the upstream."""
    async with simulated() as (config, simulator):
        gateway = asgi.app(config)
        application: Any = gateway
        if request.param != "alone":
            middleware = [Middleware(BaseHTTPMiddleware, dispatch=_mark)] if request.param == "with-middleware" else []
            application = Starlette(
                routes=[Mount("/llm", gateway), Route("/", _hello)], lifespan=gateway.lifespan, middleware=middleware
            )
        async with asgi_server(application) as url:
            yield (url if request.param == "alone" else f"{url}/llm"), simulator


async def _hello(_: Request) -> Response:
    return PlainTextResponse("the application itself")


async def _mark(request: Request, call_next: Any) -> Response:
    response: Response = await call_next(request)
    response.headers["x-of-the-application"] = "1"
    return response


# --- the official SDKs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_anthropic_sdk(served: tuple[str, Any], upstream: str) -> None:
    async with anthropic_sdk(served[0]) as client:
        asked: Any = {"model": f"{upstream}/sim-tools", "max_tokens": 64, "messages": HI, "tools": MESSAGES_TOOLS}
        async with client.messages.stream(**asked) as stream:
            final: Any = await stream.get_final_message()
        whole: Any = await client.messages.create(**asked)
        assert final.stop_reason == whole.stop_reason == "tool_use"
        calls = [[block.input for block in each.content if block.type == "tool_use"] for each in (final, whole)]
        assert calls[0] == calls[1]
        assert calls[0]
        counted = await client.messages.count_tokens(model=f"{upstream}/sim-text", messages=HI)
        assert counted.input_tokens > 0
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**(asked | {"model": f"{upstream}/sim-error-429"}))
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(**(asked | {"max_tokens": -1}))


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_openai_sdk_with_chat_completions(served: tuple[str, Any], upstream: str) -> None:
    async with openai_sdk(served[0]) as client:
        asked: Any = {"model": f"{upstream}/sim-tools", "messages": HI, "tools": CHAT_TOOLS}
        async with client.chat.completions.stream(**asked) as stream:
            final = await stream.get_final_completion()
        whole = await client.chat.completions.create(**asked)
        for each in (final, whole):
            assert each.choices[0].finish_reason == "tool_calls"
            assert each.choices[0].message.tool_calls
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(**(asked | {"model": f"{upstream}/sim-error-429"}))
        assert (await client.models.list()).object == "list"


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_openai_sdk_with_responses(served: tuple[str, Any], upstream: str) -> None:
    async with openai_sdk(served[0]) as client:
        asked: Any = {"model": f"{upstream}/sim-text", "input": "Hi", "store": False}
        async with client.responses.stream(**asked) as stream:
            final = await stream.get_final_response()
        whole = await client.responses.create(**asked)
        assert final.output_text == whole.output_text
        assert final.output_text
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(**(asked | {"model": f"{upstream}/sim-error-429"}))


async def test_openai_sdk_over_a_websocket(served: tuple[str, Any]) -> None:
    async with openai_sdk(served[0]) as client, client.responses.connect() as connection:
        for _ in range(2):
            await connection.response.create(model="chat/sim-text", input="Hi", store=False)
            kinds = []
            async for event in connection:
                kinds.append(event.type)
                if event.type == "response.completed":
                    break
            assert kinds[0] == "response.created"
            assert "response.output_text.delta" in kinds


async def test_uploads_are_forwarded(served: tuple[str, Any]) -> None:
    data = os.urandom(1 << 20)
    async with openai_sdk(served[0]) as client:
        await client.audio.transcriptions.create(model="chat/sim-text", file=("a.wav", data))
        await client.embeddings.create(model="chat/sim-text", input="Hi")
    assert [each.path for each in served[1][REQUESTS]][-2:] == ["/v1/audio/transcriptions", "/v1/embeddings"]


# --- the other endpoints --------------------------------------------------------------------------------------------


async def test_every_endpoint_answers_as_under_the_own_server() -> None:
    """Same status, body and headers, but for ids, times and those that the server of each adds."""
    async with simulated() as (config, _):
        config = replace(config, server=replace(config.server, ui=True))
        async with (
            listening(make_app(config), "127.0.0.1", 0, drain=0.5) as own,
            asgi_server(asgi.app(config)) as other,
            aiohttp.ClientSession() as session,
        ):
            chat = {"model": "chat/sim-text", "messages": HI}
            messages = {"model": "chat/sim-text", "max_tokens": 9, "messages": HI}
            for method, path, sent in (
                ("GET", "/health", None),
                ("HEAD", "/health", None),
                ("HEAD", "/", None),
                ("GET", "/ready", None),
                ("GET", "/v1/models", None),
                ("GET", "/v1/models/chat%2Fsim-text", None),
                ("GET", "/metrics", None),
                ("GET", "/ui/", None),
                ("GET", "/v1/responses", None),
                ("GET", "/v1/dragoman/captures", None),
                ("GET", "/v1/dragoman/receipts/req_none", None),
                ("DELETE", "/v1/responses/resp_1", None),
                ("POST", "/v1/dragoman/explain", messages),
                ("POST", "/v1/messages/count_tokens?beta=true", messages),
                ("POST", "/v1/responses/input_tokens", {"model": "chat/sim-text", "input": "Hi"}),
                ("POST", "//v1/chat/completions", chat),
                ("POST", "/v1/chat/completions/", chat | {"stream": True}),
                ("POST", "/v1/chat/completions", {}),
                ("POST", "/nowhere", {}),
                ("PUT", "/v1/messages", {}),
            ):
                found = []
                for url in (own, other):
                    async with session.request(method, url + path, json=sent) as response:
                        length = len(await response.read()) if "ui" not in path and path != "/metrics" else 0
                        names = {name.lower() for name in response.headers} - {"connection", "content-length"}
                        found.append((response.status, response.content_type, sorted(names), length > 0))
                assert found[0] == found[1], (method, path)


async def test_an_unknown_path_is_named_as_the_client_knows_it(served: tuple[str, Any]) -> None:
    root = "/llm" if served[0].endswith("/llm") else ""
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{served[0]}/messages", json={}) as response:
            assert response.status == 404
            message = (await response.json())["error"]["message"]
        assert message.startswith(f"there is no {root}/messages here, but {root}/v1/messages: the base URL")
        async with session.get(f"{served[0]}/v1/messages") as response:
            assert response.status == 405
            message = (await response.json())["error"]["message"]
        assert message == f"GET is not allowed on {root}/v1/messages; allowed: POST"


async def test_the_console_and_the_receipt(served: tuple[str, Any]) -> None:
    async with aiohttp.ClientSession() as session:
        sent = {"model": "chat/sim-text", "max_tokens": 9, "messages": HI, "stream": True}
        async with session.post(f"{served[0]}/v1/messages", json=sent) as response:
            assert response.status == 200
            assert (await response.text()).endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
            request_id = response.headers["x-dragoman-request-id"]
            assert "transfer-encoding" in {name.lower() for name in response.headers}
        async with session.get(f"{served[0]}/v1/dragoman/receipts/{request_id}") as response:
            assert (await response.json())["request_id"] == request_id


# --- bodies ---------------------------------------------------------------------------------------------------------


async def test_a_compressed_body_is_read() -> None:
    async with ScriptedServer([*answer(200, dump(reply(Dialect.CHAT)))]) as upstream:
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT))
        async with asgi_server(application) as url, aiohttp.ClientSession() as session:
            data = gzip.compress(dump(request(Dialect.CHAT)))
            headers = {**JSON, "content-encoding": "gzip"}
            async with session.post(url + PATHS[Dialect.CHAT], data=data, headers=headers) as response:
                assert response.status == 200, await response.text()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_above_the_limit_is_refused(chunked: bool) -> None:
    """The client gets the response although it sends on, and nothing reads for ever."""
    application = asgi.app(with_limits(config_for("http://127.0.0.1:9", Dialect.CHAT), request_body=1000))
    async with asgi_server(application) as url, aiohttp.ClientSession() as session:
        data = b"x" * 300_000

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield data

        async with session.post(url + "/v1/messages", data=pieces() if chunked else data * 3, headers=JSON) as response:
            assert response.status == 413
            assert (await response.json())["error"]["type"] == "request_too_large"


async def test_a_body_that_does_not_arrive_is_refused_in_time() -> None:
    application = asgi.app(config_for("http://127.0.0.1:9", Dialect.CHAT, timeouts=Timeouts(body=0.03)))
    async with application.lifespan():
        scope = http_scope("/v1/messages", "POST", headers=[*HEADERS, (b"content-length", b"100")])
        call = Call(application, scope, [body(b'{"model":', more=True)])
        await call.done()
        assert call.status == 408
        assert b"neither its end nor the next 64 KiB within 0.03 s" in call.body
        assert call.headers[b"connection"] == b"close"


# --- flow control and disconnection ---------------------------------------------------------------------------------


def streaming_call(application: Any, dialect: Dialect, **fields: Any) -> Call:
    scope = http_scope(PATHS[dialect], "POST", headers=HEADERS, http_version="2")
    return Call(application, scope, [body(dump(request(dialect, stream=True, **fields)))])


async def test_each_batch_is_one_message_as_it_comes() -> None:
    frames = text_stream(Dialect.CHAT)
    async with ScriptedServer([Send(sse_head()), Send(chunk(frames[0])), Stall()]) as upstream:
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT))
        async with application.lifespan():
            call = streaming_call(application, Dialect.CHAT)
            await until(lambda: len(call.sent) == 2)
            assert call.sent[1] == {"type": "http.response.body", "body": frames[0], "more_body": True}
            call.put("http.disconnect")
            await call.done()


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_client_that_leaves_cancels_its_upstream(wrapped: bool, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[ExchangeRecord[Any]] = []
    simulator = strict_simulator(pace=3600)
    async with listening(simulator, "127.0.0.1", 0, drain=0.1) as url:
        application = asgi.app(simulated_config().with_simulator(url), on_end=_appends(ended))
        outer = BaseHTTPMiddleware(application, dispatch=_mark) if wrapped else application
        async with asgi_server(outer) as server, aiohttp.ClientSession() as session:
            sent = {"model": "chat/sim-text", "max_tokens": 9, "messages": HI, "stream": True}
            async with session.post(f"{server}/v1/messages", json=sent) as response:
                assert response.status == 200
                assert simulator[STREAMS].open == 1
            await until(lambda: not simulator[STREAMS].open)
            await until(lambda: ended)
    assert [record.ended for record in ended] == ["abandoned"]
    assert not [each for each in caplog.records if each.name.startswith("uvicorn.error") and each.levelno > 20]


def _appends(ended: list[ExchangeRecord[Any]]) -> Any:
    async def on_end(record: ExchangeRecord[Any]) -> None:
        ended.append(record)

    return on_end


def flood(megabytes: int) -> list[Step]:
    """Far more than the buffers between an upstream and a client that does not read can take."""
    frames = text_stream(Dialect.CHAT, [])
    frames[1:1] = [chat_frame({"content": "x" * 4096})] * (megabytes * 256)
    return [Send(sse_head()), *(Send(chunk(frame)) for frame in frames), Send(LAST_CHUNK)]


async def test_a_client_that_does_not_read_pauses_its_upstream() -> None:
    async with ScriptedServer(flood(16)) as upstream:
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT))
        async with application.lifespan():
            call = streaming_call(application, Dialect.MESSAGES)
            call.room.clear()
            await asyncio.wait_for(upstream.stopped_reading.wait(), 30)
            await turns(100)
            assert call.sent == []
            call.room.set()
            await call.done()
            assert call.body.count(b"x" * 4096) == 16 * 256
            assert call.body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


async def test_a_client_that_does_not_read_for_long_is_dropped() -> None:
    async with ScriptedServer(flood(16)) as upstream:
        timeouts = Timeouts(write=0.2, heartbeat=0.05)
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT, timeouts=timeouts))
        async with application.lifespan():
            call = streaming_call(application, Dialect.MESSAGES)
            call.room.clear()
            await call.done()
            assert call.sent == []
            await asyncio.wait_for(upstream.hung_up.wait(), 30)


async def test_a_long_stream_is_detached_from_aiohttp() -> None:
    """Its request and parser are freed, as under the gateway's own server."""
    frames = text_stream(Dialect.CHAT)
    async with ScriptedServer([Send(sse_head()), Send(chunk(frames[0])), Stall()]) as upstream:
        timeouts = Timeouts(heartbeat=0.02)
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT, timeouts=timeouts))
        async with application.lifespan():
            data = dump(request(Dialect.MESSAGES, stream=True))
            headers = [*HEADERS, (b"content-length", str(len(data)).encode())]
            call = Call(application, http_scope("/v1/messages", "POST", headers=headers), [body(data)])
            await until(lambda: b"event: ping" in call.body)
            connections = application._server._connections  # type: ignore[union-attr]
            assert len(connections.hijacked) == 1
            call.put("http.disconnect")
            await call.done()
            await asyncio.wait_for(upstream.hung_up.wait(), 30)


async def test_a_stream_that_the_upstream_breaks_ends_in_an_error() -> None:
    frames = text_stream(Dialect.CHAT)
    async with ScriptedServer([Send(sse_head()), Send(chunk(frames[0])), Abort()]) as upstream:
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT))
        async with asgi_server(application) as url, aiohttp.ClientSession() as session:
            data = dump(request(Dialect.MESSAGES, stream=True))
            async with session.post(f"{url}/v1/messages", data=data, headers=JSON) as response:
                assert (response.status, b"event: error" in await response.read()) == (200, True)


# --- who the client is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"evil.example")], 403),
        ([(b"host", b"localhost"), (b"origin", b"https://evil.example")], 403),
        ([(b"host", b"localhost"), (b"content-type", b"text/plain")], 415),
        ([(b"host", b"localhost"), (b"content-type", b"application/json")], 400),
    ],
)
async def test_requests_of_web_pages_are_refused(headers: list[tuple[bytes, bytes]], status: int) -> None:
    application = asgi.app(config_for("http://127.0.0.1:9", Dialect.CHAT))
    async with application.lifespan():
        call = Call(application, http_scope("/v1/messages", "POST", headers=headers), [body(b"")])
        await call.done()
        assert call.status == status


async def test_a_websocket_needs_the_key_and_the_origin() -> None:
    application = asgi.app(config_for("http://127.0.0.1:9", Dialect.CHAT, keys=(Secret("k"),)))
    async with application.lifespan():
        for key, kind in ((b"k", "websocket.accept"), (b"other", "websocket.close")):
            headers = [(b"host", b"x"), (b"authorization", b"Bearer " + key)]
            call = Call(application, websocket_scope("/v1/responses", headers=headers), [{"type": "websocket.connect"}])
            await call.started()
            assert [message["type"] for message in call.sent] == [kind]
            call.put("websocket.disconnect", code=1000)
            await call.done()


async def test_a_websocket_that_is_switched_off() -> None:
    config = config_for("http://127.0.0.1:9", Dialect.CHAT, websocket=WebSocketOptions(enabled=False))
    async with asgi_server(asgi.app(config)) as url, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"{url}/v1/responses")
        assert caught.value.status == 426


# --- the lifespan ---------------------------------------------------------------------------------------------------


async def test_a_request_without_a_lifespan_opens_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    """Starlette and FastAPI pass no lifespan to what is mounted."""
    caplog.set_level("INFO", "dragoman")
    async with simulated() as (config, _):
        gateway = asgi.app(config)
        async with asgi_server(Starlette(routes=[Mount("/llm", gateway)])) as url, anthropic_sdk(f"{url}/llm") as sdk:
            asked: Any = {"model": "chat/sim-text", "max_tokens": 64, "messages": HI}
            found = await asyncio.gather(*(sdk.messages.create(**asked) for _ in range(3)))
            assert all(each.content for each in found)
        assert repr(gateway) == "<AsgiApplication open>"
    assert caplog.text.count("the first request opens the gateway") == 1


def test_the_end_of_the_loop_closes_a_gateway_that_a_request_has_opened() -> None:
    """Starlette's test client has a loop for each request, if it is not entered. The next one opens another gateway."""
    gateway = asgi.app(config_for("http://127.0.0.1:9", Dialect.CHAT))
    seen = set()
    for client in (TestClient(Starlette(routes=[Mount("/llm", gateway)])), TestClient(gateway, root_path="/llm")):
        for _ in range(2):
            assert client.get("/llm/health").json()["status"] == "ok"
            assert repr(gateway) == "<AsgiApplication not open>"
            seen.add(id(gateway.gateway))
            with pytest.raises(DragomanError, match="not open"):
                _ = gateway.gateway.services.upstream.transport
    with TestClient(gateway) as client:
        assert client.get("/health").json()["status"] == "ok"
        assert repr(gateway) == "<AsgiApplication open>"
    assert repr(gateway) == "<AsgiApplication not open>"


async def test_a_gateway_is_opened_once_and_reopened_after_its_end() -> None:
    gateway = asgi.app(config_for("http://127.0.0.1:9", Dialect.CHAT))
    for _ in range(2):
        async with gateway.lifespan():
            with pytest.raises(RuntimeError, match="open already"):
                async with gateway.lifespan():
                    pass
            call = Call(gateway, http_scope("/health"), [body(b"")])
            await call.done()
            assert call.status == 200
        with pytest.raises(RuntimeError, match="is closed"):
            await Call(gateway, http_scope("/health"), [body(b"")]).done()


async def test_a_gateway_that_cannot_be_opened_fails_the_start(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(f'{FILE}[usage]\nkind = "jsonl"\npath = "{tmp_path}/none/usage.jsonl"\n', "utf-8")
    gateway = asgi.app(file)
    call = Call(gateway, {"type": "lifespan"}, [{"type": "lifespan.startup"}])
    (sent,) = await call.done()
    assert sent["type"] == "lifespan.startup.failed"
    assert "usage.jsonl" in sent["message"]
    for _ in range(2):
        with pytest.raises(ConfigError, match="usage"):
            await Call(gateway, http_scope("/health"), [body(b"")]).done()


async def test_the_shutdown_ends_open_streams_with_an_error() -> None:
    frames = text_stream(Dialect.CHAT)
    async with ScriptedServer([Send(sse_head()), Send(chunk(frames[0])), Stall()]) as upstream:
        application = asgi.app(config_for(f"{upstream.url}/v1", Dialect.CHAT), drain=0.0)
        life = Call(application, {"type": "lifespan"}, [{"type": "lifespan.startup"}])
        await life.started()
        call = streaming_call(application, Dialect.MESSAGES)
        await until(lambda: len(call.sent) >= 2)
        life.put("lifespan.shutdown")
        await call.done()
        await life.done()
        assert b"event: error" in call.body
        assert call.sent[-1]["more_body"] is False
        assert [message["type"] for message in life.sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


# --- the configuration, and a real process --------------------------------------------------------------------------

FILE = """
[providers.local]
dialect = "chat"
base_url = "http://127.0.0.1:9/v1"
[models]
unknown = "pass"
"""


def test_where_the_configuration_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DRAGOMAN_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no upstream is configured"):
        asgi.app()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    assert "openai" in asgi.app().gateway.config.providers
    Path("dragoman.toml").write_text(FILE, "utf-8")
    assert list(asgi.app().gateway.config.providers) == ["local"]
    Path("other.toml").write_text(FILE.replace("local", "other"), "utf-8")
    monkeypatch.setenv("DRAGOMAN_CONFIG", "other.toml")
    assert list(asgi.app().gateway.config.providers) == ["other"]
    assert list(asgi.app("dragoman.toml").gateway.config.providers) == ["local"]
    assert list(asgi.app(Path("dragoman.toml")).gateway.config.providers) == ["local"]
    with pytest.raises(ConfigError):
        asgi.app("missing.toml")


def test_the_module_needs_no_framework_and_no_server() -> None:
    code = "import sys, dragoman_server.asgi; print({'starlette', 'uvicorn', 'fastapi', 'anyio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_the_command_of_uvicorn(tmp_path: Path, loop: str) -> None:
    """The application by its name, a stream, and a stop by a signal while a stream is open."""
    frames = text_stream(Dialect.CHAT)
    stalled: list[Step] = [Send(sse_head()), Send(chunk(frames[0])), Stall()]
    async with ScriptedServer(streamed(Dialect.CHAT), stalled) as upstream, aiohttp.ClientSession() as session:
        (tmp_path / "dragoman.toml").write_text(FILE.replace("http://127.0.0.1:9", upstream.url), "utf-8")
        options = ["--port", "0", "--loop", loop, "--timeout-graceful-shutdown", "1"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "uvicorn", "--factory", "dragoman_server.asgi:app", *options),
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            await _stream_and_stop(process, session)
        finally:
            if process.returncode is None:
                process.kill()


async def _stream_and_stop(process: asyncio.subprocess.Process, session: aiohttp.ClientSession) -> None:
    assert process.stderr is not None
    line = b""
    async with asyncio.timeout(60):
        while b"running on" not in line:
            line = await process.stderr.readline()
            assert line
    url = line.decode().split("running on ")[1].split()[0]
    data = dump(request(Dialect.MESSAGES, stream=True))
    async with session.post(f"{url}/v1/messages", data=data, headers=JSON) as response:
        assert (await response.text()).endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    async with session.post(f"{url}/v1/messages", data=data, headers=JSON) as response:
        assert response.status == 200
        process.send_signal(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert b"Application shutdown complete" in errors
    assert b"never retrieved" not in errors
    assert b"was destroyed" not in errors
