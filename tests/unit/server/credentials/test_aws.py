"""Signatures of AWS: the published test vectors, botocore's own signer, a verifier of the bytes sent, and keys."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials

from dragoman.aio import Http11Transport, StreamTimers, Timeouts, UpstreamRequest
from dragoman_server.config.aws_host import AwsHost
from dragoman_server.credentials.aws import AwsSource
from dragoman_server.credentials.credential import SourceError
from support.sigv4 import verify
from support.sockets import Received, ScriptedServer, answer
from support.token_endpoint import token_endpoint

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
MOMENT = datetime.datetime(2015, 8, 30, 12, 36, 0)
SUITE_TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx"
    "7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q"
    "6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
FORM = "application/x-www-form-urlencoded"
VECTORS: list[tuple[str, str, str, dict[str, str], bytes, str, str]] = [
    ("get-vanilla", "GET", "/", {}, b"", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("post-vanilla", "POST", "/", {}, b"", "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    (
        "get-vanilla-query-order-key-case",
        *("GET", "/?Param2=value2&Param1=value1", {}, b"", ""),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "post-vanilla-query",
        *("POST", "/?Param1=value1", {}, b"", ""),
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
    (
        "get-vanilla-utf8-query",
        *("GET", "/?%E1%88%B4=bar", {}, b"", ""),
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    (
        "post-header-key-sort",
        *("POST", "/", {"my-header1": "value1"}, b"", ""),
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    (
        "post-header-value-case",
        *("POST", "/", {"my-header1": "VALUE1"}, b"", ""),
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
    ),
    (
        "post-sts-header-before",
        *("POST", "/", {}, b"", SUITE_TOKEN),
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
    (
        "post-x-www-form-urlencoded",
        *("POST", "/", {"content-type": FORM}, b"Param1=value1", ""),
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    (
        "post-x-www-form-urlencoded-parameters",
        *("POST", "/", {"content-type": f"{FORM}; charset=utf8"}, b"Param1=value1", ""),
        "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
    ),
]
"""Of AWS' Signature Version 4 test suite: name, method, target, headers, body, session token, signature."""


def request(url: str, headers: Mapping[str, str], body: bytes, method: str = "POST") -> UpstreamRequest:
    return UpstreamRequest(url, headers, body, False, Timeouts(), method)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda each: each[0])
async def test_the_published_vectors(
    vector: tuple[str, str, str, dict[str, str], bytes, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, method, target, headers, body, token, signature = vector
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: MOMENT)
    source = AwsSource(AwsHost("service", "us-east-1"))
    sent = await source.authorized(
        request(f"https://example.amazonaws.com{target}", headers, body, method),
        ReadOnlyCredentials(KEY, SECRET, token or None),
    )
    assert sent.headers["authorization"].endswith(f"Signature={signature}")
    assert sent.headers["authorization"].startswith(
        f"AWS4-HMAC-SHA256 Credential={KEY}/20150830/us-east-1/service/aws4"
    )
    assert sent.headers["x-amz-date"] == "20150830T123600Z"
    assert {name: sent.headers[name] for name in headers} == headers
    assert sent.body == body


@pytest.mark.parametrize("size", [0, 100, 300_000])
@pytest.mark.parametrize(
    "path", ["/openai/v1/chat/completions", "/model/anthropic.claude-v1%3A0/invoke", "/a b/ü?x=1&a"]
)
async def test_botocores_own_signer_agrees(path: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: MOMENT)
    url, headers = f"https://bedrock-runtime.us-east-1.amazonaws.com{path}", {"content-type": "application/json"}
    body = b"x" * size
    keys = ReadOnlyCredentials(KEY, SECRET, "session")
    sent = await AwsSource(AwsHost("bedrock", "us-east-1")).authorized(request(url, headers, body), keys)
    theirs = AWSRequest("POST", url, headers=headers, data=body)
    SigV4Auth(Credentials(KEY, SECRET, "session"), "bedrock", "us-east-1").add_auth(theirs)
    assert sent.headers["authorization"] == theirs.headers["Authorization"]
    assert sent.headers["x-amz-security-token"] == "session"


def check(received: Received, secret: str) -> None:
    first, *lines = received.head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    verify(method, target, headers, received.body, secret)


@pytest.mark.parametrize("path", ["/openai/v1/chat/completions", "/model/a%3A0%2Fb/invoke?b=2&a=1"])
async def test_the_signature_fits_the_bytes_that_are_sent(path: str) -> None:
    source = AwsSource(AwsHost("bedrock", "us-east-1"))
    body = b'{"model":"m","n":1.50}'
    async with ScriptedServer(answer(200, b"{}")) as server, Http11Transport() as transport:
        headers = {"content-type": "application/json", "x-dragoman-sender": "s", "anthropic-beta": "a, b"}
        call = request(server.url + path, headers, body)
        sent = await source.authorized(call, ReadOnlyCredentials(KEY, SECRET, None))
        with StreamTimers(sent.timeouts) as timers:
            response = await transport.open(sent, timers)
            await response.read(100)
            await response.close()
    (received,) = server.requests
    check(received, SECRET)
    with pytest.raises(AssertionError):
        check(received, "another")
    assert urlsplit(server.url).netloc.encode() in received.head


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets variables, and only these."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


async def test_keys_of_the_environment(environment: Callable[..., None]) -> None:
    environment(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
    source = AwsSource(AwsHost("bedrock", "us-east-1"))
    first = await source.fetch(refused=False)
    assert (first.value.access_key, first.value.secret_key) == (KEY, SECRET)
    assert (await source.fetch(refused=True)).value is first.value
    assert source.secrets(first.value) == (SECRET,)
    assert SECRET not in repr(first)
    environment(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY="another", AWS_SESSION_TOKEN="session")
    assert (await source.fetch(refused=False)).value is first.value
    changed = (await source.fetch(refused=True)).value
    assert source.secrets(changed) == ("another", "session")


async def test_keys_of_a_profile(environment: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(f"[work]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    assert (await AwsSource(AwsHost("s", "r"), "work").fetch(refused=False)).value.access_key == KEY
    with pytest.raises(SourceError, match=r"botocore gave no keys \(ProfileNotFound\): check the profile"):
        await AwsSource(AwsHost("s", "r"), "absent").fetch(refused=False)
    with pytest.raises(SourceError, match="botocore found no keys: set a profile"):
        await AwsSource(AwsHost("s", "r")).fetch(refused=False)


async def test_keys_of_a_container_are_renewed_by_botocore(environment: Callable[..., None]) -> None:
    def reply(_: str, __: bytes) -> tuple[int, Any]:
        ends = datetime.datetime.fromtimestamp(time.time() + 60, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        number = len(endpoint.paths)
        return 200, {"AccessKeyId": f"AKIA{number}", "SecretAccessKey": "s", "Token": f"t{number}", "Expiration": ends}

    with token_endpoint(reply) as endpoint:
        environment(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{endpoint.url}/role")
        source = AwsSource(AwsHost("bedrock", "us-east-1"))
        tokens = [(await source.fetch(refused=False)).value.token for _ in range(2)]
        assert len(set(tokens)) == 2  # they are about to expire each time
        endpoint.away = True
        with pytest.raises(SourceError, match="botocore gave no keys") as caught:
            await AwsSource(AwsHost("bedrock", "us-east-1")).fetch(refused=False)
    assert "canary" not in json.dumps(str(caught.value))
