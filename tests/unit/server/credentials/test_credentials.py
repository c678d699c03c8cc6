"""The credentials of a gateway: by provider, kept over a reload, and their sources."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from dragoman import Dialect
from dragoman.aio import Timeouts, UpstreamRequest
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.aws import AwsSource
from dragoman_server.credentials.credential import CredentialError, TokenSource
from dragoman_server.credentials.credentials import Credential, Credentials, source_of
from support.waiting import until

REQUEST = UpstreamRequest("http://h/v1", {}, b"{}", False, Timeouts())


def provider(credential: CredentialOptions, name: str = "p") -> Provider:
    return Provider(
        name, Dialect.CHAT, "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", credential=credential
    )


def in_file(tmp_path: Path, token: str) -> CredentialOptions:
    file = tmp_path / "token"
    file.write_text(token)
    return CredentialOptions(file=str(file))


@pytest.mark.parametrize("kind", ["google", "azure", "aws", "command", "file"])
def test_each_source(kind: str) -> None:
    named = {"command": CredentialOptions(command=("a",)), "file": CredentialOptions(file="/f")}
    source = source_of(provider(named.get(kind) or CredentialOptions(kind=kind)))
    assert isinstance(source, AwsSource if kind == "aws" else TokenSource)


async def test_a_request_gets_the_credential_and_a_new_one_after_a_refusal(tmp_path: Path) -> None:
    learned: list[tuple[str, Sequence[str]]] = []
    options = in_file(tmp_path, "canary-1")
    credential = Credentials(lambda name, texts: learned.append((name, list(texts)))).of(provider(options))
    sent, value = await credential.authorized(REQUEST)
    assert sent.headers == {"authorization": "Bearer canary-1"}
    assert credential.is_refusal(401)
    assert not credential.is_refusal(403)
    assert learned == [("p", ["canary-1"])]
    assert await credential.again(REQUEST, value) is None  # the file has the same token
    credential.renewal._again = 0.0
    in_file(tmp_path, "canary-2")
    again = await credential.again(REQUEST, value)
    assert again is not None
    assert again.headers == {"authorization": "Bearer canary-2"}
    assert learned[-1] == ("p", ["canary-2", "canary-1"])


def settled(credential: Credential) -> bool:
    return credential.renewal._task is None


async def test_a_reload_keeps_what_it_does_not_change(tmp_path: Path) -> None:
    kept, other = provider(in_file(tmp_path, "t")), provider(CredentialOptions(file="/absent"), "q")
    credentials = Credentials(lambda *_: None)
    credentials.configure([kept, other, Provider("plain", Dialect.CHAT, "http://h/v1", api_key=None)])
    found = credentials.of(kept), credentials.of(other)
    for each in found:
        await until(partial(settled, each))
    assert found[0].renewal.is_valid
    assert credentials.failing
    credentials.configure([kept])
    assert credentials.of(kept) is found[0]
    assert not credentials.failing
    assert credentials.of(other) is not found[1]
    await credentials.close()


async def test_closing_ends_a_command_that_runs() -> None:
    command = CredentialOptions(command=(sys.executable, "-c", "import time; time.sleep(600)"))
    credentials = Credentials(lambda *_: None)
    credentials.configure([provider(command)])
    waiting = asyncio.create_task(credentials.of(provider(command)).authorized(REQUEST))
    await asyncio.sleep(0)
    await credentials.close()
    with pytest.raises(CredentialError, match=r"providers\.p\.credential: the gateway is closed"):
        await waiting
