"""A dialect is added by its package, its name and its profiles: nothing else of the engine or the gateway changes.

The test copies the engine and adds one for upstreams only. Its vocabulary is that of Chat, but it names model and
stream in the path, and sends its key in another header. A gateway with the copy serves it to the clients of all other
dialects.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT, TESTS

NAME = "echo"
ENGINE = ROOT / "engine" / "dragoman"
FACTS = """
from dataclasses import replace

FACTS = replace(
    FACTS,
    name="Echo",
    maker="Nobody",
    api="Echo",
    vendor="echo",
    client=False,
    path="models/{model}:generate",
    stream_path="models/{model}:stream?alt=sse",
    names_target=False,
    base_url="https://echo.example",
    version="v1beta",
    version_in_base=False,
    key_header="x-goog-api-key",
    key_variable="ECHO_API_KEY",
    body_headers=(),
    key_headers=(),
    forwarded=False,
    request_id_header="",
    reply_headers=(),
    limits=None,
)
"""
CODEC = """
from dataclasses import replace


def _without_target(request, **options):
    body = write_request(request, **options)
    return {name: value for name, value in body.items() if name not in ("model", "stream", "stream_options")}


CODEC = replace(CODEC, write_request=_without_target, request_usage=None)
"""
PROGRAM = """
import asyncio
import json
import sys

from aiohttp import web

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS, DIRECTIONS
from dragoman_server.config.provider import Provider
from support.gateways import gate
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
ECHO = Dialect("echo")


async def answer(request):
    body = await request.json()
    seen.append([request.path_qs, request.headers.get("x-goog-api-key"), "model" in body, "stream" in body])
    if "stream" not in request.path:
        message = {"role": "assistant", "content": "Hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response({**CHUNK, "object": "chat.completion", "choices": [choice], "usage": usage})
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for delta, stop in (({"role": "assistant", "content": "Hello"}, None), ({}, "stop")):
        chunk = {**CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")
    await response.write(b"data: [DONE]\\n\\n")
    return response


async def main():
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    replies = {}
    config = Config({"up": Provider("up", ECHO, url, "key")}, [Route("*", "up")], Models(unknown="pass"))
    async with gate(config) as gateway:
        for client in CLIENT_DIALECTS:
            for stream in (False, True):
                async with gateway.post(client, model="a/b", stream=stream) as response:
                    replies[f"{client} {stream}"] = [response.status, await response.text()]
    await runner.cleanup()
    print(json.dumps({"seen": seen, "replies": replies, "directions": len(DIRECTIONS)}))


seen = []
asyncio.run(main())
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new), "utf-8")


def add_dialect(engine: Path) -> None:
    """Add the dialect to a copy of the engine."""
    home = engine / "dialects" / NAME
    shutil.copytree(engine / "dialects" / "chat", home)
    for path in home.rglob("*.py"):
        text = path.read_text("utf-8")
        for old, new in (
            ("dialects.chat", f"dialects.{NAME}"),
            ("Dialect.CHAT", "Dialect.ECHO"),
            ('"chat"', f'"{NAME}"'),
        ):
            text = text.replace(old, new)
        path.write_text(text, "utf-8")
    for name, more in (("facts.py", FACTS), ("codec.py", CODEC)):
        with (home / name).open("a", encoding="utf-8") as file:
            file.write(more)
    edit(engine / "dialects" / "__init__.py", '    CHAT = "chat"\n', f'    CHAT = "chat"\n    ECHO = "{NAME}"\n')
    edit(
        engine / "profiles" / "profile.py",
        '    "chat": (_OPENAI, _OPENAI_COMPATIBLE),\n',
        f'    "chat": (_OPENAI, _OPENAI_COMPATIBLE),\n    "{NAME}": (_OPENAI, _OPENAI_COMPATIBLE),\n',
    )


@pytest.mark.whole
@pytest.mark.slow
def test_a_dialect_of_upstreams_needs_no_other_change(tmp_path: Path) -> None:
    engine = tmp_path / "engine" / "dragoman"
    shutil.copytree(ENGINE, engine, ignore=shutil.ignore_patterns("__pycache__"))
    add_dialect(engine)
    path = os.pathsep.join(map(str, (engine.parent, ROOT / "server", TESTS)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["directions"] == 15
    whole = ["/v1beta/models/a%2Fb:generate", "key", False, False]
    streamed = ["/v1beta/models/a%2Fb:stream?alt=sse", "key", False, False]
    assert found["seen"] == [whole, streamed] * 3
    for name, (status, body) in found["replies"].items():
        assert status == 200, f"{name}: {body}"
        assert "Hello" in body, name
        assert "error" not in body or '"error":null' in body.replace(" ", ""), f"{name}: {body}"
