"""The steps of each endpoint: their order, those of features, and that nothing is sent before their end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dragoman import Dialect, DragomanError
from dragoman.aio import Transport
from dragoman_server.accounts.usage.options import JSONL, UsageOptions
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.draft import Draft
from dragoman_server.pipeline import Pipelines, Steps, counted, explained, run_steps
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from support import samples
from support.gateways import config_for
from support.named_keys import made, with_keys
from support.scopes import drafted

CHAT, MESSAGES, RESPONSES, *_ = Dialect
PLAIN = config_for("http://up", CHAT, prefix_diagnostics=0)


async def prepared(gateway: Gateway, body: Any) -> tuple[RequestScope, Draft]:
    """The scope and the draft of a request after all steps."""
    scope = RequestScope(gateway.services, Receipt("req_1", MESSAGES, 0))
    steps = Pipelines(gateway.services).translated(MESSAGES)
    return scope, await run_steps(steps, scope, drafted(json.dumps(body).encode(), loaded=gateway.services.loaded))


async def test_a_request_is_translated_and_not_sent() -> None:
    transport = Mock(spec=Transport)
    gateway = Gateway(PLAIN, upstream=transport)
    scope, draft = await prepared(gateway, samples.request(MESSAGES))
    assert (draft.call.url, draft.transport) == ("http://up/v1/chat/completions", transport)
    assert json.loads(draft.call.body)["messages"]
    assert draft.call.body is scope.translation.body
    assert (scope.receipt.provider, scope.receipt.route) == ("up", "*")
    assert gateway.receipts.of_any_client("req_1") is scope.receipt
    transport.open.assert_not_called()


async def test_a_route_with_retries_has_a_ranking() -> None:
    targets = (RouteTarget("up"), RouteTarget("up", "other"))
    gateway = Gateway(replace(PLAIN, routes=[Route("*", "up", targets=targets)]), upstream=Mock(spec=Transport))
    _, draft = await prepared(gateway, samples.request(MESSAGES))
    assert draft.ranking is not None
    assert draft.candidate in draft.ranking
    assert draft.target.upstream_model == draft.candidate.upstream_model


async def test_a_rejected_request_has_no_translation() -> None:
    gateway = Gateway(PLAIN, upstream=Mock(spec=Transport))
    scope = RequestScope(gateway.services, Receipt("r", MESSAGES, 0))
    draft = drafted(json.dumps({**samples.request(MESSAGES), "messages": 7}).encode())
    with pytest.raises(DragomanError, match="messages"):
        await run_steps(Pipelines(gateway.services).translated(MESSAGES), scope, draft)
    assert (scope.receipt.translation, scope.receipt.provider) == (None, "up")


def names(steps: Steps) -> list[str]:
    return [getattr(step, "__name__", "") for step in steps]


TRANSLATED = ["admit", "file_receipt", "recognise", "read", "parse", "route", "translate_request", "connect"]
FORWARDED = [
    *("admit", "file_receipt", "recognise", "read_or_form", "route_forwarded", "forward_request"),
    "connect_forwarded",
]


def test_the_steps_of_a_gateway_without_features() -> None:
    services = Gateway(replace(PLAIN, state=StateOptions(kind="off"))).services
    pipelines = Pipelines(services)
    assert names(pipelines.translated(MESSAGES)) == TRANSLATED
    assert names(pipelines.translated(CHAT)) == [*TRANSLATED, "lower_output_cap"]
    responses = [*TRANSLATED, "lower_output_cap", "expect_response"]
    responses[6:6] = ["plan_compaction", "compact"]
    assert names(pipelines.translated(RESPONSES)) == responses
    assert names(pipelines.forwarded) == FORWARDED
    assert names(counted(services, MESSAGES)) == [*TRANSLATED[2:6], "complete", "translate_counted"]
    assert names(explained(services, RESPONSES)) == ["plan_compaction", "compact", "translate_unsent"]


FEATURES: dict[str, Config] = {
    "capture capture_validated capture_calls": replace(PLAIN, capture=CaptureOptions("captures")),
    "limit": with_keys(PLAIN, made("alice")[1]),
    "estimate book_begun": replace(PLAIN, usage=UsageOptions(JSONL, "usage.jsonl")),
    "diagnose_cache": replace(PLAIN, server=replace(PLAIN.server, prefix_diagnostics=5)),
    "trace_call": replace(PLAIN, telemetry=Telemetry(traces=True)),
    "record_stream": replace(PLAIN, server=replace(PLAIN.server, ui=True)),
}


@pytest.mark.parametrize("steps", FEATURES)
def test_a_feature_adds_its_steps(steps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipelines = Pipelines(Gateway(FEATURES[steps]).services)
    found = names(pipelines.translated(MESSAGES))
    assert [name for name in found if name not in TRANSLATED] == steps.split()
    assert [name for name in found if name in TRANSLATED] == TRANSLATED
    of_translations = {"diagnose_cache", "record_stream", "capture_validated"}
    added = [name for name in names(pipelines.forwarded) if name not in FORWARDED]
    assert added == [name for name in steps.split() if name not in of_translations]


def test_stored_responses_are_a_step() -> None:
    steps = names(Pipelines(Gateway(replace(PLAIN, state=StateOptions(kind="memory"))).services).translated(RESPONSES))
    assert steps[6:9] == ["plan_compaction", "stored", "compact"]


async def test_a_new_configuration_has_steps_of_its_own() -> None:
    gateway = Gateway(PLAIN)
    assert "diagnose_cache" not in names(gateway.handler._pipelines.translated(MESSAGES))
    gateway.reconfigure(replace(PLAIN, server=replace(PLAIN.server, prefix_diagnostics=5)))
    assert "diagnose_cache" in names(gateway.handler._pipelines.translated(MESSAGES))
