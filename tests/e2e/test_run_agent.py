"""`dragoman run`: a stand-in for an agent, on the PATH, that prints its environment and makes one real request."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.cli.agents import AGENTS, Access
from support.commands import Command, command, environment
from support.gateways import served
from support.model_server import ASKED, model_server
from support.sockets import ScriptedServer

pytestmark = pytest.mark.turns  # a row starts a process or more

AGENT = """\
#!{python}
import json, os, signal, sys, urllib.error, urllib.request

words = sys.argv[1:]
name = os.path.basename(sys.argv[0])
prefixes = ("ANTHROPIC", "CLAUDE", "DRAGOMAN", "OPENCODE", "no_", "NO_")
env = {{key: value for key, value in os.environ.items() if key.startswith(prefixes)}}
told = {{"words": words, "env": env}}
if name == "claude":
    base, key = env["ANTHROPIC_BASE_URL"], env.get("ANTHROPIC_AUTH_TOKEN", "")
    path, body = "/v1/messages", {{"max_tokens": 99, "messages": [{{"role": "user", "content": "Hi"}}]}}
    model = env.get("ANTHROPIC_MODEL", "claude-sonnet-5")
elif name == "codex":
    settings = dict(word.split("=", 1) for option, word in zip(words, words[1:]) if option == "-c")
    import tomllib
    config = tomllib.loads("\\n".join(f"{{key}} = {{value}}" for key, value in settings.items()))
    provider = config["model_providers"][config["model_provider"]]
    base, key = provider["base_url"], os.environ[provider["env_key"]]
    path, body, model = "/responses", {{"input": "Hi"}}, config.get("model", "gpt-5.5")
else:
    config = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    which, _, model = config["model"].partition("/")
    options = config["provider"][which]["options"]
    base, key = options["baseURL"], os.environ[options["apiKey"].removeprefix("{{env:").removesuffix("}}")]
    path, body = "/chat/completions", {{"messages": [{{"role": "user", "content": "Hi"}}]}}
headers = {{"content-type": "application/json", "authorization": f"Bearer {{key}}"}}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
request = urllib.request.Request(base + path, json.dumps({{"model": model, **body}}).encode(), headers)
with opener.open(request) as response:
    told["answer"] = response.read().decode()
bare = urllib.request.Request(base + path, b"{{}}", {{"content-type": "application/json"}})
try:
    opener.open(bare)
except urllib.error.HTTPError as error:
    told["without_key"] = error.code
open({out!r}, "w").write(json.dumps(told))
if words[-1:] == ["wait"]:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(40 + number))
    print("waits", file=sys.stderr, flush=True)
    signal.pause()
if words[-1:] == ["die"]:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(7)
"""


def _installed(folder: Path, *names: str) -> dict[str, str]:
    """The environment with agents of these names on its PATH."""
    folder.mkdir()
    for name in names:
        program = folder / name
        program.write_text(AGENT.format(python=sys.executable, out=str(folder / "told.json")))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def _reported(folder: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return expected


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
async def test_an_agent_talks_to_the_gateway_and_both_end(tmp_path: Path, agent: str) -> None:
    env = _installed(tmp_path / "bin", agent)
    async with command(
        "run", agent, "--simulate", "--model", "sim-text", "--", "-p", "a b", "--", "x", **env
    ) as process:
        url = (await process.writes(r"uses the gateway at (http://127\.0\.0\.1:(\d+))"))[2]
        assert await process.ends() == 7
    expected = _reported(tmp_path / "bin")
    assert expected["words"][-4:] == ["-p", "a b", "--", "x"]
    assert "You said: Hi" in expected["answer"]
    assert "sim-text" in expected["answer"]
    assert expected["without_key"] == 401, "the key is this agent's alone"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(url))
    key = expected["env"].get("ANTHROPIC_AUTH_TOKEN") or expected["env"]["DRAGOMAN_RUN_KEY"]
    assert key not in process.stated
    assert "Traceback" not in process.stated


async def test_claude_s_other_ways_are_closed_and_a_proxy_is_passed_by(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude")
    others = {
        "ANTHROPIC_API_KEY": "sk-the-users-own",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "intern",
    }
    async with command("run", "claude", "--simulate", **env, **others) as process:
        assert await process.ends() == 7
    expected = _reported(tmp_path / "bin")["env"]
    assert "ANTHROPIC_API_KEY" not in expected
    assert "CLAUDE_CODE_USE_BEDROCK" not in expected
    assert "ANTHROPIC_MODEL" not in expected, "its own choice"
    assert expected["NO_PROXY"] == "intern,127.0.0.1"


async def _waiting(process: Command) -> None:
    await process.writes("^waits$")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_are_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    """There is no terminal here: at one, Ctrl-C reaches the agent by itself."""
    env = _installed(tmp_path / "bin", "claude")
    async with command("run", "claude", "--simulate", "--", "wait", **env) as process:
        await _waiting(process)
        assert len(process.children()) == 1
        process.process.send_signal(number)
        assert await process.ends() == 40 + number


async def test_the_exit_status_of_an_agent_ended_by_a_signal_is_that_of_a_shell(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude")
    async with command("run", "claude", "--simulate", "--", "die", **env) as process:
        assert await process.ends() == 128 + signal.SIGKILL


@pytest.mark.parametrize("agent", AGENTS.values(), ids=list(AGENTS))
async def test_an_agent_that_is_not_installed(tmp_path: Path, agent: Any) -> None:
    async with command("run", agent.name, "--simulate", PATH=str(tmp_path)) as process:
        assert await process.ends() == 127
    assert f"{agent.title} is not installed: there is no {agent.name} on the PATH" in process.stated
    assert f"install it with: npm install -g {'' if agent.name == 'opencode' else '@'}" in process.stated


async def test_the_log_goes_to_a_file(tmp_path: Path) -> None:
    env, log = _installed(tmp_path / "bin", "claude"), tmp_path / "gateway.log"
    words = ("--log-file", str(log), "--log-format", "json")
    async with command("run", "claude", "--simulate", *words, **env) as process:
        assert await process.ends() == 7
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [record["status"] for record in records if record.get("event") == "request"] == [200, 401]
    assert "req_" not in process.stated


async def test_a_wrong_configuration_and_a_wrong_word_start_nothing(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude", "opencode")
    path = tmp_path / "patterns.toml"
    path.write_text(
        '[providers.up]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[[routes]]\nmodel = "gpt-*"\nprovider = "up"\n'
    )
    for words, expected in (
        (("claude", "-c", str(tmp_path / "none.toml")), "cannot be read"),
        (("claude", "-p", "hi"), "put the agent's own after --"),
        (("opencode", "-c", str(path)), "--model: opencode needs a model's name"),
        (
            ("opencode", "-c", str(path), "--model", "qwen"),
            "--model: model 'qwen' is not configured; patterns: gpt-*, up/*",
        ),
    ):
        async with command("run", *words, **env) as process:
            assert await process.ends() == 2
        assert expected in process.stated
    assert not (tmp_path / "bin/told.json").exists()


def test_opencode_keeps_what_the_user_has_in_the_same_variable() -> None:
    theirs = {"theme": "x", "provider": {"mine": {"npm": "y"}}}
    access = Access("http://127.0.0.1:1", None, None, ("m",))
    launch = AGENTS["opencode"].launch(access, {"OPENCODE_CONFIG_CONTENT": json.dumps(theirs)})
    config = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert (config["theme"], config["model"]) == ("x", "dragoman/m")
    assert set(config["provider"]) == {"mine", "dragoman"}
    assert config["provider"]["dragoman"]["options"]["apiKey"] == "{env:OPENAI_API_KEY}", "the agent's own key"
    broken = AGENTS["opencode"].launch(access, {"OPENCODE_CONFIG_CONTENT": "{"})
    assert json.loads(broken.env["OPENCODE_CONFIG_CONTENT"])["model"] == "dragoman/m"


async def test_at_a_terminal_the_agent_has_the_screen_and_ctrl_c(tmp_path: Path) -> None:
    """Ctrl-C reaches the agent once, and warnings come when it has ended."""
    env = environment(**_installed(tmp_path / "bin", "claude"))
    words = [sys.executable, "-m", "dragoman_server", "run", "claude", "--simulate", "--", "wait"]
    pid, terminal = os.forkpty()
    if not pid:
        os.execve(sys.executable, words, env)
    loop = asyncio.get_running_loop()
    shown = ""
    async with asyncio.timeout(60):
        while "waits" not in shown:
            shown += (await loop.run_in_executor(None, os.read, terminal, 4096)).decode()
        os.write(terminal, b"\x03")
        _, status = await loop.run_in_executor(None, os.waitpid, pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 40 + signal.SIGINT
    assert "req_" not in shown, "no line of the log while the agent has the screen"


WINDOW = {
    "claude": lambda seen: seen["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"],
    "codex": lambda seen: dict(word.split("=", 1) for word in seen["words"] if "=" in word)["model_context_window"],
    "opencode": lambda seen: json.loads(seen["env"]["OPENCODE_CONFIG_CONTENT"])["provider"]["dragoman"]["models"][
        "qwen3"
    ]["limit"]["context"],
}


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
async def test_the_only_model_of_an_upstream_is_taken_with_its_context_window(tmp_path: Path, agent: str) -> None:
    env = _installed(tmp_path / "bin", agent)
    app = model_server("qwen3", max_model_len=40960)
    async with served(app) as (url, _), command("run", agent, "--base-url", f"{url}/v1", **env) as process:
        assert await process.ends() == 7, process.stated
    seen = _reported(tmp_path / "bin")
    assert "qwen3" in seen["answer"]
    assert str(WINDOW[agent](seen)) == "40960"
    assert app[ASKED][0] == ("/v1/models", ""), "before the agent starts"


async def test_of_several_models_one_must_be_named(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude", "codex", "opencode")
    async with served(model_server("a", "b", max_model_len=4096)) as (url, _):
        for agent in ("claude", "codex", "opencode"):
            async with command("run", agent, "--base-url", f"{url}/v1", **env) as process:
                assert await process.ends() == 2
            assert "there are several models: a, b\n" in process.stated
            assert f"name one: dragoman run {agent} --base-url {url}/v1 --model a\n" in process.stated
            assert not (tmp_path / "bin/told.json").exists()
        async with command("run", "claude", "--base-url", f"{url}/v1", "--model", "b", **env) as process:
            assert await process.ends() == 7
        assert '"b"' in _reported(tmp_path / "bin")["answer"]
        own = {**env, "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "1000", "ANTHROPIC_MODEL": "a"}
        async with command("run", "claude", "--base-url", f"{url}/v1", **own) as process:
            assert await process.ends() == 7
        assert _reported(tmp_path / "bin")["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "1000", "the user's own"


async def test_a_model_that_is_not_listed_is_reported(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude")
    async with (
        served(model_server("qwen3:32b", "llama")) as (url, _),
        command("run", "claude", "--base-url", f"{url}/v1", "--model", "qwen3:23b", **env) as process,
    ):
        await process.writes(r'does not list the model "qwen3:23b" \(did you mean "qwen3:32b"\?\)')
        await process.ends()


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
async def test_an_agent_is_not_started_without_an_upstream(tmp_path: Path, agent: str) -> None:
    env = _installed(tmp_path / "bin", agent)
    async with ScriptedServer([]) as server:
        where = server.url.removeprefix("http://")
    for more in ((), ("--model", "m")):
        async with command("run", agent, "--base-url", f"http://{where}/v1", *more, **env) as process:
            assert await process.ends() == 1
        assert process.stated == f"dragoman run: nothing listens on {where}: is the model server running?\n"
    async with served(model_server("m", status=401)) as (url, _):
        async with command("run", agent, "--base-url", f"{url}/v1", **env) as process:
            assert await process.ends() == 1
        assert "requires a key (401): set UPSTREAM_API_KEY" in process.stated
        async with command("run", agent, "--base-url", f"{url}/v1", UPSTREAM_API_KEY="wrong-7q3z", **env) as process:
            assert await process.ends() == 1
        assert "rejects the key (401): correct UPSTREAM_API_KEY" in process.stated
        assert "7q3z" not in process.stated
    assert not (tmp_path / "bin/told.json").exists()


async def test_an_upstream_without_a_list_of_models_is_used(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude")
    async with (
        served(model_server(status=404)) as (url, _),
        command("run", "claude", "--base-url", f"{url}/v1", **env) as process,
    ):
        assert await process.ends() == 7
    assert "does not list its models (404); name a model with --model" in process.stated
    assert "claude-sonnet-5" in _reported(tmp_path / "bin")["answer"]


async def test_one_of_two_providers_may_be_away(tmp_path: Path) -> None:
    env, path = _installed(tmp_path / "bin", "claude"), tmp_path / "dragoman.toml"
    app = model_server("qwen3")
    async with ScriptedServer([]) as server:
        away = server.url
    async with served(app) as (url, _):
        text = f'[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\n[models]\nbig = "up/qwen3"\n'
        path.write_text(f'{text}[providers.away]\ndialect = "chat"\nbase_url = "{away}/v1"\n')
        async with command("run", "claude", "-c", str(path), **env) as process:
            assert await process.ends() == 7
        assert "nothing listens on" in process.stated
        async with command("run", "claude", "-c", str(path), "--model", "away/x", **env) as process:
            assert await process.ends() == 1
    assert ("/v1/chat/completions", "qwen3") in app[ASKED]


async def test_the_advice_without_a_configuration_is_for_run(tmp_path: Path) -> None:
    env = _installed(tmp_path / "bin", "claude")
    async with command("run", "claude", cwd=tmp_path, **env) as process:
        assert await process.ends() == 2
    assert "dragoman run claude --base-url URL" in process.stated
    assert "dragoman run claude -c FILE.toml" in process.stated
    assert "serve" not in process.stated
