"""Identities of AWS from which `botocore` gets its keys: web identities (IRSA), roles, single sign-on, a program.

Its endpoints are on loopback (`AWS_ENDPOINT_URL_…`).
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import pytest

from dragoman_server.config.aws_host import AwsHost
from dragoman_server.credentials.aws import AwsSource
from dragoman_server.credentials.credential import SourceError
from dragoman_server.credentials.renewal import Renewal
from support.token_endpoint import TokenEndpoint, token_endpoint

PLACE = AwsHost("bedrock", "us-east-1")
ROLE = "arn:aws:iam::123456789012:role/models"
HOUR = 3600.0


def ends(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(time.time() + seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def sts(seconds: float, seen: list[dict[str, str]]) -> Iterator[TokenEndpoint]:
    """The Security Token Service: its keys have the number of the request, and are valid for `seconds`."""

    def reply(_: str, body: bytes) -> tuple[int, Any]:
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        seen.append(fields)
        action, number = fields["Action"], len(seen)
        keys = {"AccessKeyId": f"AKIA{number}", "SecretAccessKey": f"canary-secret-{number}"}
        keys |= {"SessionToken": f"canary-session-{number}", "Expiration": ends(seconds)}
        inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in keys.items())
        user = f"<AssumedRoleUser><Arn>{ROLE}</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser>"
        found = f"<Credentials>{inner}</Credentials>{user}"
        return 200, (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            f"<{action}Result>{found}</{action}Result></{action}Response>"
        )

    with token_endpoint(reply) as endpoint:
        yield endpoint


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets variables, and only these. Nothing outside of this machine is asked."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


async def session_of(source: AwsSource, *, refused: bool = False) -> str:
    return str((await source.fetch(refused=refused)).value.token)


async def test_a_web_identity(environment: Callable[..., None], tmp_path: Path) -> None:
    """As Kubernetes mounts it for a service account: its token is read again for each request to STS."""
    token, seen = tmp_path / "token", list[dict[str, str]]()
    token.write_text("identity-1")
    with sts(HOUR, seen) as endpoint:
        environment(AWS_ENDPOINT_URL_STS=endpoint.url, AWS_ROLE_ARN=ROLE, AWS_WEB_IDENTITY_TOKEN_FILE=str(token))
        source = AwsSource(PLACE)
        assert await session_of(source) == "canary-session-1"
        assert await session_of(source) == "canary-session-1"
        token.write_text("identity-2")
        assert await session_of(source, refused=True) == "canary-session-2"
    assert [fields["Action"] for fields in seen] == ["AssumeRoleWithWebIdentity"] * 2
    assert [fields["WebIdentityToken"] for fields in seen] == ["identity-1", "identity-2"]
    assert {fields["RoleArn"] for fields in seen} == {ROLE}


async def test_a_web_identity_that_expires(environment: Callable[..., None], tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    (tmp_path / "token").write_text("identity")
    with sts(60, seen) as endpoint:  # botocore renews keys ten minutes before their end
        environment(
            AWS_ENDPOINT_URL_STS=endpoint.url, AWS_ROLE_ARN=ROLE, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token")
        )
        source = AwsSource(PLACE)
        first, second = await session_of(source), await session_of(source)
    assert first != second


async def test_a_hundred_requests_wait_for_one_web_identity(environment: Callable[..., None], tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    learned: list[list[Any]] = []
    (tmp_path / "token").write_text("identity")
    with sts(HOUR, seen) as endpoint:
        environment(
            AWS_ENDPOINT_URL_STS=endpoint.url, AWS_ROLE_ARN=ROLE, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token")
        )
        renewal = Renewal(AwsSource(PLACE), "providers.p.credential", lambda values: learned.append([*values]))
        found = await asyncio.gather(*(renewal.current() for _ in range(100)))
        assert {keys.token for keys in found} == {"canary-session-1"}
        assert len(seen) == 1
        again = await asyncio.gather(*(renewal.after_refusal(found[0]) for _ in range(100)))
    assert {keys.token for keys in again if keys is not None} == {"canary-session-2"}
    assert len(seen) == 2
    assert len(learned) == 2


async def test_the_service_is_away(environment: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary-identity")
    with sts(HOUR, []) as endpoint:
        environment(
            AWS_ENDPOINT_URL_STS=endpoint.url, AWS_ROLE_ARN=ROLE, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token")
        )
        endpoint.away = True  # its error is not even XML
        with pytest.raises(SourceError, match=r"botocore gave no keys \(\w+\): check the profile") as caught:
            await AwsSource(PLACE).fetch(refused=False)
        endpoint.away = False
        endpoint.reply = lambda *_: (
            403,
            '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
            "<Code>AccessDenied</Code><Message>canary-message</Message></Error></ErrorResponse>",
        )
        with pytest.raises(SourceError, match=r"botocore gave no keys \(ClientError\): check the profile") as denied:
            await AwsSource(PLACE).fetch(refused=False)
    assert "canary" not in f"{caught.value}{denied.value}"


async def test_a_role_of_a_profile(environment: Callable[..., None], tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    (tmp_path / "credentials").write_text("[own]\naws_access_key_id = AKIDOWN\naws_secret_access_key = canary-own\n")
    (tmp_path / "config").write_text(
        f"[profile models]\nrole_arn = {ROLE}\nsource_profile = own\nexternal_id = e-1\nregion = us-east-1\n"
    )
    with sts(HOUR, seen) as endpoint:
        environment(AWS_ENDPOINT_URL_STS=endpoint.url)
        assert await session_of(AwsSource(PLACE, "models")) == "canary-session-1"
    assert (seen[0]["Action"], seen[0]["RoleArn"], seen[0]["ExternalId"]) == ("AssumeRole", ROLE, "e-1")


async def test_single_sign_on(
    environment: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the login that `aws sso login` keeps."""
    start = "https://corp.awsapps.example/start"
    (tmp_path / "config").write_text(
        f"[profile work]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = models\n"
        f"[sso-session corp]\nsso_region = us-east-1\nsso_start_url = {start}\n"
    )
    # botocore has read the home directory when it was imported.
    cache = tmp_path
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", str(cache))
    monkeypatch.setattr("botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR", str(cache))
    login = {"startUrl": start, "region": "us-east-1", "accessToken": "canary-login", "expiresAt": ends(8 * HOUR)}
    (cache / f"{hashlib.sha1(b'corp').hexdigest()}.json").write_text(json.dumps(login))

    def reply(path: str, _: bytes) -> tuple[int, Any]:
        assert path.startswith("/federation/credentials?")
        keys = {"accessKeyId": "AKIASSO", "secretAccessKey": "canary-s", "sessionToken": f"canary-{len(portal.paths)}"}
        return 200, {"roleCredentials": keys | {"expiration": int((time.time() + HOUR) * 1000)}}

    with token_endpoint(reply) as portal:
        environment(AWS_ENDPOINT_URL_SSO=portal.url)
        source = AwsSource(PLACE, "work")
        assert await session_of(source) == "canary-1"
        assert await session_of(source, refused=True) == "canary-2"
        login["expiresAt"] = ends(-HOUR)
        (cache / f"{hashlib.sha1(b'corp').hexdigest()}.json").write_text(json.dumps(login))
        with pytest.raises(SourceError, match="botocore gave no keys") as caught:
            await source.fetch(refused=True)
    assert "canary" not in str(caught.value)


async def test_a_program_of_a_profile(environment: Callable[..., None], tmp_path: Path) -> None:
    """`credential_process`, as in AWS' own configuration."""
    output = {
        "Version": 1,
        "AccessKeyId": "AKIAP",
        "SecretAccessKey": "s",
        "SessionToken": "t",
        "Expiration": ends(HOUR),
    }
    (tmp_path / "output.json").write_text(json.dumps(output))
    program = f"{sys.executable} -c \"print(open('{tmp_path / 'output.json'}').read())\""
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = {program}\n")
    assert await session_of(AwsSource(PLACE, "p")) == "t"
