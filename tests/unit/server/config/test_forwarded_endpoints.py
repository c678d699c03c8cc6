"""The providers that serve the forwarded endpoints, by their dialect or by their configuration."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.forwarded_endpoints import FORMS, FORWARDED, GROUPS, default_groups
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider


def provider(**fields: Any) -> Provider:
    table = {"dialect": "chat", "base_url": "http://up/v1", **fields}
    return parse_config({"providers": {"up": table}}, {}).providers["up"]


def test_the_dialect_decides_without_a_configuration() -> None:
    assert default_groups(Dialect.CHAT) == default_groups(Dialect.RESPONSES) == GROUPS
    assert default_groups(Dialect.MESSAGES) == ()
    assert provider().serves("audio")
    assert not provider(dialect="messages", base_url="http://up").serves("audio")


def test_a_provider_can_name_what_it_serves() -> None:
    only = provider(endpoints=["embeddings", "rerank"])
    assert [group for group in GROUPS if only.serves(group)] == ["embeddings", "rerank"]
    assert not provider(endpoints=[]).serves("embeddings")
    assert provider(dialect="messages", base_url="http://up", endpoints=["images"]).serves("images")


def test_an_unknown_endpoint_is_a_problem() -> None:
    with pytest.raises(ConfigError, match=r'providers.up.endpoints\[1\]: unknown endpoint "embedings".*"embeddings"'):
        provider(endpoints=["audio", "embedings"])


def test_a_base_url_with_an_endpoint_in_it_is_a_problem() -> None:
    with pytest.raises(ConfigError, match="without /audio/speech"):
        provider(base_url="http://up/v1/audio/speech")


def test_forms_are_forwarded_endpoints() -> None:
    assert set(FORMS) < set(FORWARDED)
