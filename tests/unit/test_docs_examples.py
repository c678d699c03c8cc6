"""What the pages tell a reader to paste works: Python runs, TOML is a configuration, commands parse, links lead on."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman_server.cli import _parser
from dragoman_server.config import parse_config
from dragoman_server.running import listening
from dragoman_server.simulator import REQUESTS, make_simulator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def _name(value: object) -> str | None:
    return str(value.relative_to(DOCS)) if isinstance(value, Path) else None


# --- embedding -------------------------------------------------------------------------------------------------------


async def test_the_embedding_example_serves_the_gateway_beside_the_application() -> None:
    code = _blocks(DOCS / "howto/embed-in-aiohttp.md", "python")[0]
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "embed-in-aiohttp.md", "exec"), example)
    simulator = make_simulator()
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
    asked = simulator[REQUESTS][-1]
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


def test_the_offline_commands_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "howto/translate-offline.md"
    (tmp_path / "request.json").write_text(_blocks(page, "json")[0])
    monkeypatch.chdir(tmp_path)
    commands = [line for block in _blocks(page, "sh") for line in block.splitlines() if "request.json" in line]
    expected = _blocks(page, "text")
    assert len(commands) == len(expected) == 2
    for command, text in zip(commands, expected, strict=True):
        args = _parser().parse_args(shlex.split(command)[1:])
        with contextlib.redirect_stdout(_Bytes()) as out:
            from dragoman_server.cli import main

            status = main(shlex.split(command)[1:])
        told = out.buffer.getvalue().decode() + capsys.readouterr().err
        assert told == text, command
        assert status == (1 if "on_loss=reject" in args.knob else 0)


class _Bytes(io.TextIOWrapper):
    """A standard output whose bytes can be looked at."""

    buffer: io.BytesIO

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)


# --- all pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_toml_blocks_are_configurations(page: Path) -> None:
    for block in _blocks(page, "toml"):
        config = parse_config(tomllib.loads(block), {"GATEWAY_KEY": "secret", "LOCAL_KEY": "secret"})
        assert config.problems() == []


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
                _parser().parse_args(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_place_to_change_exists() -> None:
    page = (DOCS / "where-to-change.md").read_text("utf-8")
    places = re.findall(r"`((?:engine|server|tests|docs)/[^`]+)`", page)
    assert len(places) > 40
    for place in places:
        for dialect in ("chat", "messages"):
            assert (ROOT / place.replace("<dialect>", dialect)).exists(), place
