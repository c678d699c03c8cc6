"""No key, no prompt and no reply is where it does not belong: one process with everything on, and all that it writes.

The canaries are in keys, URLs, prompts, tool arguments, replies and error messages, in all directions.
"""

from __future__ import annotations

import asyncio
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.cli.main import main
from oracles.simulator import strict_simulator
from support.capture_text import readable
from support.exposed import total
from support.fleet import Fleet, fleet
from support.gateways import served, until
from support.named_keys import made
from support.otlp_collector import OtlpCollector, otlp_collector
from support.samples import PATHS, dump, error_frame, text_stream

CHAT, MESSAGES, RESPONSES = CLIENT_DIALECTS
WAYS = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]
PLAIN_KEY, UPSTREAM_KEY, COLLECTOR_KEY = "canary-client-7f3a", "canary-upstream-7f3a", "canary-collector-7f3a"
URL_KEY, HEADER_KEY, STRANGER = "canary-url-7f3a", "canary-header-7f3a", "canary-stranger-7f3a"
PROMPT, ARGUMENT, REPLY, SYSTEM = (
    "canary-prompt-52d8",
    "canary-argument-52d8",
    "canary-reply-52d8",
    "canary-system-52d8",
)
KEYS = (PLAIN_KEY, UPSTREAM_KEY, COLLECTOR_KEY, URL_KEY, HEADER_KEY, STRANGER)
TEXTS = (PROMPT, ARGUMENT, REPLY, SYSTEM)
EVERYTHING = """
[server]
keys = ["{plain}"]
prefix_diagnostics = 100
[server.overload]
event_loop_lag = 30
[telemetry]
traces = true
metrics = true
interval = 0.5
endpoint = "{collector}"
[telemetry.headers]
authorization = "Bearer {collector_key}"
[store]
kind = "sqlite"
path = "{folder}/store.db"
[usage]
kind = "jsonl"
path = "{folder}/usage.jsonl"
[capture]
directory = "{folder}/captures"
share = 1.0
texts = {texts}
open = 1000
[models]
discover = false
[keys.root]
hash = "{hash}"
admin = true
daily_tokens = 1000000000
[retries]
backoff = 0.01
backoff_max = 0.01
failures = 0
"""
PROVIDER = """
[providers.{name}]
dialect = "{dialect}"
base_url = "{url}/v1?key={url_key}"
api_key = "{key}"
headers = {{ x-of-ours = "{header}" }}
[[routes]]
model = "{name}/*"
providers = ["{name}"]
upstream_model = "*"
attempts = 2
"""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": SYSTEM}}, "required": ["city"]}
TOOLS: dict[Dialect, Any] = {
    CHAT: [{"type": "function", "function": {"name": "get_weather", "description": SYSTEM, "parameters": SCHEMA}}],
    MESSAGES: [{"name": "get_weather", "description": SYSTEM, "input_schema": SCHEMA}],
    RESPONSES: [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}],
}
MODELS = (
    *(("sim", "sim-echo", stream) for stream in (True, False)),
    *(("sim", "sim-agent", stream) for stream in (True, False)),
    *(("echo", name, stream) for name in ("refuse", "fail", "page") for stream in (True, False)),
    *(("echo", name, True) for name in ("event", "cut", "first")),
)
"""Group of providers, model, and whether a stream is requested."""


async def echo(request: web.Request) -> web.StreamResponse:
    """An upstream whose errors and texts repeat all that it was sent: key, URL, headers and prompt."""
    body = await request.json()
    model = body["model"] if "model" in body else request.match_info["model"]
    dialect = next((dialect for dialect, path in PATHS.items() if request.path == path), Dialect.GENERATE)
    sent = f"{request.path_qs} {dict(request.headers)} {dump(body).decode()} {REPLY}"
    error = {"type": "error", "error": {"type": UPSTREAM_KEY, "code": URL_KEY, "message": sent, "param": HEADER_KEY}}
    headers = {"x-request-id": UPSTREAM_KEY, "request-id": URL_KEY, "retry-after": "0", "x-should-retry": "true"}
    if model in ("refuse", "fail"):
        return web.json_response(error, status=400 if model == "refuse" else 500, headers=headers)
    if model == "page":
        return web.Response(status=502, text=f"<html>{sent}</html>", content_type="text/html", headers=headers)
    response = web.StreamResponse(headers={**headers, "content-type": "text/event-stream"})
    await response.prepare(request)
    if model != "first":
        for frame in text_stream(dialect, (REPLY, " and ", REPLY, "."))[:-3]:
            await response.write(frame)
    if model == "cut":
        assert request.transport is not None
        request.transport.close()
        return response
    await response.write(error_frame(dialect, sent))
    return response


def question(client: Dialect, model: str, *, stream: bool) -> dict[str, Any]:
    text = f'{PROMPT} [[call get_weather {{"city": "{ARGUMENT}"}}]]' if "agent" in model else f"{PROMPT} {REPLY}"
    turns = [{"role": "user", "content": text}]
    body: dict[str, Any] = {"model": model, "stream": stream, "tools": TOOLS[client]}
    if client is RESPONSES:
        return {**body, "instructions": SYSTEM, "input": turns, "metadata": {"about": PROMPT}}
    if client is MESSAGES:
        return {**body, "system": SYSTEM, "messages": turns, "max_tokens": 1000}
    return {**body, "messages": [{"role": "system", "content": SYSTEM}, *turns], "user": PROMPT}


@dataclass(slots=True)
class Setting:
    """A running gateway, and all that was read from it. `replies` are bodies that a client got for its request."""

    up: Fleet
    collector: OtlpCollector
    folder: Path
    admin: str
    ids: list[str] = field(default_factory=list)
    sinks: dict[str, str] = field(default_factory=dict)
    replies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> str:
        status, body = await self.up.get(path, **(headers or {"x-api-key": self.admin}))
        return f"{status} {body.decode()}"

    async def post(self, path: str, body: Any, key: str) -> tuple[int, str, str]:
        """Status, body and headers of a reply, or of as much of it as there was."""
        headers = {"x-api-key": key, "content-type": "application/json", "anthropic-version": "2023-06-01"}
        async with (
            asyncio.timeout(120),
            self.up.session.post(self.up.url + path, data=dump(body), headers=headers) as response,
        ):
            text = (await response.read()).decode()
            self.ids.append(response.headers["x-dragoman-request-id"])
            return response.status, text, str(dict(response.headers))


@asynccontextmanager
async def running(folder: Path, *, texts: bool, log_format: str) -> AsyncIterator[Setting]:
    """A gateway with everything on, two workers and a debug log, before upstreams of each dialect."""
    admin, record = made("root")
    echoes = web.Application()
    for path in (*PATHS.values(), "/v1/models/{model}:{method}"):
        echoes.router.add_post(path, echo)
    async with served(strict_simulator()) as (sim, _), served(echoes) as (echoed, _), otlp_collector() as collector:
        file = folder / "dragoman.toml"
        await asyncio.to_thread(file.write_text, configuration(folder, record, sim, echoed, collector.url, texts=texts))
        async with fleet(str(file), "--log-level", "debug", "--log-format", log_format) as up:
            setting = Setting(up, collector, folder, admin)
            yield setting
            up.signal(signal.SIGTERM)
            assert await up.command.ends() == 0
            setting.sinks["log"] = up.command.stated
        for name in ("usage.jsonl", "store.db"):
            setting.sinks[name] = (await asyncio.to_thread((folder / name).read_bytes)).decode("utf-8", "replace")
        for number, file in enumerate(sorted((folder / "captures").iterdir())):
            setting.sinks[f"capture {number}"] = readable(await asyncio.to_thread(file.read_bytes))
        setting.sinks["spans and metrics"] = f"{collector.bodies!r} {collector.spans} {collector.metrics}"
        setting.sinks["resource"] = str(collector.resource)


def configuration(folder: Path, record: KeyRecord, sim: str, echoed: str, collector: str, *, texts: bool) -> str:
    text = EVERYTHING.format(
        **{"plain": PLAIN_KEY, "collector": collector, "collector_key": COLLECTOR_KEY, "folder": folder},
        **{"texts": str(texts).lower(), "hash": record.hash},
    )
    for group, url in (("sim", sim), ("echo", echoed)):
        for dialect in Dialect:
            text += PROVIDER.format(
                **{"name": f"{group}-{dialect}", "dialect": dialect.value, "url": url, "url_key": URL_KEY},
                **{"key": UPSTREAM_KEY, "header": HEADER_KEY},
            )
    return text


async def use(setting: Setting) -> None:
    """Send all requests, and read everything that the gateway shows."""
    for client, upstream in WAYS:
        for group, model, stream in MODELS:
            case = f"{client} from {upstream} {model} stream={stream}"
            key = setting.admin if stream else PLAIN_KEY
            body = question(client, f"{group}-{upstream}/{model}", stream=stream)
            status, text, headers = await setting.post(PATHS[client], body, key)
            if model != "first":  # within one dialect it is forwarded as it is
                assert (status == 200) is (group == "sim" or model in ("event", "cut")), f"{case}: {status} {text}"
            setting.replies[case] = text
            setting.sinks[f"headers of {case}"] = headers
            own = {"x-api-key": key}
            setting.sinks[f"receipt of {case}"] = await setting.get(f"/v1/dragoman/receipts/{setting.ids[-1]}", **own)
        wrong = await setting.post(PATHS[client], question(client, "none/m", stream=False), STRANGER)
        assert wrong[0] == 401
        setting.sinks[f"401 of {client} {upstream}"] = str(wrong)
        unknown = await setting.post(PATHS[client], {"model": "no-such-model", "messages": PROMPT}, PLAIN_KEY)
        assert unknown[0] in (400, 404)
        setting.sinks[f"unknown model of {client} {upstream}"] = str(unknown)
        body = question(client, f"sim-{upstream}/sim-echo", stream=True)
        explained = await setting.post("/v1/dragoman/explain", body, PLAIN_KEY)
        assert explained[0] == 200
        setting.replies[f"explain {client} {upstream}"] = str(explained)
    captures = setting.folder / "captures"
    count = len(WAYS) * (len(MODELS) + 1)
    try:
        await until(lambda: len(list(captures.glob("*.capture"))) == count, 120)
        await until(lambda: len(setting.collector.spans) >= count, 120)
        await until(lambda: "gen_ai.server.request.duration" in setting.collector.metrics, 120)
    except TimeoutError:
        kept, spans = len(list(captures.glob("*.capture"))), len(setting.collector.spans)
        raise AssertionError(f"{kept} captures and {spans} spans of {count} exchanges") from None
    for path in ("/metrics", "/ready", "/ready?strict", "/health", "/v1/models", "/v1/dragoman/captures?limit=1000"):
        setting.sinks[path] = await setting.get(path)
        setting.sinks[f"{path} with a wrong key"] = await setting.get(path, **{"x-api-key": STRANGER})
    setting.sinks["a capture by HTTP"] = await setting.get(f"/v1/dragoman/captures/{setting.ids[0]}")
    # Every exchange is where it should be, so that a search of an empty sink proves nothing.
    samples = await setting.up.metrics(**{"x-api-key": setting.admin})
    assert total(samples, "dragoman_requests_total") >= count
    assert total(samples, "dragoman_captures_total", outcome="written") == count
    assert setting.sinks["/v1/dragoman/captures?limit=1000"].count('"dragoman.capture"') == count


def found(text: str, canaries: tuple[str, ...]) -> list[str]:
    """The canaries in a text: as they are, in base64, or with their first half alone in a string."""
    return [canary for canary in canaries if canary in text or b64encode(canary.encode()).decode()[:-4] in text]


@pytest.mark.turns
@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_no_canary_is_in_any_sink(
    log_format: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with running(tmp_path, texts=False, log_format=log_format) as setting:
        await use(setting)
    exchanges = len(WAYS) * len(MODELS)
    log, usage = setting.sinks["log"], setting.sinks["usage.jsonl"]
    assert sum(request_id in log for request_id in setting.ids) >= exchanges
    assert usage.count("\n") >= exchanges
    assert sum(name.startswith("capture ") for name in setting.sinks) == exchanges + len(WAYS)
    config = str(tmp_path / "dragoman.toml")
    for words in (["check"], ["capture", "list", "-c"], ["keys", "list", "-c"], ["usage", "-c"]):
        assert await asyncio.to_thread(main, [*words, config]) == 0
    assert await asyncio.to_thread(main, ["capture", "show", setting.ids[0], "-c", config]) == 0
    assert await asyncio.to_thread(main, ["replay", setting.ids[0], "-c", config]) == 0
    setting.sinks["commands"] = str(capsysbinary.readouterr())
    leaks = {name: leaked for name, text in setting.sinks.items() if (leaked := found(text, (*KEYS, *TEXTS)))}
    assert not leaks
    leaks = {name: leaked for name, text in setting.replies.items() if (leaked := found(text, KEYS))}
    assert not leaks
    named = setting.admin.rpartition("-")[2]
    assert not [name for name, text in (setting.sinks | setting.replies).items() if named in text]
    assert sum(REPLY in text for text in setting.replies.values()) > exchanges / 3, "the canaries were not used"


@pytest.mark.whole
async def test_texts_are_in_captures_alone_and_keys_are_nowhere(tmp_path: Path) -> None:
    async with running(tmp_path, texts=True, log_format="text") as setting:
        await use(setting)
    captures = {name for name in setting.sinks if name.startswith(("capture ", "a capture"))}
    assert not {name: leaked for name, text in setting.sinks.items() if (leaked := found(text, KEYS))}
    with_texts = {name for name, text in setting.sinks.items() if found(text, TEXTS)}
    assert with_texts == captures
    for canary in TEXTS:
        assert sum(canary in setting.sinks[name] for name in captures) > len(WAYS)
