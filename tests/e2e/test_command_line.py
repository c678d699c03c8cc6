"""The `dragoman` command: served as a process of its own, the rest in this one."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.main import main
from support.commands import Command, command, environment, new_process
from support.gateways import ALL, CHAT, CROSS, MESSAGES
from support.samples import PATHS, TEXT, dump, judge, reply, request, text_stream

SECRET = "sk-very-secret-4711"
MODULES_OF_HELP = 443
"""Most modules that `--help` and `--version` import."""


async def announced(process: Command) -> str:
    """Return the URL of the gateway, after it has also printed its upstreams."""
    url = (await process.writes(r"dragoman listens on (http://\S+)"))[1]
    await process.writes(r"model |provider ")
    return url


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_serve_simulate_marks_each_reply(how: signal.Signals) -> None:
    async with new_process("serve", "--simulate", "--port", "0") as process:
        url = await announced(process)
        assert "simulated upstream" in process.stated
        assert process.children() == [], "one worker is one process"
        async with aiohttp.ClientSession() as session:
            for client in (CHAT, MESSAGES):
                body = dump(request(client, model="sim-text", stream=True))
                async with session.post(url + PATHS[client], data=body) as response:
                    assert response.status == 200
                    assert response.headers["x-dragoman-simulated"] == "1"
                    assert judge(client, await response.read()).text.startswith("You said: Hi")
            async with session.get(f"{url}/v1/models") as response:
                assert "sim-tools" in await response.text()
            for body, status in ((dump(request(CHAT, model="sim-text")), 200), (b"{}", 400)):
                async with session.post(url + PATHS[CHAT], data=body) as response:
                    assert (response.status, response.headers["x-dragoman-simulated"]) == (status, "1")
        process.process.send_signal(how)
        assert await process.ends() == 0
        assert "dragoman stops" in process.stated
        assert "Traceback" not in process.stated


async def test_serve_without_any_configuration_names_the_ways_out(tmp_path: Path) -> None:
    for args in ((), ("--workers", "2")):
        async with command("serve", "--port", "0", *args, cwd=tmp_path, BIG_MODEL_NAME="m") as process:
            assert await process.ends() == 2
        for way in (
            "serve FILE.toml",
            "./dragoman.toml",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "--base-url",
            "--simulate",
        ):
            assert way in process.stated, way
        assert "listens" not in process.stated


async def test_serve_finds_the_configuration_of_its_directory(tmp_path: Path) -> None:
    """Before the environment, and not where the command line names an upstream."""
    path = tmp_path / "dragoman.toml"
    path.write_text('[providers.here]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n')
    async with command("serve", "--port", "0", cwd=tmp_path, OPENAI_API_KEY=SECRET) as process:
        await announced(process)
        assert str(path) in process.stated
        assert "provider here: chat" in process.stated
        assert "openai" not in process.stated
    async with command("serve", "--port", "0", "--base-url", "http://127.0.0.1:8/v1", cwd=tmp_path) as process:
        await announced(process)
        assert "provider upstream: chat at http://127.0.0.1:8/v1" in process.stated
        assert "dragoman.toml" not in process.stated
    path.write_text("[providers\n")
    async with command("serve", "--port", "0", cwd=tmp_path, OPENAI_API_KEY=SECRET) as process:
        assert await process.ends() == 2
    assert "dragoman.toml: is not TOML" in process.stated


async def test_a_configured_gateway_marks_nothing() -> None:
    async with command("serve", "--port", "0", "--base-url", "http://127.0.0.1:9/v1") as process:
        url = await announced(process)
        async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as response:
            assert "x-dragoman-simulated" not in response.headers


async def test_serve_announces_its_upstreams_without_keys() -> None:
    async with command(
        "serve", "--port", "0", OPENAI_API_KEY=SECRET, OPENAI_BASE_URL="http://127.0.0.1:9/v1"
    ) as process:
        await announced(process)
        assert "provider openai: chat at http://127.0.0.1:9/v1, with a key" in process.stated
        process.process.terminate()
        await process.ends()
    assert SECRET not in process.stated


async def test_serve_refuses_a_wrong_configuration(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[server]\nport = "eighty"\n[providers.x]\ndialect = "klingon"\nbase_url = "http://x"\n')
    async with command("serve", str(path)) as process:
        assert await process.ends() == 2
    lines = process.stated.splitlines()
    assert any(line.startswith("server.port: expected an integer") for line in lines)
    assert any(line.startswith("providers.x.dialect: expected one of chat, messages") for line in lines)


async def test_serve_on_a_port_in_use_is_no_traceback() -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with taken:
        port = taken.sockets[0].getsockname()[1]
        async with command("serve", "--simulate", "--port", str(port)) as process:
            assert await process.ends() == 1
    assert "Traceback" not in process.stated
    assert str(port) in process.stated


# --- in this process -------------------------------------------------------------------------------------------------


class Output(NamedTuple):
    """The exit status and output of a command."""

    status: int
    out: bytes
    err: str


Run = Callable[..., Output]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command with arguments, standard input and environment."""
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)

    def call(*args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Output:
        for name in list(os.environ):
            if name not in environment():
                monkeypatch.delenv(name)
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            status = main(args)
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = capfdbinary.readouterr()
        return Output(status, out, err.decode())

    return call


def test_check_shows_what_a_configuration_means(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text(
        '[providers.up]\ndialect = "messages"\nbase_url = "http://127.0.0.1:9"\napi_key = "${KEY}"\n'
        '[[routes]]\nmodel = "gpt-*"\nprovider = "up"\nupstream_model = "claude-x"\nclient = "chat"\n'
    )
    output = run("check", str(path), env={"KEY": SECRET})
    assert output.status == 0
    assert "provider up: messages at http://127.0.0.1:9, with a key" in output.err
    assert "model gpt-* → up as claude-x (for chat clients)" in output.err
    assert "the configuration is valid" in output.err
    assert SECRET not in output.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", "x: unknown key"),
        ("[[routes]]\nmodel = 'a'\nprovider = 'b'\n", "routes[0].provider: unknown provider"),
        ("[knobs]\non_loss = 'rejct'\n", 'knobs.on_loss: expected one of record, reject; got "rejct" (did you mean'),
        ("[server.timeouts]\nidle = 0\n", "server.timeouts.idle: expected seconds above 0"),
        ("[server\n", "is not TOML"),
    ],
)
def test_check_names_what_is_wrong(run: Run, tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    output = run("check", str(path))
    assert output.status == 2
    assert expected in output.err


def test_simulate_goes_without_an_upstream(run: Run) -> None:
    for args in (("x.toml",), ("--base-url", "http://h"), ("--dialect", "chat")):
        output = run("serve", "--simulate", *args)
        assert output.status == 2
        assert "--simulate: cannot be combined with" in output.err


def test_check_of_nothing_names_the_ways_out(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = run("check")
    assert output.status == 2
    assert "dragoman check FILE.toml" in output.err


def test_check_of_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    output = run("check", str(tmp_path / "none.toml"))
    assert output.status == 2
    assert "none.toml" in output.err
    assert "cannot be read" in output.err


def _translate(run: Run, source: Dialect, target: Dialect, data: bytes, *more: str) -> Output:
    return run("translate", "--from", source, "--to", target, *more, "-", stdin=data)


@pytest.mark.parametrize(("client", "upstream"), ALL)
def test_translate_a_request(run: Run, client: Dialect, upstream: Dialect) -> None:
    output = _translate(run, client, upstream, dump(request(client, stream=True)), "--model", "other")
    assert output.status == 0
    body = json.loads(output.out)
    assert body["model"] == "other"
    assert body["stream"] is True
    assert output.out.endswith(b"\n")
    assert output.err == "no losses\n"


@pytest.mark.parametrize(("upstream", "client"), CROSS)
def test_translate_a_reply(run: Run, upstream: Dialect, client: Dialect) -> None:
    output = _translate(run, upstream, client, dump(reply(upstream)))
    assert output.status == 0
    body = json.loads(output.out)
    text = body["content"][0]["text"] if client is MESSAGES else body["choices"][0]["message"]["content"]
    assert text == TEXT


@pytest.mark.parametrize(("upstream", "client"), CROSS)
def test_translate_a_stream(run: Run, tmp_path: Path, upstream: Dialect, client: Dialect) -> None:
    path = tmp_path / "recorded.sse"
    path.write_bytes(b"".join(text_stream(upstream)))
    output = run("translate", "--from", upstream, "--to", client, str(path))
    assert output.status == 0
    result = judge(client, output.out, include_usage=True)
    assert (result.text, result.error) == (TEXT, None)


@pytest.mark.parametrize(("upstream", "client"), CROSS)
def test_translate_a_cut_stream(run: Run, upstream: Dialect, client: Dialect) -> None:
    output = _translate(run, upstream, client, b"".join(text_stream(upstream)[:4]))
    assert judge(client, output.out, include_usage=True).error is not None


def test_translate_reports_losses_and_rejects_them_on_demand(run: Run) -> None:
    data = dump(request(CHAT, seed=7))
    output = _translate(run, CHAT, MESSAGES, data)
    assert output.status == 0
    assert "seed" not in json.loads(output.out)
    assert re.search(r"^loss \w+ at seed: .+$", output.err, re.MULTILINE)
    strict = _translate(run, CHAT, MESSAGES, data, "--knob", "on_loss=reject")
    assert strict.status == 1
    assert strict.out == b""
    assert strict.err.startswith("dragoman: seed: ")


@pytest.mark.parametrize(
    ("args", "data", "status", "expected"),
    [
        (("--knob", "on_los=reject"), b'{"messages": []}', 2, "--knob on_los=reject: expected one of on_loss"),
        (("--knob", "on_loss=maybe"), b'{"messages": []}', 2, "--knob on_loss=maybe: expected one of record, reject"),
        (("--profile", "nobody"), b'{"messages": []}', 2, "--profile: expected one of"),
        ((), b"{}", 1, "neither a request body nor a reply"),
        ((), b"hello", 1, "neither an event stream nor JSON"),
        ((), b'{"model": "m", "messages": [{"role": "user", "content": 7}]}', 1, "messages[0].content: expected"),
        (("--kind", "request"), b'{"model": "m"}', 1, "messages: is required"),
    ],
)  # fmt: skip
def test_translate_reports_errors(run: Run, args: tuple[str, ...], data: bytes, status: int, expected: str) -> None:
    output = _translate(run, CHAT, MESSAGES, data, *args)
    assert output.status == status
    assert expected in output.err
    assert output.out == b""


def test_translate_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    output = run("translate", "--from", "chat", "--to", "messages", str(tmp_path / "none.json"))
    assert output.status == 1
    assert "none.json" in output.err


def test_a_misspelt_command_or_option(run: Run) -> None:
    for words, name, meant in (
        (("sevre",), "dragoman", "serve"),
        (("serve", "--prot", "80"), "dragoman serve", "--port"),
        (("run", "cluade"), "dragoman run", "claude"),
        (("keys", "lst"), "dragoman keys", "list"),
        (("keys", "add", "x", "--monthly-tokns", "5"), "dragoman keys add", "--monthly-tokens"),
        (("import", "litelm", "x"), "dragoman import", "litellm"),
        (("capture", "lits"), "dragoman capture", "list"),
        (("completion", "bsh"), "dragoman completion", "bash"),
        (("usage", "--by", "modle"), "dragoman usage", "model"),
        (("explain", "--client", "codx", "-"), "dragoman explain", "codex"),
        (("translate", "--form", "chat", "-"), "dragoman translate", "--from"),
        (("receipts", "--lst", "5"), "dragoman receipts", "--last"),
        (("serve", "--dialect", "opnai"), "dragoman serve", "openai"),
    ):
        output = run(*words)
        assert output.status == 2
        assert output.err.startswith(f"usage: {name} ")
        assert f'(did you mean "{meant}"?)' in output.err
        assert output.err.endswith(f"for all options: {name} --help\n")


def test_without_a_command_there_is_the_help(run: Run) -> None:
    output = run()
    assert output.status == 2
    for name in ("serve", "run", "receipts", "check"):
        assert re.search(rf"^    {name} ", output.err, re.MULTILINE), name
    assert "make a key" in run("keys").err


def test_a_wrong_configuration_names_its_file_and_its_values(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[server]\nport = "eighty"\nkeys = "topsecret"\n')
    output = run("check", str(path))
    assert output.status == 2
    assert f'wrong configuration in {path}:\nserver.port: expected an integer; got "eighty"\n' in output.err
    assert "topsecret" not in output.err


def test_check_of_a_configuration_of_litellm_names_the_import(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model_list:\n  - model_name: x\n    litellm_params: {model: openai/x}\n")
    for words in (("check", str(path)), ("serve", str(path)), ("serve", "-c", str(path))):
        output = run(*words)
        assert (output.status, f"`dragoman import litellm {path}` converts it" in output.err) == (2, True)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_command(option: str) -> None:
    """Each module costs start-up time."""
    lazy = ("cli.run_agent", "cli.list_models", "cli.choose_model", "cli.found_models", "cli.show_receipts")
    code = f"import sys; from dragoman_server.cli.main import main\ntry: main([{option!r}])\nexcept SystemExit: "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {f"dragoman_server.{name}" for name in lazy} & loaded
    assert len(loaded) <= MODULES_OF_HELP, f"{len(loaded)} modules"


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("frobnicate",),
        ("translate", "-"),
        ("translate", "--from", "klingon", "--to", "chat", "-"),
        ("explain", "--from", "chat", "-"),
        ("serve", "--port", "x"),
        ("serve", "--workers", "many"),
        ("serve", "--workers", "-1"),
    ],
)
def test_wrong_usage_exits_2(run: Run, args: tuple[Any, ...]) -> None:
    output = run(*args)
    assert output.status == 2
    assert "usage: dragoman" in output.err
