"""The examples of the README work as they stand."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import tomllib
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman_server import Dialect, parse_config
from dragoman_server.cli.commands import command_line
from dragoman_server.routing.router import Router
from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator
from support.paths import ROOT
from support.samples import PATHS, dump, judge, request

README = (ROOT / "README.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


async def test_the_embedded_gateway_answers_below_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = (block for block in _blocks("python") if "run_app" in block)
    ran: list[tuple[web.Application, dict[str, Any]]] = []
    monkeypatch.setattr(web, "run_app", lambda app, **how: ran.append((app, how)))
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(listening(strict_simulator(), "127.0.0.1", 0, drain=0.5))
        exec(compile(code.replace("http://127.0.0.1:9000", upstream), "README.md", "exec"), {})
        ((app, how),) = ran
        url = await stack.enter_async_context(listening(app, "127.0.0.1", 0, drain=0.5))
        session = await stack.enter_async_context(ClientSession())
        for dialect, path in PATHS.items():
            body = dump(request(dialect, model="sim-text", stream=True))
            async with session.post(f"{url}/llm{path}", data=body) as response:
                assert judge(dialect, await response.read()).text.startswith("You said: Hi"), dialect
    assert how == {"handler_cancellation": True}


def test_the_translators_are_pure_functions() -> None:
    (code,) = (block for block in _blocks("python") if "translate(" in block)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert json.loads(names["sent"].body)["messages"] == [{"role": "user", "content": "Hi"}]
    assert list(names["sent"].losses) == []
    assert b"event: error" in names["machine"].finish()


def test_the_commands_are_ones_that_there_are() -> None:
    lines = [line for block in _blocks("sh") for line in block.splitlines()]
    asked = [shlex.split(line, comments=True) for line in lines if "dragoman " in line]
    assert len(asked) == 3
    for words in asked:
        (at,) = (index for index, word in enumerate(words) if word.rpartition("/")[2] == "dragoman")
        command_line().parse_args(words[at + 1 :])


def test_the_configuration_is_five_lines_and_takes_every_model() -> None:
    (text,) = _blocks("toml")
    assert len(text.splitlines()) == 5
    router = Router(parse_config(tomllib.loads(text), {}))
    for model in ("claude-sonnet-5", "claude-haiku-5", "gpt-x"):
        assert router.resolve(model, Dialect.MESSAGES).upstream_model == "qwen3"


def test_both_lines_that_begin_with_nothing_install_alike() -> None:
    begin = re.findall(r"^(python3 -m venv .*? run) ", README, re.MULTILINE)
    assert len(begin) == 2
    assert len(set(begin)) == 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert f"Python {project['project']['requires-python'].removeprefix('>=')} or later" in README


@pytest.mark.parametrize(("page", "least"), [("README.md", 11), ("CONTRIBUTING.md", 3)])
def test_its_links_lead_somewhere(page: str, least: int) -> None:
    text = (ROOT / page).read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if not link.startswith("http")]
    assert len(links) >= least
    assert [link for link in links if not (ROOT / link).exists()] == []
