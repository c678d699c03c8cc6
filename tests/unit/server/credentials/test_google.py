"""Tokens of Google from a token endpoint on loopback, with a service account's key."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman_server.config.provider import Secret
from dragoman_server.credentials.credential import SourceError
from dragoman_server.credentials.google import GoogleToken
from support.token_endpoint import TokenEndpoint, google_tokens, service_account, token_endpoint

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    with token_endpoint(lambda _, __: (200, {})) as served:
        served.reply = lambda _, __: (200, google_tokens(len(served.paths)))
        file = tmp_path / "account.json"
        file.write_text(json.dumps(service_account(served.url)))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        yield served


async def test_each_fetch_is_a_new_token(endpoint: TokenEndpoint) -> None:
    tokens = GoogleToken(SCOPE)
    first = await tokens.fetch()
    assert first.value == Secret("canary-1")
    assert 3500 < first.seconds <= 3600
    assert (await tokens.fetch()).value == Secret("canary-2")
    assert endpoint.paths == ["/token", "/token"]


async def test_the_clock_decides_how_long_it_is_valid(endpoint: TokenEndpoint) -> None:
    grant = await GoogleToken(SCOPE, now=lambda: time.time() + 600).fetch()
    assert 2900 < grant.seconds <= 3000
    assert endpoint.paths == ["/token"]


async def test_an_endpoint_that_refuses(endpoint: TokenEndpoint) -> None:
    endpoint.away = True
    with pytest.raises(SourceError, match=r"google-auth gave no token \(RefreshError\)") as caught:
        await GoogleToken(SCOPE).fetch()
    assert "canary" not in str(caught.value)


async def test_credentials_that_are_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    with pytest.raises(SourceError, match="gcloud auth application-default login"):
        await GoogleToken(SCOPE).fetch()
