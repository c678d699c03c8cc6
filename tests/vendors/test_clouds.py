"""The recorded sessions of agents pass the host of each cloud, with the configuration of the cloud's page.

Tokens come from the vendors' libraries, which get them from an endpoint on loopback.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.door import PLAIN
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from support.gateways import gate
from support.token_endpoint import google_tokens, service_account, token_endpoint
from vendors.cloud_host import SECRET, CloudHost, cloud_host
from vendors.clouds import CLOUDS, Cloud
from vendors.pages import MOST_LINES, blocks, configuration, led_to
from vendors.sessions import SESSIONS, Played, Session, play
from vendors.strict_host import KEY

by_cloud = pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.name)
Json = dict[str, Any]
TOKEN = "canary-1"
FIRST = ("claude-code_tool", "codex_patch-tool")
LATER = [
    pytest.param(session, id=session.name, marks=() if session.name in FIRST else pytest.mark.whole)
    for session in SESSIONS
]


@contextmanager
def credentials(config: Config, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Config, str]]:
    """The configuration with a credential that works here, and the token that requests will carry."""
    (provider,) = config.providers.values()
    found = provider.credential
    if found is None:
        yield config, KEY
    elif found.kind == "google":
        with token_endpoint(lambda *_: (200, google_tokens(1))) as endpoint:
            (folder / "account.json").write_text(json.dumps(service_account(endpoint.url)))
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(folder / "account.json"))
            yield config, TOKEN
    elif found.kind == "aws":
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        place = found.aws_host(provider.base_url)
        yield _with(config, replace(found, service=place.service, region=place.region)), ""
    else:
        yield _with(config, replace(found, command=("printf", KEY))), KEY


def _with(config: Config, credential: CredentialOptions) -> Config:
    providers = {name: replace(each, credential=credential) for name, each in config.providers.items()}
    return replace(config, providers=providers)


def _provider(config: Config) -> Provider:
    (provider,) = config.providers.values()
    return provider


async def _played(
    cloud: Cloud,
    session: Session,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Provider], Provider] = lambda provider: provider,
) -> tuple[CloudHost, Played]:
    """The host and the session, with the configuration of the page, whose provider `change` may replace."""
    page = configuration(cloud.host.page, cloud.host.dialect, KEY)
    with credentials(page, folder, monkeypatch) as (config, token):
        async with cloud_host(cloud, token) as host:
            moved = led_to(config, host.url)
            config = replace(moved, providers={name: change(each) for name, each in moved.providers.items()})
            server = replace(config.server, validate=1.0, overload=Overload(event_loop_lag=0.0))
            routes = config.routes or [Route("*", _provider(config).name)]
            login = {"authorization": f"Bearer {KEY}"} if _provider(config).auth is Auth.PASSTHROUGH else {}
            if cloud.host.dialect is Dialect.RESPONSES and session.name.startswith("codex"):
                session = replace(session, kept=items)  # its stream passes through
            async with gate(replace(config, server=server, routes=routes)) as entrance:
                entrance.session.headers.update(login)
                return host, await play(session, entrance)


def items(stream: str) -> list[Json]:
    """The output items of a stream of the host itself."""
    events = (json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {"))
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def text(stream: str) -> str:
    """The text of a client's stream."""
    events = (json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {"))
    deltas = [event.get("delta", "") for event in events if event["type"] != "message_delta"]
    return "".join(delta if isinstance(delta, str) else delta.get("text", "") for delta in deltas)


@by_cloud
def test_the_page_has_a_short_configuration(cloud: Cloud) -> None:
    for block in blocks(cloud.host.page):
        assert len(block.splitlines()) <= MOST_LINES
    provider = _provider(configuration(cloud.host.page, cloud.host.dialect, KEY))
    assert provider.profile_name == cloud.host.profile


@pytest.mark.few
@pytest.mark.parametrize("session", LATER)
@by_cloud
async def test_both_turns_pass(cloud: Cloud, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, played = await _played(cloud, session, tmp_path, monkeypatch)
    assert [arrived.refused for arrived in host.arrived] == [[], []]
    assert played.statuses == [200, 200]
    assert "The tool says: " in text(played.replies[1])


def _as_the_dialects_vendor(provider: Provider) -> Provider:
    """The provider without the defaults of its host."""
    profile = builtin_profile(provider.dialect).replace({"family": provider.name})
    return replace(provider, door=PLAIN, headers={}, profile=profile)


REFUSED = {
    "vertex-messages": "no endpoint",
    "azure-chat": "no endpoint",
    "bedrock-messages": "Unexpected value(s)",
    "copilot-messages": "a key in x-api-key",
    "copilot-chat": "no endpoint",
    "chatgpt-responses": "max_output_tokens",
}
"""Clouds that refuse what the dialect's vendor takes, and a part of a reason."""


@pytest.mark.few
@by_cloud
async def test_a_host_refuses_requests_for_the_dialects_vendor(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, played = await _played(cloud, SESSIONS[0], tmp_path, monkeypatch, _as_the_dialects_vendor)
    reasons = [f"{misfit.path}: {misfit.reason}" for arrived in host.arrived for misfit in arrived.refused]
    if cloud.name not in REFUSED:
        pytest.skip("it takes what the vendor takes, apart from signatures of calls")
    assert any(REFUSED[cloud.name] in reason for reason in reasons)
    assert played.statuses[-1] == 400
