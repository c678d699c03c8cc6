"""Whose host a base URL names, so that a provider without a `profile` gets the one that fits (reference/profiles.md).

Host evidence belongs to the configuration; the engine only ever sees the profile that came of it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman.dialects import Dialect
from dragoman.profiles.profile import BUILTIN_PROFILES, VENDOR

COMPATIBLE = "compatible"
"""The profile of an upstream that nothing is known of."""

HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.moonshot.ai": "kimi",
    "api.moonshot.cn": "kimi",
    "api.kimi.com": "kimi",
    "api.z.ai": "glm",
    "open.bigmodel.cn": "glm",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax",
    "dashscope.aliyuncs.com": "qwen",
    "dashscope-intl.aliyuncs.com": "qwen",
    "openrouter.ai": "openrouter",
    "ollama.com": "ollama",
    "api.githubcopilot.com": "copilot",
}
"""Host → profile, where the dialect has that profile."""

_ENDINGS = {".openai.azure.com": "azure", ".services.ai.azure.com": "azure", ".cognitiveservices.azure.com": "azure"}
_OLLAMA_PORT = 11434
"""Ollama's own, and no other server's: on any host, as it runs at home."""


PATTERNS = {
    **{f"*{ending}": name for ending, name in _ENDINGS.items()},
    "bedrock-runtime.*.amazonaws.com": "bedrock",
    f"*:{_OLLAMA_PORT}": "ollama",
}
"""The same for what is no single host, in words."""


def default_profile(dialect: Dialect, base_url: str) -> str:
    """The profile of whoever is asked: by the URL's host, else `compatible`."""
    name = _profile_of_host(base_url)
    return name if (dialect, name) in BUILTIN_PROFILES else COMPATIBLE


def is_vendor(dialect: Dialect, base_url: str) -> bool:
    """Is the dialect's own vendor asked. A vendor's key from the environment goes to no other host."""
    return default_profile(dialect, base_url) == VENDOR[dialect]


def _profile_of_host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return COMPATIBLE
    if port == _OLLAMA_PORT:
        return "ollama"
    if host.startswith("bedrock-runtime.") and host.endswith(".amazonaws.com"):
        return "bedrock"
    for ending, name in _ENDINGS.items():
        if host.endswith(ending):
            return name
    return HOSTS.get(host, COMPATIBLE)
