"""The examples of the pages work: Python runs, TOML is a configuration, commands parse, links lead on."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession, web

from dragoman_server import make_app
from dragoman_server import simulator as simulator_package
from dragoman_server.cli.commands import command_line
from dragoman_server.cli.main import main
from dragoman_server.config.load import parse_config, simulated_config
from dragoman_server.config.schema import Server
from dragoman_server.simulator import REQUESTS
from dragoman_server.workers.serve import listening, running
from oracles.simulator import strict_simulator
from support.json_schemas import schema_problems
from support.paths import ROOT

DOCS = ROOT / "docs"
ENV = {
    **dict.fromkeys(
        ("GATEWAY_KEY", "LOCAL_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"), "secret"
    ),
    "OPENAI_KEY_TEAM": "secret",
    "OPENAI_KEY_RESEARCH": "another secret",
    "REDIS_URL": "redis://:secret@redis:6379/0",
    "DATABASE_URL": "postgresql://gateway:secret@db/dragoman",
    "DRAGOMAN_STATE_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    **{
        name: "secret"
        for page in (DOCS / "howto/vendors").glob("*.md")
        for name in re.findall(r"\$\{([A-Z0-9_]+)\}", page.read_text("utf-8"))
    },
}
PAGES = sorted(DOCS.rglob("*.md"))


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


FIXTURES = ROOT / "tests/fixtures"
_CODEX = "# ~/.codex/config.toml\n"
"""The beginning of a block of the configuration of Codex; other TOML is the gateway's."""


def _name(value: object) -> str | None:
    return str(value.relative_to(DOCS)) if isinstance(value, Path) else None


# --- embedding -------------------------------------------------------------------------------------------------------


async def test_the_embedding_example_serves_the_gateway_beside_the_application() -> None:
    code = _blocks(DOCS / "howto/embed-in-aiohttp.md", "python")[0]
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "embed-in-aiohttp.md", "exec"), example)
    simulator = strict_simulator()
    body = {"model": "claude-sonnet-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello!"}]}
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(listening(simulator, "127.0.0.1", 0, drain=0.5))
        app: web.Application = example["make_app"](f"{upstream}/v1")
        url = await stack.enter_async_context(listening(app, "127.0.0.1", 0, drain=0.5))
        session = await stack.enter_async_context(ClientSession())
        async with session.get(url) as response:
            assert await response.text() == "the application itself\n"
        # The application's own middleware stands before the gateway.
        async with session.post(f"{url}/llm/v1/messages", json=body) as response:
            assert response.status == 403
        assert not simulator[REQUESTS]
        headers = {"x-user": "ada"}
        async with session.post(f"{url}/llm/v1/messages", json=body, headers=headers) as response:
            reply = await response.json()
        assert reply["content"][0]["text"].startswith("You said: Hello!")
        assert reply["model"] == "claude-sonnet-5"
        async with session.post(f"{url}/llm/v1/messages", json=body | {"stream": True}, headers=headers) as response:
            streamed = await response.text()
        assert streamed.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
        for path in ("/llm/v1/models", "/llm/health"):
            async with session.get(url + path, headers=headers) as response:
                assert response.status == 200, path
    asked = [each for each in simulator[REQUESTS] if each.method == "POST"][-1]
    assert (asked.path, asked.body["model"]) == ("/v1/chat/completions", "sim-text")


# --- offline ---------------------------------------------------------------------------------------------------------


def test_the_offline_example_runs() -> None:
    code = _blocks(DOCS / "howto/translate-offline.md", "python")[0]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "translate-offline.md", "exec"), {"__name__": "example"})
    text = shown.getvalue()
    assert '{"model":"qwen3","messages":[{"role":"user","content":"Hello!"}],"max_tokens":500}' in text
    assert "top_k at top_k: dropped" in text
    assert '"text":"Hi!"' in text
    assert '"type":"text_delta","text":"Hi!"' in text
    assert "event: error" in text
    assert "message_stop" not in text


def test_the_offline_commands_print_what_the_page_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "howto/translate-offline.md"
    (tmp_path / "request.json").write_text(_blocks(page, "json")[0])
    monkeypatch.chdir(tmp_path)
    commands = [line for block in _blocks(page, "sh") for line in block.splitlines() if "request.json" in line]
    expected = _blocks(page, "text")
    assert len(commands) == len(expected) == 2
    for command, text in zip(commands, expected, strict=True):
        args = command_line().parse_args(shlex.split(command)[1:])
        with contextlib.redirect_stdout(_Bytes()) as out:
            status = main(shlex.split(command)[1:])
        noted = out.buffer.getvalue().decode() + capsys.readouterr().err
        assert noted == text, command
        assert status == (1 if "on_loss=reject" in args.knob else 0)


class _Bytes(io.TextIOWrapper):
    """A standard output whose bytes can be looked at."""

    buffer: io.BytesIO

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)


# --- Codex -----------------------------------------------------------------------------------------------------------

CODEX = DOCS / "howto/codex.md"


async def test_what_the_page_lets_codex_send_is_served() -> None:
    """The base URL, key and model of Codex's own configuration, with a request that it sent, to the page's gateway."""
    (ours, theirs, listing) = _blocks(CODEX, "toml")
    assert theirs.startswith(_CODEX)
    assert listing.startswith(_CODEX)
    codex = tomllib.loads(theirs)
    catalogue = tomllib.loads(listing)["model_providers"]["dragoman"]["model_catalog_url"]
    provider = codex["model_providers"][codex["model_provider"]]
    at = urlsplit(provider["base_url"])
    assert (at.port, provider["wire_api"]) == (Server().port, "responses")
    headers = {"authorization": f"Bearer {ENV[provider['env_key']]}"}
    recorded = json.loads((FIXTURES / "codex_patch-tool_1.json").read_text("utf-8"))["request"]["body"]
    simulator = strict_simulator()
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(listening(simulator, "127.0.0.1", 0, drain=0.5))
        text = ours.replace("http://127.0.0.1:11434", upstream).replace("qwen3:32b", "sim-call-apply_patch")
        app = make_app(parse_config(tomllib.loads(text), ENV))
        url = await stack.enter_async_context(listening(app, "127.0.0.1", 0, drain=0.5))
        session = await stack.enter_async_context(ClientSession(headers=headers))
        body = recorded | {"model": codex["model"]}
        async with session.post(f"{url}{at.path}/responses", json=body) as response:
            assert response.status == 200
            assert {"custom_wrapped=1", "hosted_tool=1"} <= set(response.headers["x-dragoman-loss"].split(", "))
            streamed = await response.text()
            request_id = response.headers["x-dragoman-request-id"]
        async with session.get(f"{url}/v1/dragoman/receipts/{request_id}") as response:
            receipt = await response.json()
        async with session.get(f"{url}{urlsplit(catalogue).path}?client_version=0.171.0") as response:
            assert codex["model"] in [model["slug"] for model in (await response.json())["models"]]
    done = [
        json.loads(data)["item"]
        for data in re.findall(r"^event: response.output_item.done\ndata: (.*)", streamed, re.M)
    ]
    assert [(item["type"], item["name"]) for item in done] == [("custom_tool_call", "apply_patch")]
    assert done[0]["input"].startswith("*** Begin Patch\n")
    assert (receipt["upstream_model"], receipt["ended"]) == ("sim-call-apply_patch", "completed")


def test_the_explained_request_is_what_the_page_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "request.json").write_text(_blocks(CODEX, "json")[0])
    monkeypatch.chdir(tmp_path)
    (command,) = (line for block in _blocks(CODEX, "sh") for line in block.splitlines() if "request.json" in line)
    with contextlib.redirect_stdout(_Bytes()) as out:
        assert main(shlex.split(command)[1:]) == 0
    assert out.buffer.getvalue().decode().endswith("\n\n" + _blocks(CODEX, "text")[-1])


@pytest.mark.parametrize("page", ["howto/codex.md", "tutorial/first-translation.md"])
def test_codex_is_given_the_gateway_s_default_port(page: str) -> None:
    lines = [line for block in _blocks(DOCS / page, "sh") for line in block.splitlines() if line.startswith("codex -m")]
    for line in lines:
        options = [option for option in shlex.split(line) if "=" in option]
        noted = tomllib.loads("\n".join(option.replace("=gw", '="gw"') for option in options))
        url = noted["model_providers"][noted["model_provider"]]["base_url"]
        assert url == f"http://127.0.0.1:{Server().port}/v1"
    assert len(lines) == 1


# --- the tutorial ----------------------------------------------------------------------------------------------------


async def test_the_tutorial_s_programs_print_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_package, "make_simulator", strict_simulator)
    programs = _blocks(DOCS / "tutorial/first-translation.md", "python")
    config = simulated_config()
    config = replace(config, server=replace(config.server, port=0))
    async with running(config, pace=0) as up:
        for program in programs:
            shown = io.StringIO()
            names: dict[str, Any] = {}
            with contextlib.redirect_stdout(shown):
                await asyncio.to_thread(exec, program.replace("http://127.0.0.1:8080", up.url), names)
            names["client"].close()  # as the end of its process would
            assert shown.getvalue().startswith("You said: Say hello.")
    assert len(programs) == 2


# --- all pages -------------------------------------------------------------------------------------------------------


def test_the_program_with_a_thread_runs() -> None:
    code = _blocks(DOCS / "howto/stateful-conversations.md", "python")[-1]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == ["['user', 'assistant', 'user']", "True"]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_toml_blocks_are_configurations(page: Path, tmp_path: Path) -> None:
    (tmp_path / "openai").write_text("secret")
    (tmp_path / "prices.toml").write_text("")
    env = ENV | {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    for block in _blocks(page, "toml"):
        if not block.startswith(_CODEX):
            data = tomllib.loads(block)
            assert parse_config(data, env, str(tmp_path)).problems() == []
            assert schema_problems(data) == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_json_and_python_blocks_are_whole(page: Path) -> None:
    for block in _blocks(page, "json"):
        json.loads(block)
    for block in _blocks(page, "python"):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_are_ones_that_there_are(page: Path) -> None:
    """Usage errors exit; the rest of a shell line (redirections, environment) is not the command's."""
    for block in _blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = [word for word in shlex.split(line) if not re.match(r"[A-Z_]+=", word)]
            if words[:1] == ["dragoman"]:
                command_line().parse_args(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text("utf-8"))
    local = [(page.parent / path if path else page, anchor) for path, anchor in links if not path.startswith("http")]
    assert [path for path, _ in local if not path.exists()] == []
    assert [(path, anchor) for path, anchor in local if anchor and anchor not in _anchors(path)] == []


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: those that it sets, and those that GitHub makes of its headings."""
    text = page.read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    plain = [re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings]
    made = [re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain]
    return frozenset([*made, *re.findall(r'<a id="([^"]+)">', text)])


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_metrics_are_ones_that_there_are(page: Path) -> None:
    known = set(re.findall(r"^\| `(dragoman_\w+)`", (DOCS / "reference/metrics.md").read_text("utf-8"), re.MULTILINE))
    known |= {
        f"{name}_{suffix}" for name in known if name.endswith("_seconds") for suffix in ("bucket", "count", "sum")
    }
    named = set(re.findall(r"\bdragoman_\w+", page.read_text("utf-8")))
    assert len(known) > 20
    assert named - known - {"dragoman_server", "dragoman_bench", "dragoman_proof"} == set()


def test_every_place_to_change_exists() -> None:
    page = (DOCS / "where-to-change.md").read_text("utf-8")
    places = re.findall(r"`([\w<>./-]+(?:/|\.py|\.md|\.json|\.toml))`", page)
    assert len(places) > 40
    assert [place for place in places if not _is_place(place)] == []
    assert page.count("\n") < 60


def _is_place(place: str) -> bool:
    """True if a path exists at the root or in one of the two packages; a name alone is that of a file in any folder."""
    roots = (ROOT, ROOT / "engine/dragoman", ROOT / "server/dragoman_server")
    found = [place.replace("<dialect>", dialect) for dialect in ("chat", "messages", "responses")]
    if all(any((root / path).exists() for root in roots) for path in found):
        return True
    return "/" not in place and any(True for root in roots[1:] for _ in root.rglob(place))
