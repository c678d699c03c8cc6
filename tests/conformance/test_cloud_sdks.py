"""The gateway sends to a cloud the request that the vendor's own client for the cloud sends.

The client of the gateway is the plain SDK. The judge is the SDK's class for the cloud, whose request is taken from its
connection. Method, path, query, the headers that matter and the body as JSON are equal, apart from `differences`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx2
import pytest
from anthropic import (
    Anthropic,
    AnthropicAWS,
    AnthropicBedrock,
    AnthropicBedrockMantle,
    AnthropicFoundry,
    AnthropicGoogleCloud,
    AnthropicVertex,
    AsyncAnthropic,
)
from openai import AsyncOpenAI, AzureOpenAI, OpenAI
from openai.providers import bedrock, vertex

from dragoman.dialects import Dialect
from dragoman_server.config.load import parse_config
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Config
from support.gateways import gate
from support.recording_host import recording_host
from support.sigv4 import verify

CHAT, MESSAGES, RESPONSES, *_ = Dialect
KEY, ACCESS, SECRET = "key-of-the-cloud", "AKIDEXAMPLE", "secret-of-the-cloud"
MODEL = "anthropic.claude-sonnet-5-v1:0"
TURN = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "t", "description": "d", "input_schema": {"type": "object", "properties": {}}}
MATTER = (
    *("authorization", "x-api-key", "api-key", "x-goog-api-key"),
    *("anthropic-version", "anthropic-beta", "anthropic-workspace-id"),
)
PROJECT = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers"
GOOGLE = "https://claude.googleapis.com/v1/projects/p/locations/global"
RUNTIME = "https://bedrock-runtime.us-east-1.amazonaws.com"
MANTLE = "https://bedrock-mantle.us-east-1.api.aws"
AZURE = "https://r.openai.azure.com/openai?api-version=2024-10-21"

Judge = Callable[[httpx2.Client], Any]


@dataclass(frozen=True)
class Sent:
    """A request on the wire."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Cloud:
    """A cloud: the table of its provider, the SDK's client for it, and how the requests differ.

    `differences` maps the path of a header or a field to what the gateway sends in place of the SDK's value, None for
    nothing; the reason is a comment.
    """

    name: str
    dialect: Dialect
    table: Mapping[str, Any]
    judge: Judge
    differences: Mapping[str, Any] = field(default_factory=dict)
    streams: bool = True
    counts: bool = False


def messages(name: str, base_url: str, judge: Judge, table: Mapping[str, Any] | None = None, **more: Any) -> Cloud:
    return Cloud(name, MESSAGES, {"base_url": base_url, **(table or {"api_key": KEY})}, judge, **more)


SIGNED = {"credential": {"kind": "aws"}}
MANTLE_KEYS: dict[str, Any] = {"aws_access_key": ACCESS, "aws_secret_key": SECRET}
VERTEX_VERSION = {
    # Google and Anthropic document this value; the SDK sends the version of the API that it has types for.
    "body.anthropic_version": "vertex-2023-10-16",
}

CLOUDS = (
    messages(
        "vertex",
        f"{PROJECT}/anthropic",
        lambda http: AnthropicVertex(region="us-east5", project_id="p", access_token=KEY, http_client=http),
        # Vertex reads some betas in this field alone (https://github.com/BerriAI/litellm/pull/31607).
        differences={**VERTEX_VERSION, "body.anthropic_beta": ["context-management-2025-06-27"]},
        counts=True,
    ),
    messages(
        "mantle",
        f"{MANTLE}/anthropic",
        lambda http: AnthropicBedrockMantle(aws_region="us-east-1", api_key=KEY, http_client=http),
        counts=True,
    ),
    messages(
        "mantle-signed",
        f"{MANTLE}/anthropic",
        lambda http: AnthropicBedrockMantle(aws_region="us-east-1", http_client=http, **MANTLE_KEYS),
        SIGNED,
        counts=True,
    ),
    messages(
        "runtime",
        f"{RUNTIME}/anthropic",
        # The SDK has no class for this endpoint. Its base URL may be changed.
        lambda http: AnthropicBedrockMantle(base_url=f"{RUNTIME}/anthropic", api_key=KEY, http_client=http),
    ),
    messages(
        "invoke-model",
        RUNTIME,
        lambda http: AnthropicBedrock(aws_region="us-east-1", api_key=KEY, http_client=http),
        {
            "api_key": KEY,
            "path": "model/{model}/invoke",
            "omit": ["model"],
            "body": {"anthropic_version": "bedrock-2023-05-31"},
            "betas": "both",
        },
        # As at Vertex: the documented value.
        differences={"body.anthropic_version": "bedrock-2023-05-31"},
        streams=False,  # its streams are AWS' event streams, which the gateway does not read
    ),
    messages(
        "foundry",
        "https://r.services.ai.azure.com/anthropic",
        lambda http: AnthropicFoundry(resource="r", api_key=KEY, http_client=http),
        # "`api-key` is also sent for backwards compatibility" (the SDK).
        differences={"headers.api-key": None},
        counts=True,
    ),
    messages(
        "foundry-entra",
        "https://r.services.ai.azure.com/anthropic",
        lambda http: AnthropicFoundry(resource="r", azure_ad_token_provider=lambda: KEY, http_client=http),
        {"credential": {"command": ["printf", KEY]}},
    ),
    messages(
        "anthropic-at-aws",
        "https://aws-external-anthropic.us-east-1.api.aws",
        lambda http: AnthropicAWS(aws_region="us-east-1", workspace_id="w", http_client=http, **MANTLE_KEYS),
        {**SIGNED, "headers": {"anthropic-workspace-id": "w"}},
        counts=True,
    ),
    messages(
        "anthropic-at-google",
        f"{GOOGLE}/workspaces/w/invoke",
        lambda http: AnthropicGoogleCloud(
            project="p", location="global", workspace_id="w", token_provider=lambda: KEY, http_client=http
        ),
        {"credential": {"command": ["printf", KEY]}},
        counts=True,
    ),
    Cloud("azure-chat", CHAT, {"base_url": AZURE, "api_key": KEY}, lambda http: azure(http, api_key=KEY)),
    Cloud(
        "azure-chat-entra",
        CHAT,
        {"base_url": AZURE, "credential": {"command": ["printf", KEY]}},
        lambda http: azure(http, azure_ad_token=KEY),
    ),
    Cloud(
        "azure-chat-deployment",
        CHAT,
        {"base_url": AZURE.replace("?", "/deployments/d?"), "api_key": KEY},
        lambda http: azure(http, api_key=KEY, azure_deployment="d"),
    ),
    Cloud("azure-responses", RESPONSES, {"base_url": AZURE, "api_key": KEY}, lambda http: azure(http, api_key=KEY)),
    *(
        Cloud(
            f"azure-v1-{dialect}",
            dialect,
            {"base_url": "https://r.openai.azure.com/openai/v1", "api_key": KEY},
            lambda http: OpenAI(base_url="https://r.openai.azure.com/openai/v1/", api_key=KEY, http_client=http),
        )
        for dialect in (CHAT, RESPONSES)
    ),
    *(
        Cloud(
            f"bedrock-runtime-{dialect}",
            dialect,
            {"base_url": f"{RUNTIME}/openai/v1", "api_key": KEY},
            lambda http: OpenAI(
                provider=bedrock(region="us-east-1", endpoint="runtime", api_key=KEY), http_client=http
            ),
        )
        for dialect in (CHAT, RESPONSES)
    ),
    Cloud(
        "bedrock-mantle-signed",
        RESPONSES,
        {"base_url": f"{MANTLE}/openai/v1", **SIGNED},
        lambda http: OpenAI(
            provider=bedrock(region="us-east-1", endpoint="mantle", access_key_id=ACCESS, secret_access_key=SECRET),
            http_client=http,
        ),
    ),
    Cloud(
        "vertex-responses",
        RESPONSES,
        {"base_url": f"{PROJECT}/openai/v1", "credential": {"command": ["printf", KEY]}},
        lambda http: OpenAI(
            provider=vertex(project="p", location="us-east5", token_provider=lambda: KEY), http_client=http
        ),
    ),
)


def azure(http: httpx2.Client, **auth: Any) -> AzureOpenAI:
    return AzureOpenAI(azure_endpoint="https://r.openai.azure.com", api_version="2024-10-21", http_client=http, **auth)


def asked(client: Any, cloud: Cloud, *, stream: bool) -> Any:
    """Make the request; a client that is asynchronous returns an awaitable."""
    if cloud.dialect is MESSAGES:
        betas = ["context-management-2025-06-27"]
        fields: dict[str, Any] = {"model": MODEL, "max_tokens": 9, "messages": TURN, "tools": [TOOL], "betas": betas}
        return client.beta.messages.create(**fields, stream=stream)
    if cloud.dialect is CHAT:
        return client.chat.completions.create(model="gpt-5", messages=TURN, stream=stream, user="u")
    return client.responses.create(model="gpt-5", input="Hi", stream=stream, store=False, include=[])


def counted(client: Any) -> Any:
    return client.messages.count_tokens(model=MODEL, messages=TURN)


def judged(cloud: Cloud, ask: Callable[[Any], Any]) -> Sent:
    """The request of the SDK's class for the cloud."""
    seen: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(400, json={"error": {"message": "seen"}})

    with httpx2.Client(transport=httpx2.MockTransport(handle)) as http:
        client = cloud.judge(http).with_options(max_retries=0)
        with pytest.raises(Exception, match="seen"):
            ask(client)
    (request,) = seen
    target = request.url.raw_path.decode()
    return _sent(request.method, target, dict(request.headers), request.content)


def _sent(method: str, target: str, headers: Mapping[str, str], content: bytes) -> Sent:
    parts = urlsplit(target)
    found = {name: headers[name] for name in MATTER if name in headers}
    if found.get("authorization", "").startswith("AWS4-HMAC-SHA256 "):
        # The signature itself depends on the time and on all headers: `verify` checks the gateway's.
        found["authorization"] = found["authorization"].split(", ")[0].split("/", 2)[2]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    # A quoted character and the character itself are the same path.
    return Sent(method, unquote(parts.path), query, found, json.loads(content))


def configured(cloud: Cloud, url: str) -> Config:
    """The configuration of the cloud, with its connection led to `url`."""
    table = {"dialect": cloud.dialect, **cloud.table}
    config = parse_config(
        {"providers": {"cloud": table}, "models": {"unknown": "pass"}, "routes": [{"model": "*", "provider": "cloud"}]},
        {},
    )
    (provider,) = config.providers.values()
    target, base = urlsplit(url), urlsplit(provider.base_url)
    credential = provider.credential
    if credential is not None and credential.kind == "aws":
        place = credential.aws_host(provider.base_url)
        credential = replace(credential, service=place.service, region=place.region)
    moved = base._replace(scheme=target.scheme, netloc=target.netloc).geturl()
    provider = replace(provider, base_url=moved, credential=credential)
    server = replace(config.server, overload=Overload(event_loop_lag=0.0))
    return replace(config, providers={"cloud": provider}, server=server)


async def through_the_gateway(cloud: Cloud, ask: Callable[[Any], Any]) -> Sent:
    """The request of the gateway for that of the plain SDK."""
    async with recording_host(cloud.dialect) as host, gate(configured(cloud, host.url)) as entrance:
        if cloud.dialect is MESSAGES:
            client: Any = AsyncAnthropic(base_url=entrance.url, api_key="client", max_retries=0)
        else:
            client = AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="client", max_retries=0)
        async with client:
            await ask(client)
    (arrived,) = host.arrived
    if arrived.headers.get("authorization", "").startswith("AWS4"):
        verify(arrived.method, arrived.path, arrived.headers, arrived.body, SECRET)
    return _sent(arrived.method, arrived.path, arrived.headers, arrived.body)


def with_differences(sent: Sent, differences: Mapping[str, Any]) -> Sent:
    headers, body = dict(sent.headers), dict(sent.body)
    for path, value in differences.items():
        place, _, name = path.partition(".")
        target = headers if place == "headers" else body
        if value is None:
            del target[name]
        else:
            assert target.get(name) != value, f"{path} is no difference"
            target[name] = value
    return replace(sent, headers=headers, body=body)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.mark.few
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.name)
async def test_a_request_is_that_of_the_vendors_client(cloud: Cloud, stream: bool) -> None:
    if stream and not cloud.streams:
        pytest.skip("it has no streams")

    def ask(client: Any) -> Any:
        return asked(client, cloud, stream=stream)

    sent = await through_the_gateway(cloud, ask)
    wanted = with_differences(judged(cloud, ask), cloud.differences)
    if sent.body.get("stream") is False:
        del sent.body["stream"]
    if wanted.body.get("stream") is False:
        del wanted.body["stream"]
    assert sent == wanted


@pytest.mark.parametrize("cloud", [cloud for cloud in CLOUDS if cloud.counts], ids=lambda cloud: cloud.name)
async def test_a_count_of_tokens_is_that_of_the_vendors_client(cloud: Cloud) -> None:
    sent = await through_the_gateway(cloud, counted)
    differences = {path: value for path, value in cloud.differences.items() if path != "body.anthropic_beta"}
    assert sent == with_differences(judged(cloud, counted), differences)


def test_the_judges_are_for_clouds() -> None:
    """A judge that were the plain client would let anything pass."""
    assert not any(type(cloud.judge(httpx2.Client())) is Anthropic for cloud in CLOUDS)
