"""The models of upstreams, and what the user reads about an upstream that lists none."""

from __future__ import annotations

import argparse
import socket
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli import list_models as module
from dragoman_server.cli.list_models import UpstreamList, key_name, list_models
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config, Server
from dragoman_server.routing import list_problems
from dragoman_server.routing.list_problems import SERVERS
from support.gateways import CHAT, MESSAGES, served
from support.model_server import model_server
from support.samples import dump
from support.sockets import ScriptedServer, Stall, answer


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def listed(url: str, *, transport: str = "raw", dialect: Dialect = CHAT, **more: Any) -> UpstreamList:
    provider = Provider("up", dialect, url, **more)
    config = Config({"up": provider}, server=Server(transport=transport))
    (found,) = await list_models(config, [provider], lambda _: "UPSTREAM_API_KEY")
    return found


async def test_models_are_listed_with_their_windows_and_found_by_name() -> None:
    async with served(model_server("qwen3:latest", "llama", max_model_len=4096)) as (url, _):
        found = await listed(f"{url}/v1")
    assert ([model.name for model in found.models], found.problem) == (["qwen3:latest", "llama"], "")
    model = found.find("qwen3")
    assert model is not None
    assert (model.name, model.context_window, found.find("qwen")) == ("qwen3:latest", 4096, None)


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("port", [11434, 8000, 1234, 8080, 30000, None])
async def test_an_upstream_that_does_not_run(transport: str, port: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    here = free_port()
    servers = dict(SERVERS)
    title, command = servers.pop(port) if port is not None else ("the model server", "")
    monkeypatch.setattr(list_problems, "SERVERS", {here: (title, command)} if port is not None else {})
    found = await listed(f"http://127.0.0.1:{here}/v1", transport=transport)
    assert found.problem.startswith(f"nothing listens on 127.0.0.1:{here}: is {title} running?")
    assert found.problem.endswith(command or "?")
    assert (found.fatal, found.models) == (True, ())


async def test_a_host_that_does_not_exist_and_a_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await listed("http://nowhere.invalid/v1")
    assert found.problem.startswith("nowhere.invalid:80 cannot be reached: ")
    assert found.fatal
    monkeypatch.setattr(module, "TIMEOUT", 0.01)
    async with ScriptedServer([Stall()]) as server:
        found = await listed(f"{server.url}/v1")
    assert found.problem.endswith("sent no response in 0.01 s")
    assert found.fatal


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_missing_or_wrong(status: int) -> None:
    async with served(model_server("m", status=status)) as (url, _):
        without = await listed(f"{url}/v1")
        wrong = await listed(f"{url}/v1", api_key=Secret("sk-wrong-key-7q3z"))
        passed = await listed(f"{url}/v1", auth=Auth.PASSTHROUGH)
    assert f"requires a key ({status}): set UPSTREAM_API_KEY" in without.problem
    assert f"rejects the key ({status}): correct UPSTREAM_API_KEY" in wrong.problem
    assert "7q3z" not in wrong.problem
    assert (without.fatal, wrong.fatal) == (True, True)
    assert (passed.problem, passed.fatal) == ("", False), "clients send their own"


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, b"{}", "does not list its models (404)"),
        (500, b"{}", "does not list its models (500)"),
        (200, b"<html>", "cannot be read"),
        (200, b'{"items": []}', "cannot be read: not a list of models"),
        (200, b'{"data": []}', "lists no models"),
    ],
)
async def test_an_upstream_without_a_list_may_be_used_all_the_same(status: int, body: bytes, problem: str) -> None:
    async with ScriptedServer(answer(status, body)) as server:
        found = await listed(f"{server.url}/v1")
    assert problem in found.problem
    assert (found.fatal, found.models) == (False, ())


async def test_each_dialect_is_asked_in_its_own_form() -> None:
    body = dump({"data": [{"type": "model", "id": "claude-x", "max_input_tokens": 200_000}], "has_more": False})
    async with ScriptedServer(answer(200, body)) as server:
        found = await listed(server.url, dialect=MESSAGES, api_key=Secret("k"))
        (asked,) = server.requests
    assert [(model.name, model.context_window) for model in found.models] == [("claude-x", 200_000)]
    assert asked.head.startswith(b"GET /v1/models?limit=1000 ")
    assert asked.headers["x-api-key"] == "k"


@pytest.mark.parametrize(
    ("config", "base_url", "dialect", "expected"),
    [
        ("a.toml", None, CHAT, "providers.up.api_key in a.toml"),
        (None, "http://127.0.0.1:1/v1", CHAT, "UPSTREAM_API_KEY"),
        (None, "https://api.anthropic.com", MESSAGES, "ANTHROPIC_API_KEY"),
        (None, None, CHAT, "OPENAI_API_KEY"),
        (None, None, MESSAGES, "ANTHROPIC_API_KEY"),
    ],
)
def test_the_place_of_a_key(config: str | None, base_url: str | None, dialect: Dialect, expected: str) -> None:
    args = argparse.Namespace(config=config, base_url=base_url)
    assert key_name(args, Provider("up", dialect, base_url or "http://x/v1")) == expected
