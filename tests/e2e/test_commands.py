"""`init`, `check`, `explain --config`, `translate` and `completion`, in this process or against a real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.cli.commands import command_line
from dragoman_server.cli.main import main
from dragoman_server.cli.starter_config import STARTER
from dragoman_server.config.load import parse_config
from support.commands import HIDDEN, command, run
from support.gateways import ALL, CHAT, CROSS, config_for, gate
from support.samples import PATHS, dump, reply, request, text_stream
from support.sockets import ScriptedServer, answer

KEY = "sk-very-secret-4711"
CONFIG = """\
[providers.up]
dialect = "messages"
base_url = "{url}"
api_key = "{key}"
[[routes]]
model = "gpt-*"
provider = "up"
upstream_model = "claude-*"
client = "chat"
knobs = {{ on_loss = "reject" }}
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what a gateway would read from the environment of the tests."""
    import os

    for name in [name for name in os.environ if HIDDEN.match(name)]:
        monkeypatch.delenv(name)


def _config(path: Path, url: str = "http://127.0.0.1:9") -> str:
    path.write_text(CONFIG.format(url=url, key=KEY))
    return str(path)


# --- init ------------------------------------------------------------------------------------------------------------


def test_init_writes_what_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dragoman.toml"
    assert main(["init", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    assert "model * → local" in capsys.readouterr().err
    path.write_text("mine")
    assert main(["init", str(path)]) == 1
    assert path.read_text() == "mine"
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(["init", str(path), "--force"]) == 0
    assert path.read_text() == STARTER
    assert main(["init", "-"]) == 0
    assert capsys.readouterr().out == STARTER


def test_what_the_starter_has_as_comments_is_right_too() -> None:
    text = re.sub(r"^# (?=\[|[a-z_]+ = )", "", STARTER, flags=re.MULTILINE)
    env = dict.fromkeys(("GATEWAY_KEY", "LOCAL_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "x")
    config = parse_config(tomllib.loads(text), env)
    assert set(config.providers) == {"local", "anthropic", "openai", "gemini"}
    assert [route.model for route in config.routes] == ["claude-*", "gpt-*", "best", "*"]
    assert config.knobs_named == {"on_loss"}


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", "--config", _config(tmp_path / "a.toml")]) == 0
    out = capsys.readouterr().out
    expected = json.loads(out)
    assert (expected["object"], expected["ok"], expected["problems"]) == ("dragoman.check", True, [])
    assert expected["providers"] == [
        {
            "name": "up",
            "dialect": "messages",
            "base_url": "http://127.0.0.1:9",
            "key": True,
            "auth": "configured",
            "profile": "compatible",
        }
    ]
    assert expected["routes"][0]["upstream_model"] == "claude-*"
    assert KEY not in out
    (tmp_path / "b.toml").write_text("[server]\nport = 'x'\nprot = 1\n")
    assert main(["check", "--json", str(tmp_path / "b.toml")]) == 2
    expected = json.loads(capsys.readouterr().out)
    assert (expected["ok"], [each["path"] for each in expected["problems"]]) == (False, ["server.port", "server.prot"])


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize(
    ("status", "fine", "expected"),
    [
        (400, True, "answers (400 to an empty request)"),
        (422, True, "answers (422 to an empty request)"),
        (401, False, "rejects the key: 401 because"),
        (404, False, "has no endpoint http://127.0.0.1:"),
        (503, False, "is unavailable: 503 because"),
    ],
)
async def test_check_connect(tmp_path: Path, status: int, fine: bool, expected: str, transport: str) -> None:
    body = dump({"error": {"message": f"because {KEY}", "type": "x"}})
    async with ScriptedServer(answer(status, body)) as server:
        path = tmp_path / "a.toml"
        name = _config(path, f"{server.url}?key={KEY}")
        path.write_text(f'{path.read_text()}[server]\ntransport = "{transport}"\n')
        async with command("check", "--connect", name) as process:
            assert await process.ends() == (0 if fine else 1)
        (asked,) = server.requests
    assert f"provider up: {expected}" in process.stated
    assert f"messages at {server.url}?key=***, with a key" in process.stated
    assert KEY not in process.stated
    assert asked.head.startswith(b"POST /v1/messages?")
    assert (asked.body, asked.headers["x-api-key"]) == (b"{}", KEY)


async def test_check_connect_of_an_upstream_that_is_away(tmp_path: Path) -> None:
    async with ScriptedServer([]) as server:
        url = server.url
    status, out, _ = await run("check", "--json", "--connect", _config(tmp_path / "a.toml", url))
    assert status == 1
    expected = json.loads(out)
    (attempt,) = expected["connect"]
    assert (expected["ok"], attempt["provider"], attempt["ok"], attempt["status"]) == (False, "up", False, None)
    assert attempt["message"].startswith("cannot connect to the upstream: Connection refused (127.0.0.1:")


# --- explain and translate -------------------------------------------------------------------------------------------


def test_explain_by_a_configuration(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    name, body = _config(tmp_path / "a.toml"), tmp_path / "request.json"
    body.write_bytes(dump(request(CHAT, model="gpt-5", max_completion_tokens=9)))
    assert main(["explain", "-c", name, "--json", str(body)]) == 0
    expected = json.loads(capfdbinary.readouterr().out)
    assert (expected["provider"], expected["upstream"], expected["upstream_model"]) == ("up", "messages", "claude-5")
    assert expected["body"]["model"] == "claude-5"
    assert expected["knobs"] == {"on_loss": "reject"}
    assert expected["url"] == "http://127.0.0.1:9/v1/messages"
    body.write_bytes(dump(request(CHAT, model="other")))
    assert main(["explain", "-c", name, str(body)]) == 1
    assert b"model 'other' is not configured; patterns: gpt-*, up/*" in capfdbinary.readouterr().err


@pytest.mark.parametrize("more", [("--to", "chat"), ("--knob", "on_loss=reject"), ("--profile", "openai")])
def test_explain_accepts_one_upstream_only(tmp_path: Path, more: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["explain", "-c", _config(tmp_path / "a.toml"), *more, "none.json"])
    assert stop.value.code == 2


@pytest.mark.parametrize(("client", "upstream"), ALL)
def test_translate_keeps_the_model_of_a_reply(
    tmp_path: Path, client: Dialect, upstream: Dialect, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    whole, streamed = tmp_path / "reply.json", tmp_path / "reply.sse"
    whole.write_bytes(dump({**reply(upstream), "model": "qwen3-next"}))
    events = b"".join(text_stream(upstream))
    streamed.write_bytes(events.replace(b'"model": "m"', b'"model": "qwen3-next"'))
    for path in (whole, streamed):
        assert main(["translate", "--from", upstream, "--to", client, str(path)]) == 0
        out = capfdbinary.readouterr().out
        assert set(re.findall(rb'"model": ?"([^"]+)"', out)) == {b"qwen3-next"}
        assert main(["translate", "--from", upstream, "--to", client, "--model", "mine", str(path)]) == 0
        assert set(re.findall(rb'"model": ?"([^"]+)"', capfdbinary.readouterr().out)) == {b"mine"}


@pytest.mark.parametrize(("client", "upstream"), ALL)
def test_translate_of_a_cut_stream_fails(
    tmp_path: Path, client: Dialect, upstream: Dialect, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "cut.sse"
    path.write_bytes(b"".join(text_stream(upstream)[:4]))
    assert main(["translate", "--from", upstream, "--to", client, str(path)]) == 1
    out, err = capfdbinary.readouterr()
    assert b"error" in out
    assert b"dragoman: the stream ends in an error: upstream stream ended before its terminal event" in err


@pytest.mark.parametrize("kind", ["reply", "stream"])
@pytest.mark.parametrize(("given", "is_"), CROSS)
def test_translate_names_the_dialect_of_another_reply(
    tmp_path: Path, given: Dialect, is_: Dialect, kind: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "input"
    path.write_bytes(dump(reply(is_)) if kind == "reply" else b"".join(text_stream(is_)))
    for target in CLIENT_DIALECTS:
        assert main(["translate", "--from", given, "--to", target, str(path)]) == 1
        out, err = capfdbinary.readouterr()
        assert err.decode() == f"dragoman: this is a {kind} of the dialect {is_}, not of {given}; use --from {is_}\n"
        assert out == b""


@pytest.mark.parametrize(
    ("word", "dialect"), [("openai", "chat"), ("anthropic", "messages"), ("responses", "responses")]
)
def test_vendors_names_are_understood(word: str, dialect: str) -> None:
    assert command_line().parse_args(["serve", "--base-url", "http://h", "--dialect", word]).dialect == dialect
    args = command_line().parse_args(["translate", "--from", word, "--to", word, "-"])
    assert (args.source, args.target) == (dialect, dialect)


# --- the rest --------------------------------------------------------------------------------------------------------


def test_the_version_has_a_short_form(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-V", "--version"):
        with pytest.raises(SystemExit) as stop:
            main([option])
        assert not stop.value.code
    short, long = capsys.readouterr().out.splitlines()
    assert short == long
    assert re.fullmatch(r"dragoman \d+\.\d+\.\d+ \(revision [0-9a-f]{12}(-dirty)?, Python 3\.\d+\.\d+\S*\)", short)


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("serve", "opencode", "log-format", "completion"))
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        ask = 'COMP_WORDS=(dragoman run co); COMP_CWORD=2; _shtab_dragoman; echo "${COMPREPLY[@]}"'
        got = subprocess.run(["bash", "-c", script + ask], text=True, capture_output=True, check=True)
        assert got.stdout.split() == ["codex"]


def test_completion_without_its_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "install Dragoman with the extra completion" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["{}/", "/v1/{}", "/{}"])
@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_a_slash_too_many_is_no_error(client: Dialect, upstream: Dialect, form: str) -> None:
    """As of a base URL that ends in one."""
    path = form.format(PATHS[client]).replace("/v1//v1/", "/v1//")
    assert path != PATHS[client]
    async with (
        ScriptedServer(answer(200, dump(reply(upstream)))) as server,
        gate(config_for(f"{server.url}/", upstream)) as entrance,
    ):
        url = f"{entrance.url}{path}"
        async with entrance.session.post(url, data=dump(request(client))) as response:
            assert response.status == 200
        assert [request.head.split()[1] for request in server.requests] == [PATHS[upstream].encode()]
