"""The gateway's WebSockets, judged by Autobahn's test suite (`pip install autobahntestsuite`, for Python 2.7).

`DRAGOMAN_WSTEST` is the path of its program `wstest`. The suite needs a server that echoes.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from aiohttp import WSCloseCode, web

from dragoman.aio import MaskedWebSocketResponse
from dragoman.aio.downstream.hijack_runner import HijackRunner

VARIABLE = "DRAGOMAN_WSTEST"
GOOD = frozenset({"OK", "INFORMATIONAL"})
DIFFERENCES = {
    "6.4.1": "Text that is not UTF-8 is found at the end of its message, not of its frame.",
    "6.4.2": "As 6.4.1.",
    "6.4.3": "As 6.4.1.",
    "6.4.4": "As 6.4.1.",
}
"""The cases that end as `NON-STRICT`, and why."""
_LEFT_OUT = ["12.*", "13.*"]
"""Compression, which is never agreed."""


async def echo(request: web.Request) -> web.WebSocketResponse:
    """Send each message back, as the gateway reads and writes them."""
    socket = MaskedWebSocketResponse(timeout=2.0, compress=False, max_msg_size=2**25, decode_text=False)
    await socket.prepare(request)
    while True:
        message = await socket.receive()
        if message.type is web.WSMsgType.BINARY:
            await socket.send_bytes(message.data)
        elif message.type is not web.WSMsgType.TEXT:
            return socket
        else:
            try:
                message.data.decode()
            except UnicodeDecodeError:
                await socket.close(code=WSCloseCode.INVALID_TEXT)
            else:
                await socket.send_frame(message.data, web.WSMsgType.TEXT)


@pytest.mark.whole
async def test_all_cases_of_the_suite(tmp_path: Path) -> None:
    wstest = os.environ.get(VARIABLE)
    if wstest is None:
        pytest.skip(f"{VARIABLE} is not set")
    app = web.Application()
    app.router.add_get("/", echo)
    runner = HijackRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = {"agent": "dragoman", "url": f"ws://127.0.0.1:{runner.addresses[0][1]}"}
        outcome, spec = tmp_path / "outcome", tmp_path / "spec.json"
        given = {"outdir": str(outcome), "servers": [server], "cases": ["*"], "exclude-cases": _LEFT_OUT}
        spec.write_text(json.dumps({**given, "exclude-agent-cases": {}}))
        process = await asyncio.create_subprocess_exec(
            *(wstest, "-m", "fuzzingclient", "-s", str(spec)), stdout=asyncio.subprocess.DEVNULL, cwd=tmp_path
        )
        try:
            await asyncio.wait_for(process.wait(), 1200)
        finally:
            if process.returncode is None:
                process.kill()
    finally:
        await runner.cleanup()
    cases = json.loads((outcome / "index.json").read_text())["dragoman"]
    assert len(cases) >= 301
    found = {case: each["behavior"] for case, each in cases.items() if each["behavior"] not in GOOD}
    assert found == dict.fromkeys(DIFFERENCES, "NON-STRICT")
    assert {each["behaviorClose"] for each in cases.values()} <= GOOD
