"""`[providers.NAME.credential]`: what each source takes, and the problems that name setting and cure."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.config import credential_options
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider

BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"


def parsed(credential: dict[str, Any], **more: Any) -> Provider:
    table = {"dialect": "chat", "base_url": "https://h.example/v1", "credential": credential, **more}
    return parse_config({"providers": {"p": table}}, {"HELPER": "/bin/helper"}, "/etc/dragoman").providers["p"]


def problems(credential: dict[str, Any], **more: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parsed(credential, **more)
    return {path.removeprefix("providers.p."): message for path, message in caught.value.problems}


@pytest.mark.parametrize(
    ("credential", "source", "header"),
    [
        ({"command": ["${HELPER}", "--x"], "ttl": 60}, "command", "bearer"),
        ({"file": "token"}, "file", "bearer"),
        ({"kind": "google"}, "google", "bearer"),
        ({"kind": "azure", "scope": "https://ai.azure.com/.default"}, "azure", "bearer"),
        ({"kind": "aws", "service": "bedrock", "region": "us-east-1", "profile": "work"}, "aws", "bearer"),
    ],
)
def test_each_source(credential: dict[str, Any], source: str, header: str) -> None:
    provider = parsed(credential)
    assert provider.credential is not None
    assert provider.credential.source == source
    assert provider.key_header == header
    assert provider.has_own_way
    assert provider.has_key
    assert provider.own_key == "p (providers.p.credential)"
    assert provider.credential.command == (("/bin/helper", "--x") if source == "command" else ())
    assert provider.credential.file == ("/etc/dragoman/token" if source == "file" else "")
    assert "/bin/helper" not in repr(provider.credential)
    assert hash(provider) == hash(parsed(credential))


def test_a_token_for_messages() -> None:
    assert parsed({"file": "t"}, dialect="messages").key_header == "x-api-key"
    assert parsed({"kind": "google"}, dialect="messages").key_header == "bearer"
    assert parsed({"kind": "azure"}, dialect="messages", auth_header="x-api-key").key_header == "x-api-key"


def test_the_scopes() -> None:
    assert CredentialOptions(kind="google").scope_used == "https://www.googleapis.com/auth/cloud-platform"
    assert CredentialOptions(kind="azure").scope_used == "https://cognitiveservices.azure.com/.default"
    assert CredentialOptions(kind="azure", scope="s").scope_used == "s"


def test_the_host_of_aws_may_be_overridden() -> None:
    assert CredentialOptions(kind="aws").aws_host(BEDROCK) == ("bedrock", "us-east-1")
    assert CredentialOptions(kind="aws", region="eu-west-1").aws_host(BEDROCK) == ("bedrock", "eu-west-1")
    assert CredentialOptions(kind="aws", service="s", region="r").aws_host("http://h") == ("s", "r")


@pytest.mark.parametrize(
    ("credential", "path", "message"),
    [
        ({}, "credential", "needs exactly one of command, file and kind; it has none"),
        ({"command": ["a"], "file": "f"}, "credential", "it has command and file"),
        ({"command": ["a"], "kind": "aws"}, "credential", "it has command and kind"),
        ({"command": []}, "credential", "it has none"),
        ({"command": [""]}, "credential.command[0]", "is empty: name a program"),
        ({"command": "a"}, "credential.command", "expected an array"),
        ({"kind": "gogle"}, "credential.kind", 'did you mean "google"?'),
        ({"file": "f", "ttl": 5}, "credential.ttl", "has no effect here: it is for command"),
        ({"command": ["a"], "ttl": 0}, "credential.ttl", "expected seconds above 0"),
        ({"command": ["a"], "scope": "s"}, "credential.scope", "it is for google and azure"),
        ({"kind": "google", "profile": "p"}, "credential.profile", "it is for aws"),
        ({"kind": "aws", "service": "s"}, "credential.region", "is required, as the host of base_url names no region"),
        ({"kind": "aws", "region": "r"}, "credential.service", "is required"),
        ({"file": "f", "tokn": 1}, "credential.tokn", "unknown key"),
    ],
)
def test_problems_name_the_setting(credential: dict[str, Any], path: str, message: str) -> None:
    assert message in problems(credential)[path]


def test_problems_of_the_provider() -> None:
    assert "remove one of the two" in problems({"file": "f"}, api_key="k")["api_key"]
    assert "remove one of the two" in problems({"file": "f"}, auth="passthrough")["credential"]
    assert "no effect" in problems({"kind": "aws"}, base_url=BEDROCK, auth_header="bearer")["auth_header"]


@pytest.mark.parametrize("kind", ["google", "azure", "aws"])
def test_a_library_that_is_not_installed_is_a_problem_with_its_cure(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(credential_options._PACKAGES, kind, ("dragoman_absent.module",))
    found = problems({"kind": kind}, base_url=BEDROCK)
    assert found == {
        "credential.kind": f"needs packages that are not installed: install Dragoman with the extra {kind}"
    }
    monkeypatch.setitem(credential_options._PACKAGES, kind, ("dragoman_absent",))
    assert problems({"kind": kind}, base_url=BEDROCK) == found
