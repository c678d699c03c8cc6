"""Requests of commands to a running gateway."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest

from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.running_gateway import KEY_VARIABLE, RunningGateway, add_gateway, fetch, gateway_of
from dragoman_server.config.config_error import ConfigError
from support.samples import dump
from support.sockets import ScriptedServer, answer


async def test_the_key_is_sent() -> None:
    async with ScriptedServer(answer(200, b"{}")) as server:
        for url in (server.url, f"{server.url}/", f"{server.url}/v1/"):
            assert await asyncio.to_thread(fetch, RunningGateway(url, "k"), "receipts", {"limit": "3"}) == b"{}"
        assert {asked.target for asked in server.requests} == {"/v1/dragoman/receipts?limit=3"}
        assert {asked.headers["x-api-key"] for asked in server.requests} == {"k"}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"error": {"message": "no API key"}}, "no API key; set DRAGOMAN_KEY to a key of the gateway"),
        (404, {"error": {"message": "there is no\x1b[31m receipt"}}, r"there is no \[31m receipt"),
        (502, {"error": "no"}, "the gateway returned 502"),
        (502, [], "the gateway returned 502"),
    ],
)
async def test_an_error_response_is_an_error(status: int, body: object, expected: str) -> None:
    async with ScriptedServer(answer(status, dump(body))) as server:
        with pytest.raises(ConnectionError, match=expected):
            await asyncio.to_thread(fetch, RunningGateway(server.url), "receipts", {})


async def test_where_no_gateway_listens() -> None:
    async with ScriptedServer([]) as server:
        url = server.url
    with pytest.raises(ConnectionError, match=f"{url} cannot be reached: nothing listens there; start a gateway with"):
        fetch(RunningGateway(url), "receipts", {})
    with pytest.raises(ConnectionError, match=r"nowhere\.invalid cannot be reached: "):
        fetch(RunningGateway("http://nowhere.invalid"), "receipts", {})
    with pytest.raises(CommandError, match="expected http"):
        fetch(RunningGateway("file:///etc/passwd"), "receipts", {})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment that names no gateway."""
    for name in (KEY_VARIABLE, "DRAGOMAN_HOST", "DRAGOMAN_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*words: str) -> tuple[str, str]:
    parser = argparse.ArgumentParser()
    add_gateway(parser)
    gateway = gateway_of(parser.parse_args(words))
    assert gateway.key == "" or gateway.key not in repr(gateway)
    return gateway.url, gateway.key


@pytest.mark.parametrize(
    ("server", "environment", "expected"),
    [
        (None, {}, ("http://127.0.0.1:8080", "")),
        (None, {"DRAGOMAN_PORT": "9000"}, ("http://127.0.0.1:9000", "")),
        ("", {}, ("http://127.0.0.1:8080", "")),
        ("port = 9001", {}, ("http://127.0.0.1:9001", "")),
        ("port = 9001", {"DRAGOMAN_HOST": "10.0.0.1", "DRAGOMAN_PORT": "9000"}, ("http://10.0.0.1:9000", "")),
        ("port = 9001", {"DRAGOMAN_PORT": "tcp://10.0.0.1:80"}, ("http://127.0.0.1:9001", "")),
        ('port = "${PORT}"', {"PORT": "9002"}, ("http://127.0.0.1:9002", "")),
        ('host = "0.0.0.0"', {}, ("http://127.0.0.1:8080", "")),
        ('host = "::"', {}, ("http://[::1]:8080", "")),
        ('host = "gateway.example"', {}, ("http://gateway.example:8080", "")),
        ('keys = ["first", "second"]', {}, ("http://127.0.0.1:8080", "first")),
        ('keys = ["first"]', {KEY_VARIABLE: "mine"}, ("http://127.0.0.1:8080", "mine")),
        ('keys = ["${UNSET_KEY}", "second"]', {}, ("http://127.0.0.1:8080", "second")),
        ('keys = ["file:missing"]', {}, ("http://127.0.0.1:8080", "")),
    ],
)
def test_the_gateway_of_the_directory(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: str | None,
    environment: dict[str, str],
    expected: tuple[str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if server is not None:
        # The provider's key is not set here, as in another shell.
        provider = '[providers.up]\ndialect = "chat"\napi_key = "${UNSET_KEY}"\n'
        (here / "dragoman.toml").write_text(f"[server]\n{server}\n{provider}")
    assert found() == expected


def test_a_gateway_that_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_PORT", "9000")
    (here / "dragoman.toml").write_text('[server]\nport = 9001\nkeys = ["secret"]\n')
    (here / "other.toml").write_text("[server]\nport = 9002\n")
    assert found("--url", "http://far.example") == ("http://far.example", "")
    monkeypatch.delenv("DRAGOMAN_PORT")
    assert found("-c", "other.toml") == ("http://127.0.0.1:9002", "")
    with pytest.raises(CommandError, match="cannot be combined"):
        found("-c", "other.toml", "--url", "http://far.example")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nport = 0", "is needed: the gateway listens on any free port"),
        ("[server]\nport = 90010", "server.port: "),
        ('[server]\nhost = ""', "server.host: "),
        ('[server]\nport = "${UNSET_PORT}"', "the environment variable UNSET_PORT is not set"),
        ("server", "is not TOML"),
    ],
)
def test_a_configuration_without_an_address(here: Path, text: str, message: str) -> None:
    (here / "dragoman.toml").write_text(text)
    with pytest.raises((CommandError, ConfigError), match=message):
        found()


def test_a_configuration_that_is_missing(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read"):
        found("-c", "missing.toml")
