"""The configuration precedes the upstream's list, and the list the vendor's documentation, for each size by itself."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.gateway import ListedModel
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Models
from dragoman_server.routing.model_sizes import model_sizes

LISTED = ListedModel("claude-opus-5", context_window=300_000, max_output=30_000)
OF_NAME = Models(context_windows=(("mine", 100_000), ("m*", 90_000)))


@pytest.mark.parametrize(
    ("models", "flags", "listed", "sizes"),
    [
        (Models(), {}, None, (1_000_000, 128_000)),
        (Models(), {}, ListedModel("claude-opus-5"), (1_000_000, 128_000)),
        (Models(), {}, LISTED, (300_000, 30_000)),
        (Models(), {}, LISTED._replace(max_output=0), (300_000, 128_000)),
        (Models(), {"context_window": 200_000}, LISTED, (200_000, 30_000)),
        (Models(), {"max_output_tokens": 20_000}, LISTED, (300_000, 20_000)),
        (OF_NAME, {"context_window": 200_000}, LISTED, (100_000, 30_000)),
        (Models(context_windows=(("other", 100_000),)), {}, LISTED, (300_000, 30_000)),
    ],
)
def test_the_first_that_states_a_size_counts(
    models: Models, flags: dict[str, Any], listed: ListedModel | None, sizes: tuple[int, int]
) -> None:
    provider = Provider("up", Dialect.MESSAGES, "http://127.0.0.1:9")
    provider = Provider("up", Dialect.MESSAGES, "http://127.0.0.1:9", profile=provider.profile.replace(flags))
    assert model_sizes(models, "mine", provider, "claude-opus-5", listed) == sizes


def test_an_unknown_model_has_no_sizes() -> None:
    provider = Provider("up", Dialect.CHAT, "http://127.0.0.1:9")
    assert model_sizes(Models(), "mine", provider, "qwen3", None) == (0, 0)
