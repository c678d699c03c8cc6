"""Tokens of Entra from a managed identity's endpoint on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman_server.config.provider import Secret
from dragoman_server.credentials.azure import AzureToken
from dragoman_server.credentials.credential import SourceError
from support.token_endpoint import TokenEndpoint, entra_tokens, token_endpoint

SCOPE = "https://cognitiveservices.azure.com/.default"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")  # no other one, such as the one of `az`
    monkeypatch.setenv("IDENTITY_HEADER", "header")
    with token_endpoint(lambda _, __: (200, {})) as served:
        served.reply = lambda _, __: (200, entra_tokens(len(served.paths)))
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{served.url}/msi/token")
        yield served


async def test_each_fetch_is_a_new_token(endpoint: TokenEndpoint) -> None:
    tokens = AzureToken(SCOPE)
    first = await tokens.fetch()
    assert first.value == Secret("canary-1")
    assert 3500 < first.seconds <= 3600
    # The upstream may have refused the one that the library keeps.
    assert (await tokens.fetch()).value == Secret("canary-2")
    assert all("resource=https" in path for path in endpoint.paths)


async def test_an_endpoint_that_refuses(endpoint: TokenEndpoint) -> None:
    endpoint.away = True
    with pytest.raises(SourceError, match=r"azure-identity gave no token \(.+\): run `az login`") as caught:
        await AzureToken(SCOPE).fetch()
    assert "canary" not in str(caught.value)
