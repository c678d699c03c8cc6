"""The examples below docs/examples run, and the configurations among them are valid and do what they describe."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Secret
from dragoman_server.config.schema import Config
from dragoman_server.simulator import REQUESTS
from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator
from real_clients import packages
from real_clients.framework_python import CLIENTS, LANGCHAIN
from support import commands
from support.asgi import asgi_server
from support.commands import Command, command
from support.gateways import gate, served
from support.json_schemas import schema_problems
from support.paths import ROOT
from support.programs import installed
from support.redis_server import redis_server
from support.samples import judge
from support.waiting import until_true
from vendors.hosts import Host
from vendors.sessions import SESSIONS, Session, play
from vendors.strict_host import KEY, strict_host

EXAMPLES = ROOT / "docs/examples"
CONFIGURATIONS = sorted(EXAMPLES.glob("*/dragoman.toml"))
FILES = [path for path in sorted(EXAMPLES.rglob("*.*")) if "__pycache__" not in path.parts]
MOST_LINES = 60
BODY = {"model": "claude-sonnet-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello!"}]}
VARIABLES = {
    "GATEWAY_KEY": "key-of-the-gateway",
    "ANTHROPIC_API_KEY": KEY,
    "OPENAI_API_KEY": KEY,
    "REDIS_URL": "redis://127.0.0.1:6379/0",
    "UPSTREAM_URL": "http://127.0.0.1:9/v1",
}
HEADERS = {"authorization": f"Bearer {VARIABLES['GATEWAY_KEY']}"}


def module(name: str) -> Any:
    """An example's module, which is not the main one."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def configuration(name: str) -> Config:
    """The configuration of an example, with variables of the tests."""
    return parse_config(tomllib.loads((EXAMPLES / name / "dragoman.toml").read_text("utf-8")), VARIABLES)


@asynccontextmanager
async def serve(path: Path, **env: str) -> AsyncIterator[tuple[Command, str]]:
    """`dragoman serve` with a file, on a free port: the process and the gateway's URL."""
    async with command("serve", str(path), "--host", "127.0.0.1", "--port", "0", **{**VARIABLES, **env}) as running:
        yield running, (await running.writes(r"dragoman listens on (http://\S+)"))[1]


# --- all of them -----------------------------------------------------------------------------------------------------


def test_the_index_lists_the_ten_examples() -> None:
    listed = re.findall(r"^\| \[([\w.-]+)\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE)
    assert [name for name, link in listed if not (EXAMPLES / link).is_file()] == []
    there = {path.name for path in EXAMPLES.iterdir() if path.name not in ("README.md", "__pycache__")}
    assert {name for name, _ in listed} == there
    assert len(listed) == 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.parent.name)
def test_a_configuration_is_valid_and_begins_with_its_purpose(path: Path, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    first, second = text.splitlines()[:2]
    assert (path.parent / first.removeprefix("#:schema ")).resolve() == ROOT / "docs/reference/dragoman.schema.json"
    assert second.startswith("# ")
    (tmp_path / "gateway_key").write_text("secret")
    data = tomllib.loads(text.replace("file:/run/secrets", f"file:{tmp_path}"))
    assert parse_config(data, VARIABLES).problems() == []
    assert schema_problems(data) == []


# --- programs --------------------------------------------------------------------------------------------------------


async def test_an_aiohttp_application_with_users() -> None:
    simulator = strict_simulator()
    async with (
        served(simulator) as (upstream, _),
        listening(module("aiohttp_users").make_app(f"{upstream}/v1"), "127.0.0.1", 0, drain=0.5) as url,
        ClientSession() as session,
    ):

        async def bill() -> dict[str, int]:
            async with session.get(f"{url}/bill") as response:
                return dict(await response.json())

        for key, expected in (("key-of-ada", 200), ("key-of-eve", 401)):
            async with session.post(f"{url}/llm/v1/messages", json=BODY, headers={"x-api-key": key}) as response:
                assert response.status == expected
        used = await bill()
        assert list(used) == ["ada"]
        headers = {"authorization": "Bearer key-of-bob"}
        body = {**BODY, "max_completion_tokens": 50, "stream": True}
        del body["max_tokens"]
        async with session.post(f"{url}/llm/v1/chat/completions", json=body, headers=headers) as response:
            assert (await response.text()).endswith("data: [DONE]\n\n")
        assert (await bill())["ada"] == used["ada"] > 0


async def test_an_asgi_application() -> None:
    async with (
        served(strict_simulator()) as (upstream, _),
        asgi_server(module("asgi_mount").make_app(f"{upstream}/v1")) as url,
        ClientSession() as session,
    ):
        async with session.get(url) as response:
            assert await response.text() == "the application itself\n"
        async with session.post(f"{url}/llm/v1/messages", json=BODY) as response:
            assert "You said: Hello!" in await response.text()


def test_the_translators_alone() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "translators.py"], capture_output=True, text=True, timeout=60, check=True
    )
    request, *stream = done.stdout.splitlines()
    sent = json.loads(request.removeprefix("request: "))
    assert (sent["model"], sent["top_k"], sent["messages"][0]["content"]) == ("qwen3", 40, "Hello!")
    assert stream[0] == "event: message_start", "vLLM takes top_k, so nothing is lost"
    judge(Dialect.MESSAGES, "".join(f"{line}\n" for line in stream).encode())


def langchain_python() -> str:
    """The interpreter that has LangChain: this one, or that of the real clients."""
    if importlib.util.find_spec("langchain_openai") is not None:
        return sys.executable
    client = next(each for each in CLIENTS if each.packages == LANGCHAIN)
    if (prefix := packages.installed(client)) is None:
        pytest.skip("langchain-openai is not installed: DRAGOMAN_CLIENTS=1 pytest tests/real_clients installs it")
    return str(prefix / "bin/python")


@pytest.mark.whole
async def test_langchain() -> None:
    interpreter = langchain_python()
    async with command("serve", "--simulate", "--port", "0") as running:
        url = (await running.writes(r"dragoman listens on (http://\S+)"))[1]
        process = await asyncio.create_subprocess_exec(
            *(interpreter, "-B", EXAMPLES / "langchain_client.py", url, "sim-tools"), stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(120):
            out, _ = await process.communicate()
    assert out.decode().count("It rains in Oslo.") == 2, "over Chat Completions and over Responses"


# --- agents ----------------------------------------------------------------------------------------------------------

_DOCS_VLLM = "https://docs.vllm.ai/en/stable/features/reasoning_outputs/"
VLLM = Host(
    page="vllm",
    profile="vllm",
    dialect=Dialect.CHAT,
    endpoint="/v1/chat/completions",
    types="openai.types.chat.completion_create_params:CompletionCreateParams",
    also=dict.fromkeys(("chat_template_kwargs", "top_k", "messages[].reasoning"), _DOCS_VLLM),
    reasoning="reasoning",
)
ANTHROPIC = Host(
    page="anthropic",
    profile="anthropic",
    dialect=Dialect.MESSAGES,
    endpoint="/v1/messages",
    types="anthropic.types.message_create_params:MessageCreateParams",
    header="x-api-key",
    error="anthropic",
)


@dataclass(frozen=True)
class ModelSession(Session):
    """A session that was recorded with another model's name."""

    model: str = ""

    def recorded(self, turn: int) -> tuple[dict[str, Any], dict[str, str], str]:
        body, headers, query = super().recorded(turn)
        return {**body, "model": self.model}, headers, query


def session(name: str, model: str) -> Session:
    found = next(session for session in SESSIONS if session.name == name)
    return ModelSession(found.name, found.path, found.kept, found.second, model)


async def test_claude_code_with_vllm() -> None:
    config = configuration("claude-code-vllm")
    async with strict_host(VLLM) as host:
        (provider,) = config.providers.values()
        assert provider.profile_name == "vllm"
        local = replace(provider, base_url=f"{host.url}/v1", api_key=Secret(KEY))
        async with gate(replace(config, providers={"vllm": local})) as up:
            played = await play(session("claude-code_tool", "claude-sonnet-5"), up)
    assert played.statuses == [200, 200], (played.replies[-1], [each.refused for each in host.arrived])
    assert {each.body["model"] for each in host.arrived} == {"Qwen/Qwen3-Coder-30B-A3B-Instruct"}
    assert all("max_tokens" in each.body for each in host.arrived)


async def test_codex_with_claude() -> None:
    config = configuration("codex-claude")
    async with strict_host(ANTHROPIC) as host:
        (provider,) = config.providers.values()
        near = replace(provider, base_url=host.url)
        async with gate(replace(config, providers={"anthropic": near})) as up:
            up.session.headers.update(HEADERS)
            played = await play(session("codex_patch-tool", "claude-sonnet-5"), up)
    assert played.statuses == [200, 200], (played.replies[-1], [each.refused for each in host.arrived])
    (sent,) = (tool for tool in host.arrived[0].body["tools"] if tool["name"] == "apply_patch")
    assert list(sent["input_schema"]["properties"]) == ["input"], "the free-text tool is a function"
    assert all(each.body["model"].startswith("claude-") for each in host.arrived)


def test_codex_is_configured_for_the_gateway() -> None:
    data = tomllib.loads((EXAMPLES / "codex-claude/codex.toml").read_text("utf-8"))
    provider = data["model_providers"][data["model_provider"]]
    config = configuration("codex-claude")
    assert provider["base_url"] == f"http://127.0.0.1:{config.server.port}/v1"
    assert (provider["wire_api"], provider["env_key"]) == ("responses", "GATEWAY_KEY")
    assert any(route.model == "claude-*" for route in config.routes)
    assert data["model"].startswith("claude-")


# --- gateways --------------------------------------------------------------------------------------------------------


def moved(name: str, folder: Path, replaced: Mapping[str, str]) -> Path:
    """The configuration of an example in another folder, with other base URLs."""
    text = (EXAMPLES / name / "dragoman.toml").read_text("utf-8")
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "dragoman.toml"
    path.write_text(text)
    return path


async def run(*words: str, **env: str) -> str:
    """Standard output of `dragoman` with these words."""
    status, out, err = await commands.run(*words, **{**VARIABLES, **env})
    assert status == 0, err
    return out.strip()


def models(simulator: web.Application) -> list[str]:
    """The models of the requests with a body: the others list models."""
    return [each.body["model"] for each in simulator[REQUESTS] if each.body]


async def test_a_team_with_budgets(tmp_path: Path) -> None:
    simulators = strict_simulator(), strict_simulator()
    async with AsyncExitStack() as first_runs, served(simulators[1]) as (second, _), ClientSession() as session:
        first, _ = await first_runs.enter_async_context(served(simulators[0]))
        urls = {"https://api.anthropic.com": first, "https://api.openai.com": second}
        path = moved("team-budgets", tmp_path, urls)
        alice = await run("keys", "add", "alice", "--daily-cost", "5", "-c", str(path))
        bob = await run("keys", "add", "bob", "--daily-cost", "0.000001", "-c", str(path))
        async with serve(path) as (_, url):

            async def status(key: str) -> int:
                body = {**BODY, "model": "assistant"}
                async with session.post(f"{url}/v1/messages", json=body, headers={"x-api-key": key}) as response:
                    await response.read()
                    return response.status

            assert await status(alice) == 200
            assert models(simulators[0]) == ["claude-sonnet-5"]
            await first_runs.aclose()
            assert await status(alice) == 200
            assert models(simulators[1]) == ["gpt-5.5"]
            assert await status(bob) == 429
            assert await status("another") == 401
            costs: dict[str, float] = {}

            async def is_booked() -> bool:
                """True once the rows of replies are in the file, a moment after them."""
                rows = json.loads(await run("usage", "--by", "key", "--json", "-c", str(path)))["data"]
                costs.update((row["key"], float(row["cost"])) for row in rows)
                return "alice" in costs

            await until_true(is_booked)
    assert costs["alice"] > 0
    assert not costs.get("bob")


async def test_two_hosts_share_what_redis_has(tmp_path: Path) -> None:
    with redis_server() as redis:
        async with served(strict_simulator()) as (upstream, _), ClientSession() as session:
            env = {"REDIS_URL": redis.url, "UPSTREAM_URL": f"{upstream}/v1"}
            path = moved("two-hosts", tmp_path, {})
            key = await run("keys", "add", "alice", "-c", str(path), **env)
            headers = {"authorization": f"Bearer {key}"}
            async with serve(path, **env) as (_, one), serve(path, **env) as (_, two):
                body: dict[str, Any] = {"model": "sim-text", "input": "Hello!"}
                async with session.post(f"{one}/v1/responses", json=body, headers=headers) as response:
                    made = (await response.json())["id"]
                again = {**body, "input": "And again", "previous_response_id": made}
                async with session.post(f"{two}/v1/responses", json=again, headers=headers) as response:
                    assert response.status == 200, await response.text()
                wish = {**headers, "x-dragoman-resume": "true"}
                async with session.post(f"{one}/v1/responses", json={**body, "stream": True}, headers=wish) as response:
                    stream, whole = response.headers["x-dragoman-resume"], await response.text()
                rest = {**headers, "x-dragoman-resume": stream}
                async with session.post(f"{two}/v1/responses", headers=rest) as response:
                    assert await response.text() == whole


def test_haproxy_takes_its_configuration() -> None:
    if (found := shutil.which("haproxy")) is None:
        pytest.skip("haproxy is not installed")
    done = subprocess.run(
        [found, "-c", "-f", EXAMPLES / "two-hosts/haproxy.cfg"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr


# --- Kubernetes ------------------------------------------------------------------------------------------------------

OVERLAY = EXAMPLES / "kubernetes-overlay"


def test_the_overlay_names_files_and_objects_below_it() -> None:
    overlay = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text("utf-8"))
    (below,) = overlay["resources"]
    folders = (OVERLAY / below, OVERLAY / below / "../base")
    objects = [yaml.safe_load(path.read_text("utf-8")) for folder in folders for path in folder.glob("*.yaml")]
    names = {(each["kind"], each["metadata"]["name"]) for each in objects if "metadata" in each}
    for patch in overlay["patches"]:
        patched = yaml.safe_load((OVERLAY / patch["path"]).read_text("utf-8"))
        assert (patched["kind"], patched["metadata"]["name"]) in names
    (base,) = (each for each in objects if "images" in each)
    assert {each["name"] for each in overlay["images"]} == {each["newName"] for each in base["images"]}
    assert overlay["configMapGenerator"][0]["name"] == base["configMapGenerator"][0]["name"]


def test_kustomize_builds_the_overlay() -> None:
    if (found := shutil.which("kubectl")) is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run([found, "kustomize", OVERLAY], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    objects = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    for each in objects.values():
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
        assert each["metadata"].get("namespace", "llm") == "llm"
    (metric,) = objects["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert metric["resource"]["name"] == "cpu"
    assert "replicas" not in objects["Deployment"]["spec"]
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/llm/dragoman:1.0.0"
    assert container["resources"]["requests"]["cpu"], "utilization is a share of what is requested"
    assert objects["ConfigMap"]["data"]["dragoman.toml"] == (OVERLAY / "dragoman.toml").read_text("utf-8")


# --- Prometheus and Grafana ------------------------------------------------------------------------------------------

METRICS = EXAMPLES / "prometheus-grafana"


def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    program = installed("promtool")
    for name in ("docs/examples/prometheus-grafana", "docs/deploy"):
        shutil.copytree(ROOT / name, tmp_path / name)
    folder = tmp_path / "docs/examples/prometheus-grafana"
    (folder / "metrics_key").write_text("key")
    done = subprocess.run(
        [program, "check", "config", "prometheus.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rules found" in done.stdout


def test_prometheus_and_grafana_find_each_other_and_the_gateway() -> None:
    config = yaml.safe_load((METRICS / "prometheus.yml").read_text("utf-8"))
    (job,) = config["scrape_configs"]
    server = Config().server
    assert job["static_configs"] == [{"targets": [f"{server.host}:{server.port}"]}]
    (source,) = yaml.safe_load((METRICS / "datasources.yaml").read_text("utf-8"))["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"].endswith(":9090"), "the port that Prometheus listens on by default"
    ours, theirs = (
        yaml.safe_load((folder / "dashboards.yaml").read_text("utf-8"))
        for folder in (METRICS, ROOT / "docs/deploy/grafana")
    )
    assert ours == theirs
