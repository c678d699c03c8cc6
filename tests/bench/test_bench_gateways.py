"""The registry of gateways, their processes from start to end, and the setup of peers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman_bench.gateways import ALL, GATEWAYS, SAME, StartError, environments, launch, measured_direction
from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.environments import ENVIRONMENTS, HOME_VARIABLE
from dragoman_bench.gateways.features import HEADERS, NAMES, features
from dragoman_bench.gateways.peers import PEERS
from dragoman_bench.scenarios import SCENARIOS, models
from dragoman_bench.upstream import serve
from dragoman_bench.wire import MARK, PATHS, TERMINAL, Script, request
from dragoman_server.config.load import load_config
from dragoman_server.proxy.auth import presented_keys
from support.programs import installed
from support.waiting import until

UPSTREAM = "http://127.0.0.1:9"


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    """The simulator's address."""
    server, simulator = await serve()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    simulator.pacer.close()


def program(text: str) -> list[str]:
    """A command that runs Python."""
    return [sys.executable, "-c", text]


def command_of(pid: int) -> list[str]:
    """As the kernel has it."""
    return [word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def children_of(pid: int) -> list[str]:
    """The processes it has started."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def alive(pid: str | int) -> bool:
    """Return True if it runs and is not a zombie."""
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and ") Z " not in state.read_text()


def exists(path: str) -> bool:
    """On disk."""
    return Path(path).exists()


# --- the registry ---------------------------------------------------------------------------------------------------


def test_gateways_are_known_by_their_names() -> None:
    assert [gateway.name for gateway in GATEWAYS.values()] == list(GATEWAYS)
    assert GATEWAYS["dragoman"].directions == ALL
    for gateway in GATEWAYS.values():
        assert gateway.directions
        assert gateway.directions <= ALL
        assert set(gateway.without) <= set(SCENARIOS)
        assert gateway.kind == "translate" or gateway.directions <= SAME


@pytest.mark.parametrize("name", NAMES)
def test_each_set_of_features_is_a_valid_configuration(name: str, tmp_path: Path) -> None:
    added = features(name)
    file = tmp_path / "config.toml"
    file.write_text(config(8080, "chat", UPSTREAM, added=added).replace("{folder}", str(tmp_path)))
    loaded = load_config(file)
    assert loaded.server.validate == {"bare": 0, "validated": 1}.get(name, 0.02)
    assert (loaded.usage.kind == "jsonl") == (name in ("usage", "all"))
    assert added.log == (name in ("log", "all"))
    (key,) = presented_keys(HEADERS)
    assert all(record.hash.matches(key) for record in loaded.keys.values())
    limited = [bool(record.limits) for record in loaded.keys.values()]
    assert limited == {"key": [False], "limits": [True], "all": [True]}.get(name, [])


def test_what_cannot_translate_rides_in_the_upstreams_own_direction() -> None:
    assert measured_direction(GATEWAYS["dragoman"], ("messages", "chat")) == ("messages", "chat")
    assert measured_direction(GATEWAYS["aiohttp-pass"], ("messages", "chat")) == ("chat", "chat")
    assert measured_direction(GATEWAYS["sglang-router"], ("chat", "messages")) is None
    assert measured_direction(GATEWAYS["claude-code-router"], ("chat", "chat")) is None


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.turns
@pytest.mark.parametrize(
    ("name", "direction"),
    [("relay", ("chat", "chat")), ("floor", ("messages", "chat")), ("dragoman", ("chat", "messages"))],
)
async def test_a_gateway_serves_and_leaves_nothing(name: str, direction: tuple[str, str], upstream: str) -> None:
    started = await GATEWAYS[name].start(upstream, direction, None)
    script = Script(3, 0, 30)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        body = request(direction[0], started.model(script.model))
        url = started.url + PATHS[direction[0]]
        async with session.post(url, data=body, headers={"content-type": "application/json"}) as answer:
            reply = await answer.read()
    assert len(MARK.findall(reply)) == 3
    assert TERMINAL[direction[0]] in reply
    config = next((word for word in command_of(started.pid) if "dragoman-bench-" in word), None)
    assert (config is not None) == (name == "dragoman")
    await started.stop()
    assert not exists(f"/proc/{started.pid}")
    assert config is None or not exists(config)
    assert started.command.startswith("python")
    assert ("[server]" in started.config) == (name == "dragoman")


async def test_direct_is_the_upstream_itself(upstream: str) -> None:
    started = await GATEWAYS["direct"].start(upstream, ("chat", "chat"), None)
    assert (started.url, started.pid) == (upstream, 0)
    await started.stop()


async def test_nginx_passes_a_stream_on(upstream: str) -> None:
    installed("nginx")
    assert re.fullmatch(r"\d+\.\d+\.\d+", GATEWAYS["nginx"].version())
    started = await GATEWAYS["nginx"].start(upstream, ("chat", "chat"), None)
    body = request("chat", Script(3, 1, 30).model)
    async with aiohttp.ClientSession() as session, session.post(started.url + PATHS["chat"], data=body) as answer:
        assert len(MARK.findall(await answer.read())) == 3
    await started.stop()


async def test_a_gateway_runs_on_its_core() -> None:
    core = min(os.sched_getaffinity(0))
    port = launch.free_port()
    listens = f"import socket; s = socket.create_server(('127.0.0.1', {port})); s.accept(); s.accept()"
    before = os.sched_getaffinity(0)
    started = await launch.launch(program(listens), port, core)
    assert os.sched_getaffinity(started.pid) == {core}
    assert os.sched_getaffinity(0) == before
    await started.stop()


async def test_one_that_ends_early_is_reported_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    text = "import os; print(sorted(os.environ), open('a/settings').read()); raise SystemExit(3)"
    with pytest.raises(StartError, match="status 3") as caught:
        await launch.launch(
            program(text), launch.free_port(), None, env={"X": "{folder}"}, files={"a/settings": "in {folder}"}
        )
    output = str(caught.value)
    assert "OPENAI" not in output
    assert "HTTPS_PROXY" not in output
    assert re.search(r"'NO_PROXY'.*'X'.* in \S+dragoman-bench-", output)


async def test_one_that_never_listens_is_given_up() -> None:
    with pytest.raises(StartError, match=r"did not listen on port \d+ within 0 s"):
        await launch.launch(program("import time; time.sleep(60)"), launch.free_port(), None, within=0.05)


async def test_one_that_is_not_installed_is_reported() -> None:
    with pytest.raises(StartError, match="cannot run /nowhere/gateway: No such file"):
        await launch.launch(["/nowhere/gateway"], launch.free_port(), None)


async def test_one_that_ignores_the_signal_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_GRACE", 0.05)
    port = launch.free_port()
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = f"{deaf}; import socket; s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    parent = f"{deaf}; import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    started = await launch.launch(program(parent), port, None)
    (child_pid,) = children_of(started.pid)
    assert alive(child_pid)
    await started.stop()
    assert not alive(started.pid)
    # The grandchild is not waited for: the kernel ends it later.
    await until(lambda: not alive(child_pid))


# --- peers ----------------------------------------------------------------------------------------------------------


def test_a_peer_that_is_not_installed_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    for peer in PEERS.values():
        assert peer.missing() == (
            f"{ENVIRONMENTS[peer.name].package} is not installed: `dragoman bench peers install {peer.name}`"
        )
        assert peer.environment.program.is_relative_to(tmp_path / peer.name)


def test_the_users_cache_is_where_peers_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert environments.home() == Path("/somewhere/dragoman-bench")


class Installer:
    """Stands in for `subprocess.run`."""

    def __init__(self, status: int = 0) -> None:
        self.commands: list[list[str]] = []
        self.status = status

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        return subprocess.CompletedProcess(command, self.status, "", "no matching distribution")


def test_versions_are_those_that_were_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    run = Installer()
    monkeypatch.setattr(subprocess, "run", run)
    ENVIRONMENTS["llm-rosetta"].install()
    assert run.commands[0][1:3] == ["-m", "venv"]
    assert run.commands[1][-1] == "llm-rosetta==0.13.0"
    assert run.commands[1][0] == str(tmp_path / "llm-rosetta" / "bin" / "python")


def test_npm_gets_the_overrides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    run = Installer()
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    ENVIRONMENTS["portkey"].install()
    assert run.commands[0][-1] == "@portkey-ai/gateway@1.15.2"
    assert "hono" in json.loads((tmp_path / "portkey" / "package.json").read_text())["overrides"]


def test_a_failed_installation_shows_the_installers_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setattr(subprocess, "run", Installer(1))
    with pytest.raises(StartError, match="cannot be installed here:\nno matching distribution"):
        ENVIRONMENTS["smg"].install()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(StartError, match=r"install Node\.js"):
        ENVIRONMENTS["portkey"].install()


@pytest.mark.parametrize("name", sorted(PEERS))
def test_peers_are_pointed_at_the_upstream(name: str) -> None:
    for direction in PEERS[name].directions:
        setup = PEERS[name].setup(1234, UPSTREAM, direction)
        given = " ".join((*setup.arguments, *setup.files.values(), *setup.headers.values()))
        assert UPSTREAM in given
        assert "1234" in given


def test_litellm_gets_the_protocol_of_the_upstream() -> None:
    output = {}
    for direction in ALL:
        config = json.loads(PEERS["litellm"].setup(1, UPSTREAM, direction).files["config.yaml"])
        first = config["model_list"][0]
        output[direction] = first["litellm_params"]["model"].removesuffix(first["model_name"])
        assert [model["model_name"] for model in config["model_list"]] == list(models())
        assert config["litellm_settings"]["use_chat_completions_url_for_anthropic_messages"] == (direction[1] == "chat")
        assert ("use_chat_completions_api" in first["litellm_params"]) == (direction == ("responses", "chat"))
    assert {output[client, "messages"] for client in PATHS} == {"anthropic/"}
    assert {output[client, "chat"] for client in PATHS} == {"openai/"}
    assert output["chat", "responses"] == "openai/responses/"


def test_claude_code_router_wants_the_provider_named() -> None:
    setup = PEERS["claude-code-router"].setup(1, UPSTREAM, ("messages", "chat"))
    assert setup.model("bench-whole") == "bench,bench-whole"
