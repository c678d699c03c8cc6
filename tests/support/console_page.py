"""The console's page in a browser, and traffic of the simulated upstream for it.

`DRAGOMAN_SCREENSHOTS=1` writes the pictures of docs/howto/console.md.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp

from dragoman import Dialect
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.load import simulated_config
from dragoman_server.workers.serve import Running, running
from support.paths import ROOT

PICTURES = ROOT / "docs" / "howto" / "images"
TEXT = "Hello from the other side"
NO_HEADERS: Mapping[str, str] = {}


@asynccontextmanager
async def gateway(
    *, pace: float = 0.02, capture: CaptureOptions | None = None, **server: Any
) -> AsyncIterator[Running]:
    config = simulated_config()
    config = replace(config, server=replace(config.server, port=0, ui=True, **server))
    config = replace(config, capture=capture or config.capture)
    async with running(config, pace=pace) as up:
        yield up


def body(client: Dialect, model: str, text: str = TEXT) -> Any:
    if client is Dialect.RESPONSES:
        return {"model": model, "stream": True, "input": text, "max_output_tokens": 500}
    more = {"max_tokens": 500, "top_k": 4} if client is Dialect.MESSAGES else {"max_completion_tokens": 500}
    return {"model": model, "stream": True, "messages": [{"role": "user", "content": text}], **more}


async def send(
    url: str,
    client: Dialect,
    model: str,
    text: str = TEXT,
    *,
    status: int = 200,
    headers: Mapping[str, str] = NO_HEADERS,
) -> str:
    """Send a request, and return the body of its reply."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/{client.path}", json=body(client, model, text), headers=headers) as response,
    ):
        reply = await response.text()
        assert response.status == status, reply
        return reply


async def picture(shown: Any, name: str, height: int = 640) -> None:
    if os.environ.get("DRAGOMAN_SCREENSHOTS"):
        PICTURES.mkdir(exist_ok=True)
        await shown.set_viewport_size({"width": 1000, "height": height})
        await shown.screenshot(path=PICTURES / f"console-{name}.jpg", type="jpeg", quality=60)


async def column(shown: Any, name: str) -> list[str]:
    """The texts of a column of the table, from the top."""
    return [str(text) for text in await shown.locator(f"#exchanges td.{name}").all_inner_texts()]


async def rows(shown: Any) -> list[str]:
    return [str(text) for text in await shown.locator("#exchanges tbody tr").all_inner_texts()]


async def violations(shown: Any) -> list[str]:
    """The rules that the page breaks, with the first element of each."""
    result = await shown.evaluate("axe.run()")
    assert len(result["passes"]) > 10
    return [f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:200]}" for each in result["violations"]]
