"""Known clients are reported by the headers that were recorded of them, and get the knobs that they need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from dragoman.knobs import KNOBS, Knobs
from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Config
from dragoman_server.config.value_problems import value_problem
from dragoman_server.routing.client_profiles import (
    AGENT_MAX,
    AGENTS_KEPT,
    CLIENTS,
    ClientProfiles,
    explicit_knobs,
    knobs_by_client,
)
from dragoman_server.routing.router import Router
from support.paths import FIXTURES

REQUESTS = sorted(FIXTURES.glob("*.json"))
SENT_BY = {
    "claude-code": "claude-code",
    "codex": "codex",
    "opencode": "opencode",
    "qwen": "qwen-code",
    "ai-sdk": "ai-sdk",
    "openai-agents-node": "openai-agents-js",
    "openai-python": "openai-python-stream",
    "openai-node": "openai-node-stream",
}
"""Recorded client → profile; all others are SDKs and frameworks, which need nothing of their own."""
AGENT_NEEDED = {"qwen", "ai-sdk", "openai-agents-node", "openai-node"}
"""Clients known by their user agent only: Anthropic's SDKs name their helpers as OpenAI's for Node does."""
HELPER = "x-stainless-helper-method"
HELPERS = {"openai-python", "openai-node"}
"""SDKs that are recognised where their helper reads the stream, and not where the caller does."""
CODEX = {"user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)"}


def recorded(path: Path) -> tuple[str, CIMultiDict[str]]:
    recording = json.loads(path.read_bytes())
    return recording["client"], CIMultiDict(recording["request"]["headers"])


def noted(client: str, headers: CIMultiDict[str]) -> str | None:
    return None if client in HELPERS and HELPER not in headers else SENT_BY.get(client)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_a_recorded_request_is_recognised(path: Path) -> None:
    client, headers = recorded(path)
    found = ClientProfiles().recognise(headers)
    assert (found.name if found is not None else None) == noted(client, headers)


def test_each_known_client_was_recorded() -> None:
    recorded_clients = {recorded(path)[0] for path in REQUESTS}
    assert recorded_clients >= SENT_BY.keys()
    assert {client.name for client in CLIENTS} == set(SENT_BY.values())


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_a_changed_user_agent_leaves_the_other_evidence(path: Path) -> None:
    client, headers = recorded(path)
    headers["user-agent"] = "a-proxy/1.0"
    found = ClientProfiles().recognise(headers)
    expected = None if client in AGENT_NEEDED else noted(client, headers)
    assert (found.name if found is not None else None) == expected


@pytest.mark.parametrize(
    "agent",
    [
        "ai/6.0.326 ai-sdk/provider-utils/4.0.66 runtime/node.js/v20.20.2",  # `generateText`
        "ai-sdk/openai/3.0.141 ai-sdk/provider-utils/4.0.66 runtime/node.js/v20.20.2",  # `streamText`
        "ai-sdk-openai/4.0.118 ai-sdk-provider-utils/5.0.81 node.js/22",  # the same since version 7
    ],
)
def test_the_ai_sdk_has_several_agents(agent: str) -> None:
    found = ClientProfiles().recognise({"user-agent": agent})
    assert found is not None
    assert found.name == "ai-sdk"


@pytest.mark.parametrize(
    ("agent", "helper", "name"),
    [
        ("OpenAI/JS 7.57.0", "runTools", "openai-node-stream"),
        ("OpenAI/JS 7.57.0", None, None),
        ("AsyncOpenAI/Python 3.54.0", "chat.completions.stream", "openai-python-stream"),
        ("OpenAI/Python 3.54.0", "chat.completions.parse", None),
        ("Anthropic/JS 1.12.0", "stream", None),
        ("AsyncAnthropic/Python 2.12.0", "stream", None),
    ],
)
def test_openais_helpers_are_distinguished_from_the_rest_of_the_sdks(
    agent: str, helper: str | None, name: str | None
) -> None:
    found = ClientProfiles().recognise({"user-agent": agent} | ({HELPER: helper} if helper else {}))
    assert (found.name if found is not None else None) == name


def test_no_one_is_recognised_where_it_is_switched_off() -> None:
    assert ClientProfiles(enabled=False).recognise(CODEX) is None


@pytest.mark.parametrize("switch", [True, False])
def test_the_switch_is_a_key_of_the_server(switch: bool) -> None:
    assert configured({"server": {"client_profiles": switch}}).server.client_profiles is switch
    assert configured().server.client_profiles is True


def test_the_memory_for_user_agents_is_bounded() -> None:
    clients = ClientProfiles()
    for number in range(AGENTS_KEPT + 9):
        assert clients.recognise({"user-agent": f"stranger/{number}"}) is None
    assert len(clients._known) == AGENTS_KEPT
    long = ClientProfiles()
    assert long.recognise({"user-agent": "codex" + "x" * AGENT_MAX}) is not None
    assert not long._known
    assert long.recognise({}) is None


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_profile_changes_knobs_that_there_are(client: Any) -> None:
    assert client.why
    for name, value in client.knobs.items():
        assert value_problem(KNOBS[name], value) is None
        assert value != KNOBS[name].default


def test_what_the_operator_set_goes_before_a_client_profile() -> None:
    assert knobs_by_client(Knobs(), ())["codex"].reasoning_surface == "summary"
    assert knobs_by_client(Knobs(), {"reasoning_surface"})["codex"] == Knobs(error_codes="codex", heartbeats="event")
    assert "codex" not in knobs_by_client(Knobs(), {"reasoning_surface", "error_codes", "heartbeats"})
    assert explicit_knobs(Knobs(orphans="strip")) == {"orphans"}
    assert explicit_knobs(Knobs(), ["reasoning_surface"]) == {"reasoning_surface"}


def configured(toml: dict[str, Any] | None = None, **route: Any) -> Config:
    up = {"dialect": "chat", "base_url": "http://127.0.0.1:1/v1"}
    routes = [{"model": "m", "provider": "up", **({"knobs": route} if route else {})}]
    return parse_config({"providers": {"up": up}, "routes": routes, **(toml or {})}, {})


@pytest.mark.parametrize(
    ("toml", "route", "surface"),
    [
        ({}, {}, "summary"),
        ({"knobs": {"reasoning_surface": "reasoning_text"}}, {}, "reasoning_text"),
        ({"knobs": {"orphans": "strip"}}, {}, "summary"),
        ({}, {"reasoning_surface": "reasoning_text"}, "reasoning_text"),
        ({}, {"orphans": "strip"}, "summary"),
    ],
)
def test_defaults_then_the_client_then_the_operator(toml: Any, route: Any, surface: str) -> None:
    target = Router(configured(toml, **route)).resolve("m", "responses")  # type: ignore[arg-type]
    assert target.knobs_for("codex").reasoning_surface == surface
    assert target.knobs_for("codex").orphans == target.knobs.orphans
    assert target.knobs_for(None) is target.knobs
    assert target.knobs_for("qwen-code") is target.knobs


def test_targets_without_a_route_know_the_clients_too() -> None:
    router = Router(configured())
    for name in ("up/other", "up/third"):
        assert router.resolve(name, "responses").knobs_for("codex").reasoning_surface == "summary"  # type: ignore[arg-type]
    assert router.knobs_for("codex").reasoning_surface == "summary"
    assert router.knobs_for(None) is router.config.knobs
