"""The vendor of a provider, as a price list names it."""

from __future__ import annotations

import pytest

from dragoman_server.cli.imports.price_vendors import HOSTS, vendors_of_host
from dragoman_server.cli.imports.vendors import VENDORS

LIST = {"novel": {"api": "https://api.novel.example/v1", "models": {}}, "none": {"models": {}}, "odd": 3}


@pytest.mark.parametrize(
    ("url", "litellm", "models_dev"),
    [
        ("https://api.openai.com/v1", "openai", "openai"),
        ("https://one.openai.azure.com/openai/v1", "azure", "azure"),
        ("https://us-east5-aiplatform.googleapis.com/v1/projects/p", "vertex_ai", "google-vertex"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com/anthropic", "bedrock", "amazon-bedrock"),
        ("https://api.novel.example/other", None, "novel"),
        ("http://127.0.0.1:9/v1", None, None),
        ("https://notapi.openai.com.example", None, None),
        ("http://[", None, None),
        ("", None, None),
    ],
)
def test_a_host_has_its_vendors(url: str, litellm: str | None, models_dev: str | None) -> None:
    first = [next(iter(vendors_of_host(url, LIST, litellm=each)), None) for each in (True, False)]
    assert first == [litellm, models_dev]


def test_the_names_of_litellm_are_those_of_its_configuration() -> None:
    named = {name for names, _ in HOSTS.values() for name in names}
    assert {
        "openai",
        "anthropic",
        "gemini",
        "groq",
        "xai",
        "mistral",
        "deepseek",
        "together_ai",
    } <= named & VENDORS.keys()
