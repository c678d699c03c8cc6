"""No key leaves the gateway: canaries in configuration and request, which the upstream echoes in all that it sends."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
from dragoman.dialects import Dialect
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.cli.main import main
from dragoman_server.config.forwarded_endpoints import FORMS
from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Config
from support.commands import command
from support.directions import ask
from support.forms import FORM_TYPE, form, part
from support.gateways import Gate, gate
from support.samples import PATHS, text_stream
from support.sockets import Close, ScriptedServer, Send, Step, answer, stream

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
DIALECTS = (CHAT, MESSAGES, RESPONSES)
KEY, CLIENT, QUERY, EXTRA = "canary-config-7f3a", "canary-client-7f3a", "canary+query/7f3a", "canary-extra-7f3a"
LOOKS = "sk-canary-7f3a9b2c1d"
ALL = f"{KEY} {CLIENT} {QUERY} canary%2Bquery%2F7f3a {EXTRA} {LOOKS} https://u:canary-password@h/x?a=canary-url"
ECHO = {"message": f"wrong key {ALL}", "type": KEY, "code": CLIENT, "param": EXTRA, "status": QUERY}
HEADERS = [
    ("x-request-id", KEY),
    ("request-id", CLIENT),
    ("retry-after", EXTRA),
    ("x-ratelimit-limit-requests", LOOKS),
    ("anthropic-ratelimit-requests-limit", QUERY),
    ("openai-organization", CLIENT),
    ("anthropic-organization-id", KEY),
]


def config_of(url: str, upstream: Dialect, **server: Any) -> Config:
    query = "canary%2Bquery%2F7f3a"
    return parse_config(
        {
            "server": {"keys": [CLIENT], **server},
            "providers": {
                "up": {
                    "dialect": upstream.value,
                    "base_url": f"{url}/v1?key={query}",
                    "api_key": KEY,
                    "headers": {"x-extra": EXTRA},
                }
            },
            "routes": [{"model": "*", "provider": "up"}],
        },
        {},
    )


def error_frame(upstream: Dialect) -> bytes:
    if upstream is RESPONSES:
        payload: Any = {**ECHO, "type": "error", "sequence_number": 1, "error": ECHO}
        failed = {"id": "r", "object": "response", "status": "failed", "error": ECHO, "output": [], "model": "m"}
        last = {"type": "response.failed", "sequence_number": 2, "response": failed}
        return b"event: error\ndata: %b\n\nevent: response.failed\ndata: %b\n\n" % (
            json.dumps(payload).encode(),
            json.dumps(last).encode(),
        )
    payload = {"type": "error", "error": ECHO}
    return (b"event: error\n" if upstream is MESSAGES else b"") + b"data: " + json.dumps(payload).encode() + b"\n\n"


_NAMES = json.dumps({"type": f"{KEY}\n{CLIENT}", "output_index": 0, "index": 0}).encode()
ODD = (
    b"event: " + f"{KEY} {LOOKS}".encode() + b"\ndata: " + _NAMES + b"\n\n",
    b'data: {"type":"%b%b","output_index":1,"index":0}\n\n' % (b"x" * 50, KEY.encode() * 40),
)
"""Events whose names are keys. In passthrough they go on as they came; what learns of them elsewhere does not."""


def scripts(upstream: Dialect) -> dict[str, list[Step]]:
    begun = text_stream(upstream)[:2]
    own = json.dumps({"type": "error", "error": ECHO}).encode()
    return {
        "own envelope": answer(401, own, headers=HEADERS),
        "page": answer(502, f"<html><title>{ALL}</title></html>".encode(), content_type="text/html", headers=HEADERS),
        "detail": answer(400, json.dumps({"detail": ALL}).encode(), headers=HEADERS),
        "error in 200": answer(200, own, headers=HEADERS),
        "text in 200": answer(200, ALL.encode(), content_type="text/plain", headers=HEADERS),
        "json type": answer(200, ALL.encode(), headers=HEADERS),
        "error event": stream([*begun, error_frame(upstream)]),
        "error event first": stream([error_frame(upstream)]),
        "cut": [*stream([*begun, *ODD], end=False), Close()],
        "bad event": stream([*begun, *ODD, b"data: " + ALL.encode() + b"\n\n"]),
        "bad head": [Send(b"HTTP/1.1 200 OK\r\n" + ALL.encode() + b"\x00\r\n\r\n"), Close()],
        "no reply": [Close()],
    }


@asynccontextmanager
async def entered(config: Config, transport: str) -> AsyncIterator[Gate]:
    upstream = AiohttpTransport() if transport == "aiohttp" else None
    async with gate(config, upstream=upstream) as entrance:
        yield entrance


def stated(caplog: pytest.LogCaptureFixture) -> str:
    """All that was logged, tracebacks included, as a handler writes it."""
    form = logging.Formatter("%(levelname)s %(message)s")
    return "\n".join(form.format(record) for record in caplog.records)


@pytest.mark.few
@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("client", DIALECTS, ids=str)
@pytest.mark.parametrize("upstream", DIALECTS, ids=str)
async def test_a_canary_that_the_upstream_echoes_is_nowhere(
    client: Dialect, upstream: Dialect, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "asyncio")
    seen: dict[str, str] = {}
    sent = {"x-api-key": CLIENT}
    for name, script in scripts(upstream).items():
        async with ScriptedServer(script) as server, entered(config_of(server.url, upstream), transport) as entrance:
            for streamed in (False, True):
                async with (
                    asyncio.timeout(30),
                    entrance.post(client, ask(client, stream=streamed), headers=sent) as response,
                ):
                    body = await response.read()
                    if client is upstream:
                        body = body.replace(ODD[0], b"").replace(ODD[1], b"")
                    own_id = response.headers["x-dragoman-request-id"]
                    seen[f"{name} {streamed}"] = f"{response.status} {dict(response.headers)} {body!r}"
                receipt = entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{own_id}", headers=sent)
                async with receipt as response:
                    assert response.status == 200
                    seen[f"receipt {name} {streamed}"] = await response.text()
            async with entrance.session.get(f"{entrance.url}/metrics", headers=sent) as response:
                seen[f"metrics {name}"] = await response.text()
            assert server.requests
            assert all(QUERY.split("+")[0] in received.target for received in server.requests)
    seen["log"] = stated(caplog)
    assert seen["log"].count("\n") > 20
    leaks = {name: text for name, text in seen.items() if "canary" in text}
    assert not leaks, json.dumps(leaks, indent=1)
    assert all(len(line) < 1500 for line in seen["log"].splitlines())


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("path", ["embeddings", "completions", "audio/transcriptions"])
async def test_a_canary_is_nowhere_in_a_forwarded_exchange(
    path: str, transport: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "asyncio")
    seen: dict[str, str] = {}
    sent = {"x-api-key": CLIENT}
    usage = UsageOptions("jsonl", str(tmp_path / "usage.jsonl"))
    chosen = scripts(CHAT)
    # A text may be the model's own: only errors, and what claims to be JSON, are searched for keys.
    del chosen["text in 200"], chosen["bad event"], chosen["cut"]
    for name, script in chosen.items():
        async with ScriptedServer(script) as server:
            config = replace(config_of(server.url, CHAT), usage=usage)
            async with entered(config, transport) as entrance:
                data = form(part("model", b"m"), part("file", b"canary-prompt", filename="a"))
                body: Any = {"data": data} if path in FORMS else {"json": {"model": "m", "input": "canary-prompt"}}
                headers = {**sent, "content-type": FORM_TYPE} if path in FORMS else sent
                async with (
                    asyncio.timeout(30),
                    entrance.session.post(f"{entrance.url}/v1/{path}", headers=headers, **body) as response,
                ):
                    own_id = response.headers["x-dragoman-request-id"]
                    seen[name] = f"{response.status} {dict(response.headers)} {await response.read()!r}"
                receipt = entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{own_id}", headers=sent)
                async with receipt as response:
                    seen[f"receipt {name}"] = await response.text()
                async with entrance.session.get(f"{entrance.url}/metrics", headers=sent) as response:
                    seen[f"metrics {name}"] = await response.text()
            assert server.requests
    seen["log"], seen["usage"] = stated(caplog), (tmp_path / "usage.jsonl").read_text()
    assert seen["usage"].count(f'"{path}"') == len(chosen)
    leaks = {name: text for name, text in seen.items() if "canary" in text}
    assert not leaks, json.dumps(leaks, indent=1)


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
async def test_an_upstream_that_is_away_is_named_without_its_query(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dragoman")
    async with ScriptedServer([]) as server:
        config = config_of(server.url, CHAT)
    async with entered(config, transport) as entrance:
        for client in DIALECTS:
            async with entrance.post(client, ask(client), headers={"x-api-key": CLIENT}) as response:
                noted = await response.text()
                assert response.status == 502
                assert "canary" not in noted
    assert "canary" not in stated(caplog)


async def test_counts_that_an_upstream_refuses_leak_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dragoman")
    own = json.dumps({"type": "error", "error": ECHO}).encode()
    config = None
    async with ScriptedServer(answer(400, own, headers=HEADERS)) as server:
        config = config_of(server.url, MESSAGES)
        async with entered(config, "raw") as entrance:
            body = json.dumps(ask("messages")).encode()
            url = f"{entrance.url}/v1/messages/count_tokens"
            async with entrance.session.post(url, data=body, headers={"x-api-key": CLIENT}) as response:
                assert response.status == 400
                assert "canary" not in f"{await response.text()} {dict(response.headers)}"
    assert "canary" not in stated(caplog)


FILE = f"""
[server]
keys = ["{CLIENT}"]
[providers.up]
dialect = "chat"
base_url = "http://127.0.0.1:9/v1?key=canary%2Bquery%2F7f3a&v=canary-version"
api_key = "{KEY}"
headers = {{ x-extra = "{EXTRA}" }}
[[routes]]
model = "*"
provider = "up"
"""


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
async def test_check_and_serve_print_no_secret(
    transport: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text(FILE.replace("[server]", f'[server]\ntransport = "{transport}"'))
    assert await asyncio.to_thread(main, ["check", str(path)]) == 0
    noted = capsys.readouterr()
    assert "127.0.0.1:9" in noted.out + noted.err
    assert "canary" not in noted.out + noted.err
    async with command("serve", "--port", "0", str(path)) as process:
        url = (await process.writes(r"dragoman listens on (http://\S+)"))[1]
        async with aiohttp.ClientSession() as session:
            for client in DIALECTS:
                body = json.dumps(ask(client)).encode()
                headers = {"x-api-key": CLIENT, "content-type": "application/json"}
                async with session.post(url + PATHS[client], data=body, headers=headers) as response:
                    assert response.status == 502
                    assert "canary" not in await response.text()
        process.process.terminate()
        assert await process.ends() == 0
    assert "cannot connect to the upstream" in process.stated
    assert "canary" not in process.stated
