"""Other gateways, started as their documentation recommends for production: one worker, without a log if possible."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dragoman_bench.gateways.environments import ENVIRONMENTS, Environment
from dragoman_bench.gateways.gateway import ALL, SAME, Direction, Kind, Started, same_model
from dragoman_bench.gateways.launch import free_port, launch
from dragoman_bench.scenarios import models

_KEY = "sk-bench-5b1f0c9e7d2a4836a1c4e8f09b7d6325"
"""A fake key; long, because LiteLLM does not start with a short one."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Start of a peer for one direction: arguments, environment, files, and headers of its clients."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    ready: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    model: Callable[[str], str] = same_model


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway installed by `dragoman bench peers install NAME`. `setup` gets port, upstream URL and direction."""

    name: str
    kind: Kind
    directions: frozenset[Direction]
    about: str
    setup: Callable[[int, str, Direction], Setup]
    note: str = ""
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> Environment:
        """Its environment."""
        return ENVIRONMENTS[self.name]

    def missing(self) -> str | None:
        """Return advice if it is not installed, else None."""
        return self.environment.missing()

    def version(self) -> str:
        """Return the installed version, which may differ from the one that the rig installs."""
        return self.environment.installed_version()

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Start it for one direction. Raises StartError."""
        port = free_port()
        setup = self.setup(port, upstream_url, direction)
        command = [str(self.environment.program), *setup.arguments]
        return await launch(
            command,
            port,
            core,
            env=setup.env,
            files=setup.files,
            ready=setup.ready,
            headers=setup.headers,
            model=setup.model,
        )


def litellm(port: int, upstream: str, direction: Direction) -> Setup:
    """Set up LiteLLM's proxy, with every model listed: for unlisted ones it does not stream Responses.

    For Chat upstreams a setting disables its preference for Responses; for a Responses upstream, the model name of Chat
    clients selects it.
    """
    client, dialect = direction
    provider = "anthropic" if dialect == "messages" else "openai/responses" if client == "chat" else "openai"
    if dialect == "chat":
        provider = "openai"
    target: dict[str, Any] = {"api_base": upstream if dialect == "messages" else f"{upstream}/v1", "api_key": _KEY}
    if direction == ("responses", "chat"):
        target["use_chat_completions_api"] = True
    config = {
        "model_list": [
            {
                "model_name": model,
                "litellm_params": {"model": f"{provider}/{model}", **target},
                "model_info": {"supports_native_streaming": True},
            }
            for model in models()
        ],
        "litellm_settings": {
            "drop_params": True,
            "telemetry": False,
            "set_verbose": False,
            "use_chat_completions_url_for_anthropic_messages": dialect == "chat",
        },
        "general_settings": {"master_key": _KEY},
        "router_settings": {"num_retries": 0},
    }
    return Setup(
        ("--config", "{folder}/config.yaml", "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"),
        {
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "DISABLE_ADMIN_UI": "True",
            # The default is at most 500 open streams to one upstream.
            "AIOHTTP_CONNECTOR_LIMIT": "20000",
            "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "20000",
        },
        {"config.yaml": json.dumps(config, indent=2)},  # JSON is YAML
        "/health/liveliness",
        {"authorization": f"Bearer {_KEY}"},
    )


def llm_rosetta(port: int, upstream: str, direction: Direction) -> Setup:
    """Set up llm-rosetta's gateway. It routes exact model names only, so all names of the scenarios are listed."""
    kind = {"chat": "openai_chat", "messages": "anthropic", "responses": "openai_responses"}[direction[1]]
    base = upstream if direction[1] == "messages" else f"{upstream}/v1"
    config = {
        "providers": {kind: {"api_key": _KEY, "base_url": base}},
        "models": dict.fromkeys(models(), kind),
        "server": {
            "host": "127.0.0.1",
            "port": port,
            "open_on_no_keys": True,
            "data_dir": "{folder}/data",
            "request_log": {"success_max": 1, "error_max": 1},
        },
        "debug": {"error_dumps": False},
    }
    arguments = ("--config", "{folder}/config.jsonc", "--no-banner", "--log-level", "error")
    return Setup(arguments, {}, {"config.jsonc": json.dumps(config, indent=2)}, "/health")


def smg(port: int, upstream: str, direction: Direction) -> Setup:
    """Set up the Shepherd Model Gateway in front of one plain HTTP worker."""
    del direction
    arguments = (
        "launch", "--host", "127.0.0.1", "--port", str(port), "--worker-urls", upstream, "--policy", "round_robin",
        "--disable-health-check", "--disable-retries", "--disable-circuit-breaker", "--log-level", "error",
        "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()),
    )  # fmt: skip
    return Setup(arguments, ready="/readiness")


def sglang_router(port: int, upstream: str, direction: Direction) -> Setup:
    """Set up sglang's router in front of one plain HTTP worker."""
    del direction
    arguments = (
        "launch", "--host", "127.0.0.1", "--port", str(port), "--worker-urls", upstream, "--policy", "round_robin",
        "--disable-retries", "--disable-circuit-breaker", "--log-level", "error",
        "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()),
    )  # fmt: skip
    return Setup(arguments, ready="/readiness")


def portkey(port: int, upstream: str, direction: Direction) -> Setup:
    """Set up Portkey's gateway on Node.js. Headers of each request select the upstream."""
    provider = "anthropic" if direction[1] == "messages" else "openai"
    headers = {
        "x-portkey-provider": provider,
        "x-portkey-custom-host": f"{upstream}/v1",
        "authorization": f"Bearer {_KEY}",
    }
    return Setup(("--headless", f"--port={port}"), {"NODE_ENV": "production"}, {}, "/", headers)


def claude_code_router(port: int, upstream: str, direction: Direction) -> Setup:
    """Set up claude-code-router's service without routing rules: the model name contains the provider."""
    del direction
    config = {
        "HOST": "127.0.0.1",
        "PORT": port,
        "LOG": False,
        "APIKEY": _KEY,
        "Providers": [
            {
                "name": "bench",
                "api_base_url": f"{upstream}/v1/chat/completions",
                "api_key": _KEY,
                "models": list(models()),
            }
        ],
        "Router": {"default": f"bench,{models()[0]}"},
    }
    return Setup(
        ("start",),
        {"NODE_ENV": "production"},
        {".claude-code-router/config.json": json.dumps(config, indent=2)},
        "/health",
        {"x-api-key": _KEY},
        lambda model: f"bench,{model}",
    )


_PORTKEY = frozenset({("chat", "messages"), *SAME})
"""Directions in which it streams; it passes Responses on, but does not translate it."""

PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        peer.name: peer
        for peer in (
            Peer("litellm", "translate", ALL, "LiteLLM's proxy, one uvicorn worker", litellm),
            Peer(
                "llm-rosetta",
                "translate",
                ALL,
                "llm-rosetta's gateway, one process",
                llm_rosetta,
                "its log cannot be switched off: a line or two for each request, and a row in SQLite",
            ),
            Peer("smg", "pass", SAME, "Shepherd Model Gateway (Rust), same dialect only", smg),
            Peer(
                "sglang-router",
                "pass",
                SAME - {("messages", "messages")},
                "sglang's router (Rust), same dialect only, without Messages",
                sglang_router,
            ),
            Peer("portkey", "translate", _PORTKEY, "Portkey's gateway on Node.js", portkey),
            Peer(
                "claude-code-router",
                "translate",
                frozenset({("messages", "chat")}),
                "claude-code-router on Node.js, for Messages clients only",
                claude_code_router,
            ),
        )
    }
)
