"""Secrets of the configuration are masked in all logs."""

from __future__ import annotations

import logging

import pytest

from dragoman import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.schema import Config, Server
from dragoman_server.observability.known_secrets import mask_logs, provider_secrets

CANARY = "sk-canary/7f3a"


def test_secrets_are_keys_private_headers_and_parts_of_the_url() -> None:
    headers = {"X-Team": "Bearer team-secret", "Anthropic-Version": "2023-06-01"}
    provider = Provider("p", Dialect.CHAT, "http://up/v1?code=query-secret", Secret(CANARY), headers=headers)
    assert set(provider_secrets(provider)) == {
        CANARY,
        "sk-canary%2F7f3a",
        "Bearer team-secret",
        "Bearer%20team-secret",
        "team-secret",
        "query-secret",
    }


def test_secrets_are_masked_in_lines_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    mask_logs(Config(server=Server(keys=(Secret("an-inbound-key"),))))
    log = logging.getLogger("dragoman")
    log.warning("the key is %s", "an-inbound-key")
    try:
        raise ValueError("an-inbound-key")
    except ValueError:
        log.exception("it failed")
    log.warning("nothing to mask in %s", "this")
    assert "an-inbound-key" not in caplog.text
    assert "nothing to mask in this" in caplog.text
    assert "ValueError" in caplog.text
