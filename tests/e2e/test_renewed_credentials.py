"""Credentials that renew, for every form of request: one fetch for many, refusals, and nothing that leaks."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.credentials.renewal import Renewal
from dragoman_server.observability.prometheus import exposition
from dragoman_server.proxy.hooks import Hooks, Target
from support.capture_text import readable
from support.client_forms import COUNTS, MAIN, OTHERS
from support.gateways import Gate, config_for, gate
from support.otlp_collector import otlp_collector
from support.recording_host import RecordingHost, recording_host
from support.sigv4 import verify
from support.token_endpoint import entra_tokens, google_tokens, service_account, token_endpoint
from support.waiting import until

CHAT, MESSAGES, RESPONSES, *_ = Dialect
ENDPOINTS = ("embeddings", "audio")


def config_of(host: RecordingHost, credential: CredentialOptions, **door: Any) -> Config:
    provider = Provider(
        "up", host.dialect, f"{host.url}/v1", credential=credential, endpoints=ENDPOINTS, door=Door(**door)
    )
    return replace(config_for(host.url, host.dialect), providers={"up": provider}, state=StateOptions(kind="memory"))


def _header(upstream: Dialect) -> str:
    name = upstream.facts.key_header
    return "authorization" if name == "bearer" else name


def renewal_of(entrance: Gate) -> Renewal[Any]:
    credentials = entrance.gateway.services.upstream.credentials
    assert credentials is not None
    return credentials.of(entrance.gateway.config.providers["up"]).renewal


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", [*MAIN, *COUNTS, *OTHERS])
async def test_every_form_of_request_gets_a_new_credential_after_a_refusal(
    form: str, upstream: Dialect, tmp_path: Path
) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    file = tmp_path / "token"
    file.write_text("canary-old")
    header = _header(upstream)
    async with (
        recording_host(upstream, header=header) as host,
        gate(config_of(host, CredentialOptions(file=str(file)))) as entrance,
    ):
        renewal = renewal_of(entrance)
        await renewal.current()
        host.tokens.add("canary-new")
        file.write_text("canary-new")
        # A form is sent while it arrives, so it cannot be sent again. The others get the old token in any case.
        renewal._end = 0.0 if form == "form" else inf
        status, text = await (MAIN | COUNTS | OTHERS)[form](entrance, {})
        metrics = exposition(entrance.gateway.metrics.alone())
    assert status == 200, text
    given = [arrived.headers[header].removeprefix("Bearer ") for arrived in host.arrived]
    assert given == (["canary-new"] if form == "form" else ["canary-old", "canary-new"])
    assert "canary" not in text
    assert "canary" not in str(metrics)


async def test_a_hundred_requests_wait_for_one_fetch_and_one_renewal(tmp_path: Path) -> None:
    count, gate_file = tmp_path / "count", tmp_path / "gate"
    script = tmp_path / "helper"
    script.write_text(
        f"#!/bin/sh\necho run >> {count}\nwhile [ ! -e {gate_file} ]; do sleep 0.01; done\n"
        f"printf token-%d $(wc -l < {count})\n"
    )
    script.chmod(0o755)
    async with recording_host(CHAT) as host:
        host.tokens.add("token-2")
        async with gate(config_of(host, CredentialOptions(command=(str(script),)))) as entrance:

            async def ask() -> int:
                async with entrance.post(CHAT) as response:
                    await response.read()
                    return int(response.status)

            asking = [asyncio.create_task(ask()) for _ in range(100)]
            await until(lambda: entrance.gateway.open_requests == 100, 30)
            gate_file.touch()
            assert await asyncio.gather(*asking) == [200] * 100
    assert count.read_text().count("run") == 2
    assert len(host.arrived) == 200


@pytest.mark.parametrize("kind", ["google", "azure"])
async def test_the_vendors_libraries(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token for a hundred requests, one more after a refusal, and an error while the endpoint is away."""
    tokens = google_tokens if kind == "google" else entra_tokens
    with token_endpoint(lambda *_: (200, {})) as endpoint:
        endpoint.reply = lambda *_: (200, tokens(len(endpoint.paths)))
        endpoint.gate.clear()
        (tmp_path / "account.json").write_text(json.dumps(service_account(endpoint.url)))
        for name, value in {
            "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json"),
            "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
            "IDENTITY_ENDPOINT": f"{endpoint.url}/msi/token",
            "IDENTITY_HEADER": "header",
        }.items():
            monkeypatch.setenv(name, value)
        async with (
            recording_host(CHAT) as host,
            gate(config_of(host, CredentialOptions(kind=kind))) as entrance,
        ):

            async def ask() -> int:
                async with entrance.post(MESSAGES) as response:
                    await response.read()
                    return int(response.status)

            asking = [asyncio.create_task(ask()) for _ in range(100)]
            await until(lambda: entrance.gateway.open_requests == 100 and endpoint.paths, 60)
            endpoint.gate.set()
            assert await asyncio.gather(*asking) == [200] * 100
            assert len(endpoint.paths) == 1
            host.tokens.add("canary-2")
            assert await asyncio.gather(*(ask() for _ in range(20))) == [200] * 20
            assert len(endpoint.paths) == 2
            endpoint.away = True
            renewal_of(entrance)._end = renewal_of(entrance)._again = 0.0
            status, shown, _ = await entrance.refusal(CHAT)
    assert status == 503
    library = {"google": "google-auth", "azure": "azure-identity"}[kind]
    assert f"providers.up.credential: {library} gave no token" in shown.message
    assert "canary" not in shown.message


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", [*MAIN, *COUNTS, "embeddings", "models"])
async def test_every_form_of_request_is_signed_as_it_is_sent(
    form: str, upstream: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-session")
    credential = CredentialOptions(kind="aws", service="bedrock", region="us-east-1")
    door = {"path": "model/{model}/invoke", "count_path": "model/{model}/count", "body": {"v": 1.5}, "omit": ("model",)}
    if upstream is CHAT:
        del door["count_path"]
    async with recording_host(upstream) as host, gate(config_of(host, credential, **door)) as entrance:
        status, text = await (MAIN | COUNTS | OTHERS)[form](
            entrance, {"x-codex-turn-state": "a  b", "traceparent": "x"}
        )
    assert status == 200, text
    (arrived,) = host.arrived
    scope = verify(arrived.method, arrived.path, arrived.headers, arrived.body, "canary-secret-key")
    assert scope.endswith("/us-east-1/bedrock/aws4_request")
    assert arrived.headers["x-amz-security-token"] == "canary-session"
    assert "canary" not in text


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_command_that_fails_is_a_503_that_names_the_setting_and_ready_warns(
    client: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    credential = CredentialOptions(command=("/bin/sh", "-c", "echo canary; echo canary >&2; exit 4"))
    async with recording_host(CHAT) as host, gate(config_of(host, credential)) as entrance:
        await until(lambda: renewal_of(entrance).problem)
        async with entrance.session.get(f"{entrance.url}/ready") as response:
            ready = await response.json()
        assert (response.status, ready["ready"], ready["warnings"]) == (200, True, ["credential_unavailable"])
        status, shown, headers = await entrance.refusal(client)
        receipt = json.loads(next(iter(entrance.gateway.receipts.newest())).json())
        metrics = exposition(entrance.gateway.metrics.alone())
    assert (status, headers["retry-after"]) == (529 if client is MESSAGES else 503, "5")
    assert "providers.up.credential: its command ended with status 4: run it by hand to see why" in shown.message
    assert receipt["status"] == status
    assert host.arrived == []
    assert b'kind="credential"' in metrics
    assert "canary" not in f"{shown}{headers}{caplog.text}{receipt}{metrics.decode()}"


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_credential_that_stays_refused_is_no_401_of_the_client(client: Dialect, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    async with recording_host(CHAT) as host:
        host.tokens.add("another")
        async with gate(config_of(host, CredentialOptions(file=str(file)))) as entrance:
            status, shown, headers = await entrance.refusal(client)
    assert status == 502
    assert "the provider up (providers.up.credential) refused the credential" in shown.message
    assert "canary" not in f"{shown}{headers}"


async def test_the_next_provider_is_asked_if_a_credential_is_away(tmp_path: Path) -> None:
    async with recording_host(CHAT) as away, recording_host(MESSAGES) as host:
        config = config_of(away, CredentialOptions(file=str(tmp_path / "absent")))
        second = Provider("second", MESSAGES, host.url)
        config = replace(
            config,
            providers={**config.providers, "second": second},
            routes=[Route("*", targets=(RouteTarget("up"), RouteTarget("second")))],
            retries=RetryOptions(backoff=0.001),
        )
        async with gate(config) as entrance, entrance.post(CHAT) as response:
            assert response.status == 200
            receipt = json.loads(next(iter(entrance.gateway.receipts.newest())).json())
    assert away.arrived == []
    assert [attempt["outcome"] for attempt in receipt["attempts"]] == ["no_credential", "answered"]


async def test_a_reload_begins_with_a_credential(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("token-1")
    async with recording_host(CHAT) as host:
        host.tokens.add("token-1")
        async with gate(config_for(f"{host.url}/v1", CHAT)) as entrance:
            assert entrance.gateway.services.upstream.credentials is None
            async with entrance.post(CHAT) as response:
                assert response.status == 502
            entrance.gateway.reconfigure(config_of(host, CredentialOptions(file=str(file))))
            async with entrance.post(CHAT) as response:
                assert response.status == 200


async def test_a_provider_that_an_application_chooses_may_have_a_credential(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("token-1")
    async with recording_host(CHAT) as host:
        host.tokens.add("token-1")
        own = Provider("own", CHAT, f"{host.url}/v1", credential=CredentialOptions(file=str(file)))

        async def choose(*_: object) -> Target:
            return Target(own, "m")

        hooks: Hooks[Any] = Hooks(choose=choose)
        async with (
            gate(config_for("http://127.0.0.1:9", CHAT), hooks=hooks) as entrance,
            entrance.post(CHAT) as response,
        ):
            assert response.status == 200
    assert len(host.arrived) == 1


@pytest.mark.parametrize("upstream", Dialect)
async def test_a_credential_is_in_no_log_receipt_capture_trace_metric_error_or_repr(
    upstream: Dialect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The upstream repeats what it was sent in all that it can."""
    caplog.set_level(logging.DEBUG)
    captures, usage, file = tmp_path / "captures", tmp_path / "usage.jsonl", tmp_path / "token"
    file.write_text("canary+first/7q3z")
    header = _header(upstream)
    seen: dict[str, str] = {}
    async with otlp_collector() as collector, recording_host(upstream, header=header) as host:
        host.tokens.add("none")
        config = replace(
            config_of(host, CredentialOptions(file=str(file))),
            usage=UsageOptions("jsonl", str(usage)),
            capture=CaptureOptions(directory=str(captures), share=1.0, texts=True),
            telemetry=Telemetry(endpoint=collector.url, traces=True),
        )
        async with gate(config) as entrance:
            renewal = renewal_of(entrance)
            for number, (name, form) in enumerate((MAIN | COUNTS | OTHERS).items()):
                file.write_text(f"canary+{number}/7q3z")
                renewal._again = 0.0
                seen[name] = str(await form(entrance, {}))
            seen["metrics"] = str(exposition(entrance.gateway.metrics.alone()))
            seen["receipts"] = str([receipt.json() for receipt in entrance.gateway.receipts.newest()])
            seen["reprs"] = f"{config!r}{config.providers!r}{renewal!r}{config.providers['up'].credential!r}"
    seen["traces"] = f"{collector.bodies!r}{collector.spans}"
    seen["log"] = "\n".join(logging.Formatter("%(message)s").format(record) for record in caplog.records)
    seen["usage"] = usage.read_text()
    seen["captures"] = "".join(readable(path.read_bytes()) for path in captures.rglob("*") if path.is_file())
    assert len(host.arrived) > 15
    assert all("canary" in arrived.headers[header] for arrived in host.arrived)
    assert len(seen["captures"]) > 1000
    assert len(seen["traces"]) > 1000
    leaks = {name: text for name, text in seen.items() if "canary" in text or "7q3z" in text}
    assert not leaks, leaks
