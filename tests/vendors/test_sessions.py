"""The recorded sessions of agents pass the strict host of each vendor, with the configuration of the vendor's page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Config
from support.gateways import gate
from support.samples import request
from vendors import responses_replies
from vendors.hosts import HOSTS, Host
from vendors.pages import MOST_LINES, blocks, configuration, led_to
from vendors.sessions import SESSIONS, Played, Session, play
from vendors.strict_host import INDEX, KEY, StrictHost, strict_host

by_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
SHORT = ("claude-code_tool", "codex_patch-tool")
"""Sessions of the first stage, one of each client."""


def _sampled(sessions: Iterable[Session]) -> list[Any]:
    return [
        pytest.param(session, id=session.name, marks=() if session.name in SHORT else pytest.mark.whole)
        for session in sessions
    ]


async def _played(host: Host, session: Session, profile: str = "") -> tuple[StrictHost, Played]:
    """The host and the session, with the page's configuration, or with another profile."""
    async with strict_host(host) as strict:
        config = _led(host, strict)
        if profile:
            config = _with_profile(config, profile)
        async with gate(config) as entrance:
            return strict, await play(session, entrance)


def _led(host: Host, strict: StrictHost) -> Config:
    """The configuration of the page, led to the strict host."""
    config = led_to(configuration(host.page, host.dialect, KEY), strict.url)
    return replace(config, server=replace(config.server, validate=1.0, overload=Overload(event_loop_lag=0.0)))


def _plain_request(client: Dialect) -> Any:
    """A request whose fields all hosts have: a Chat client's own name for the cap is not one of them."""
    renamed: dict[str, Any] = {"max_completion_tokens": None, "max_tokens": 50} if client is Dialect.CHAT else {}
    return request(client, **renamed)


def _with_profile(config: Config, name: str) -> Config:
    """The configuration with another profile for each provider."""
    providers = {
        key: replace(provider, profile=builtin_profile(provider.dialect, name), profile_name=name)
        for key, provider in config.providers.items()
    }
    return replace(config, providers=providers)


@by_host
def test_the_page_has_a_short_configuration(host: Host) -> None:
    for block in blocks(host.page):
        assert len(block.splitlines()) <= MOST_LINES
    (provider,) = configuration(host.page, host.dialect, KEY).providers.values()
    assert provider.profile_name == host.profile


NOT_REPLAYED = {"cohere-chat", "fireworks-messages"}
"""Hosts that have no place for the reasoning of earlier turns, or whose pages state none."""


@pytest.mark.few
@pytest.mark.parametrize("session", _sampled(SESSIONS))
@by_host
async def test_both_turns_pass_and_the_host_s_own_reasoning_returns(host: Host, session: Session) -> None:
    strict, played = await _played(host, session)
    assert [arrived.refused for arrived in strict.arrived] == [[], []]
    assert played.statuses == [200, 200]
    assert "The tool says: " in played.replies[1]
    assert not played.lost & {"usage_estimated", "unknown_event"}
    second = strict.arrived[1].body
    thinks = "naïvely, one call." in strict.replies[0]
    assert thinks is bool(host.reasoning)
    returned = "naïvely, one call." in json.dumps(second, ensure_ascii=False)
    assert returned is (thinks and host.name not in NOT_REPLAYED)
    assert bool({*responses_replies.encrypted(second)}) is (thinks and host.encrypts)
    if returned and host.dialect is Dialect.CHAT:
        (answer,) = (message for message in second["messages"] if message["role"] == "assistant")
        if host.reasoning == "content":
            assert answer["content"][0]["type"] == "thinking"
        else:
            assert {host.reasoning, "reasoning_details"} & answer.keys()


@by_host
async def test_a_reply_that_is_not_streamed(host: Host) -> None:
    async with strict_host(host) as strict, gate(_led(host, strict)) as entrance:
        for client in CLIENT_DIALECTS:
            async with entrance.post(client, _plain_request(client)) as response:
                assert response.status == 200, await response.text()
    assert [arrived.refused for arrived in strict.arrived] == [[], [], []]


REFUSED = {
    "groq-chat": {"messages[].reasoning_content", "prompt_cache_key", "verbosity"},
    "cerebras-chat": {"messages[].reasoning_content", "verbosity"},
    "mistral-chat": {"stream_options", "user", "verbosity"},
    "cohere-chat": {"parallel_tool_calls", "prompt_cache_key", "tools[].function.strict", "verbosity"},
    "fireworks-chat": {"verbosity"},
    "fireworks-responses": {
        "client_metadata",
        "include",
        "input[].id",
        "prompt_cache_key",
        "safety_identifier",
        "tools[].search_content_types",
        "tools[].type",
    },
    "fireworks-messages": {"context_management", "messages[].role", "thinking.display", "tools[].defer_loading"},
    "together-chat": {
        "parallel_tool_calls",
        "prompt_cache_key",
        "tools[].function.strict",
        "user",
        "verbosity",
    },
    "nvidia-chat": {"prompt_cache_key", "verbosity"},
    "openrouter-messages": set(),
    "openrouter-responses": {
        "client_metadata",
        "input[].content[].type",
        "tools[].execution",
        "tools[].external_web_access",
        "tools[].name",
        "tools[].search_content_types",
        "tools[].type",
    },
    "openrouter-chat": {"messages[].reasoning_content"},
    "xai-responses": {
        "client_metadata",
        "input[].id",
        "safety_identifier",
        "text.verbosity",
        "tools[].search_content_types",
        "tools[].type",
    },
    "deepseek-messages": {"context_management", "messages[].role", "metadata.user_id", "thinking.display"},
}
"""Fields that each host refuses with the profile `compatible`, in the sessions of both clients."""


@pytest.mark.whole
@by_host
async def test_the_host_refuses_what_another_profile_sends(host: Host) -> None:
    found: set[str] = set()
    for session in SESSIONS:
        strict, played = await _played(host, session, "compatible")
        found |= {INDEX.sub("[]", misfit.path) for arrived in strict.arrived for misfit in arrived.refused}
        if any(arrived.refused for arrived in strict.arrived):
            assert played.statuses[-1] in (400, 422)
    assert found == REFUSED[host.name]


@by_host
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_refusal_names_its_field_in_the_client_s_form(host: Host, client: Dialect) -> None:
    async with strict_host(host) as strict:
        config = _led(host, strict)
        (name, provider), *_ = config.providers.items()
        door = replace(provider.door, body={"unheard_of": 1})
        config = replace(config, providers={name: replace(provider, door=door)})
        async with gate(config) as entrance:
            status, error, _ = await entrance.refusal(client, _plain_request(client))
    assert status in (400, 422)
    assert "unheard_of" in error.message


@by_host
async def test_another_credential_is_refused(host: Host) -> None:
    async with strict_host(host) as strict:
        config = _led(host, strict)
        (name, provider), *_ = config.providers.items()
        other = "bearer" if host.header == "x-api-key" else "x-api-key"
        config = replace(config, providers={name: replace(provider, door=replace(provider.door, auth_header=other))})
        async with gate(config) as entrance:
            status, _, _ = await entrance.refusal(Dialect.CHAT, request(Dialect.CHAT))
    assert status == 502
    assert [misfit.reason for misfit in strict.arrived[0].refused] == [f"no key in {host.header}"]
