"""The recorded sessions of agents pass the strict host of each vendor, with the configuration of the vendor's page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dragoman.profiles.profile import builtin_profile
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Config
from support.gateways import gate
from vendors.hosts import HOSTS, Host
from vendors.pages import MOST_LINES, blocks, configuration, led_to
from vendors.sessions import SESSIONS, Played, Session, play
from vendors.strict_host import INDEX, KEY, StrictHost, strict_host

by_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)


def _sampled(sessions: Iterable[Session]) -> list[object]:
    """One session of each client at once, the rest in the second stage."""
    first = {SESSIONS[0], next(session for session in SESSIONS if session.name == "codex_patch-tool")}
    return [
        pytest.param(session, id=session.name, marks=() if session in first else pytest.mark.whole)
        for session in sessions
    ]


async def _played(host: Host, session: Session, profile: str = "") -> tuple[StrictHost, Played]:
    """The host and the session, with the page's configuration, or with another profile."""
    config = configuration(host.page, host.dialect, KEY)
    async with strict_host(host) as strict:
        config = led_to(config, strict.url)
        if profile:
            config = _with_profile(config, profile)
        server = replace(config.server, validate=1.0, overload=Overload(event_loop_lag=0.0))
        async with gate(replace(config, server=server)) as entrance:
            return strict, await play(session, entrance)


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


@pytest.mark.parametrize("session", _sampled(SESSIONS))
@by_host
async def test_both_turns_pass(host: Host, session: Session) -> None:
    strict, played = await _played(host, session)
    assert [arrived.refused for arrived in strict.arrived] == [[], []]
    assert played.statuses == [200, 200]
    assert "The tool says: " in played.replies[1]


REFUSED = {
    "groq-chat": {"messages[].reasoning_content", "verbosity", "prompt_cache_key", "stream_options"},
    "cerebras-chat": {"messages[].reasoning_content", "verbosity"},
    "mistral-chat": {"messages[].reasoning_content", "verbosity", "user", "stream_options"},
}
"""Fields that each host refuses with the profile `compatible`, in the sessions of both clients."""


@by_host
async def test_the_host_refuses_what_another_profile_sends(host: Host) -> None:
    found: set[str] = set()
    for session in SESSIONS:
        strict, played = await _played(host, session, "compatible")
        found |= {INDEX.sub("[]", misfit.path) for arrived in strict.arrived for misfit in arrived.refused}
        if any(arrived.refused for arrived in strict.arrived):
            assert played.statuses[-1] in (400, 422)
    # A first turn that is refused hides what is wrong with the second one.
    assert found == REFUSED[host.name] or found | {"messages[].reasoning_content"} == REFUSED[host.name]
