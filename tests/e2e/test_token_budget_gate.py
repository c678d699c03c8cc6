"""The budget gate through the gateway: what it did is in the loss header and in the receipt."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from conformance.served import anthropic_sdk
from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.app import setup
from dragoman_server.config.lint import unknown_windows
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from dragoman_server.simulator import REQUESTS
from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator
from support.gateways import CHAT, config_for, gate

LONG = "A line of a file that an agent has read. " * 200
MESSAGES: list[Any] = [{"role": "user", "content": "Go."}]
for _number in range(8):
    _call = {"type": "tool_use", "id": f"toolu_{_number}", "name": "read", "input": {}}
    _result = {"type": "tool_result", "tool_use_id": f"toolu_{_number}", "content": LONG}
    MESSAGES += [{"role": "assistant", "content": [_call]}, {"role": "user", "content": [_result]}]
TOOLS: list[Any] = [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]


@pytest.mark.parametrize("upstream", [CHAT, Dialect.RESPONSES])
async def test_what_went_is_reported_in_the_header_and_in_the_receipt(upstream: Dialect) -> None:
    simulator = strict_simulator()
    profile = builtin_profile(upstream).replace({"context_window": 12_000})
    async with listening(simulator, "127.0.0.1", 0) as url:
        provider = Provider("small", upstream, url, profile=profile)
        route = Route("*", "small", upstream_model="sim-text", knobs={"token_budget": "on"})
        async with gate(Config({"small": provider}, (route,))) as entrance, anthropic_sdk(entrance.url) as sdk:
            arguments: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS}
            counted = await sdk.messages.count_tokens(**arguments)
            reply = await sdk.messages.with_raw_response.create(**arguments, max_tokens=100)
            assert "result_cut=5" in reply.headers["x-dragoman-loss"]
            request_id = reply.headers["x-dragoman-request-id"]
            async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as noted:
                losses = [row for row in (await noted.json())["losses"] if row["code"] == "result_cut"]
        sent = str(simulator[REQUESTS][-1].body)
    assert [row["path"] for row in losses] == [f"messages[{2 * number}].content[0]" for number in range(1, 6)]
    assert losses[0]["done"] == f"{len(LONG) - 600} of {len(LONG)} characters were left out"
    assert sent.count("characters removed to save context") == 5
    assert counted.input_tokens < 12_000, "what would be sent is counted"


# --- where the size of the window is not known ------------------------------------------------------------------------

UNKNOWN = """\
token_budget does nothing for provider up: set providers.up.profile_flags.context_window to the model's tokens"""


def test_a_budget_without_a_window_is_reported() -> None:
    off = config_for("http://127.0.0.1:9", CHAT)
    on = config_for("http://127.0.0.1:9", CHAT, knobs={"token_budget": 0.5})
    assert list(unknown_windows(off)) == []
    assert list(unknown_windows(on)) == [UNKNOWN]
    everywhere = replace(off, knobs=replace(off.knobs, token_budget="on"))
    assert list(unknown_windows(everywhere)) == [UNKNOWN]
    known = Provider("up", CHAT, "http://127.0.0.1:9", profile=builtin_profile("chat").replace({"context_window": 1}))
    assert list(unknown_windows(replace(on, providers={"up": known}))) == []


def test_who_mounts_the_gateway_reads_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dragoman"):
        setup(web.Application(), config_for("http://127.0.0.1:9", CHAT, knobs={"token_budget": "on"}))
    assert [record.getMessage() for record in caplog.records] == [UNKNOWN]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [("on", ""), ("off", ""), (0.5, ""), (1, ""), (0.01, "0.05 to 1"), (2.0, "0.05 to 1"), ("some", "off, on, ")],
)
def test_the_knob_takes_words_and_shares(given: Any, wrong: str) -> None:
    if not wrong:
        assert parse_config({"knobs": {"token_budget": given}}, {}).knobs.token_budget == given
        return
    with pytest.raises(ValueError, match=r"knobs\.token_budget: ") as refused:
        parse_config({"knobs": {"token_budget": given}}, {})
    assert wrong in str(refused.value)
