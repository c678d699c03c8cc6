"""Third parties with an upstream of Responses."""

from __future__ import annotations

from functools import partial

from dragoman.profiles.third_party_entry import Fact, Vendor

_DEEPSEEK = "https://api-docs.deepseek.com/guides/thinking_mode"

_vendor = partial(Vendor, "responses")

RESPONSES: tuple[Vendor, ...] = (
    _vendor(
        "deepseek",
        "DeepSeek",
        _DEEPSEEK,
        {"efforts": Fact(("none", "low", "high", "max"), _DEEPSEEK)},
    ),
    _vendor(
        "azure",
        "Azure OpenAI",
        "chat §7.3",
        {"stream_obfuscation": Fact(False, "no source says that it is taken")},
        base="openai",
    ),
)
