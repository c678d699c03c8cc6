"""Judges that others publish, before a gateway over each upstream dialect: langchain-tests, instructor, llm-comply.

They are fetched from PyPI, each into an environment of its own, and run with `DRAGOMAN_CLIENTS=1` only.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from conformance import obliging
from conformance.served import Served, everything_to, serving
from dragoman_server.simulator.scenarios import SCRIPTS

PUBLISHED = Path(__file__).parent / "published"
DIALECTS = ("chat", "messages", "responses")
FORMATS = {
    "chat": ("openai-chat", "gpt-5.5"),
    "messages": ("anthropic", "claude-sonnet-4-5"),
    "responses": ("open-responses", "gpt-5.5"),
}
"""The name that llm-comply has for each dialect, and a model of which it expects reasoning."""
REFUSED_BY_VENDOR = {("chat", "chat"): {"test_image_tool_message", "test_anthropic_inputs"}}
"""LangChain sends pictures in a tool's message and `cache_control` to OpenAI's Chat API, which takes neither. Where the
dialects are the same the bytes are forwarded."""
_PATIENCE = 400
"""Seconds for one judge, with its installation."""
_NO_NETWORK = "http://127.0.0.1:9"
_UV = Path(sys.executable).with_name("uv")

pytestmark = pytest.mark.skipif(
    os.environ.get("DRAGOMAN_CLIENTS") != "1",
    reason="the published judges run with DRAGOMAN_CLIENTS=1, which installs them",
)


def uv() -> str:
    """The program that installs and starts a judge."""
    found = str(_UV) if _UV.is_file() else shutil.which("uv")
    return found or pytest.skip("uv is not installed")


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"over-{dialect}")
async def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, Served]]:
    """An upstream's dialect, and a gateway before it."""
    monkeypatch.setitem(SCRIPTS, obliging.NAME, obliging.obliging)
    async with serving(everything_to(request.param, obliging.NAME)) as served:
        yield request.param, served


async def run(*argv: str, network: bool) -> tuple[int, str, str]:
    """Run a program. Returns its exit status, stdout and stderr."""
    dead = {} if network else dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NO_NETWORK)
    process = await asyncio.create_subprocess_exec(
        *argv,
        env={**os.environ, **dead, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), _PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")


async def script(name: str, client: str, served: Served) -> list[dict[str, Any]]:
    """Run a script of `published/`, whose packages stand in its head. Returns the lines that it prints."""
    path = str(PUBLISHED / name)
    status, _, err = await run(uv(), "sync", "-q", "--script", path, network=True)
    if status:
        pytest.skip(f"{name} could not be installed: {err[-600:]}")
    _, out, err = await run(uv(), "run", "-q", "--offline", "--script", path, client, served.url, network=False)
    seen = [json.loads(line) for line in out.splitlines() if line.startswith('{"test"')]
    assert seen, err[-2000:] + out[-2000:]
    return seen


@pytest.mark.parametrize("client", DIALECTS)
async def test_langchains_standard_tests(client: str, over: tuple[str, Served]) -> None:
    upstream, served = over
    seen = await script("langchain_standard.py", client, served)
    refused = REFUSED_BY_VENDOR.get((client, upstream), set())
    failed = {line["test"]: line["why"] for line in seen if line["outcome"] == "failed"}
    assert {name: why for name, why in failed.items() if name not in refused} == {}
    assert len([line for line in seen if line["outcome"] == "passed"]) >= 45


@pytest.mark.parametrize("client", DIALECTS)
async def test_instructor_makes_its_models(client: str, over: tuple[str, Served]) -> None:
    _, served = over
    seen = await script("instructor_models.py", client, served)
    assert {line["test"]: line["why"] for line in seen if line["why"]} == {}


@pytest.mark.parametrize("client", DIALECTS)
async def test_llm_comply(client: str, over: tuple[str, Served]) -> None:
    """Schemas of the vendors' OpenAPI files. It warns of optional fields, which count as well."""
    upstream, served = over
    if client == upstream:
        pytest.skip("the bytes are the simulator's")
    form, model = FORMATS[client]
    judge = ("tool", "run", "-q", "--exclude-newer=2026-11-26T00:00:00Z", "--with=jsonschema==4.26.0")
    name = "llm-comply==0.5.0"
    status, _, err = await run(uv(), *judge, f"--from={name}", "llm-comply", "--version", network=True)
    if status:
        pytest.skip(f"{name} could not be installed: {err[-600:]}")
    options = (f"--format={form}", f"--base-url={served.url}/v1", "--api-key=key", f"--model={model}", "--json")
    argv = (uv(), *judge, "--offline", f"--from={name}", "llm-comply", *options)
    _, out, err = await run(*argv, network=False)
    assert out.startswith("{"), err[-2000:] + out[-2000:]
    results = [seen for seen in json.loads(out)["results"] if seen["status"] != "skipped"]
    wrong = {seen["id"]: [*seen.get("errors", ()), *seen.get("warnings", ())] for seen in results}
    assert {name: why for name, why in wrong.items() if why} == {}
    assert len(wrong) >= 8
