"""Default profile of a provider without a `profile`, by the host of its base URL (reference/profiles.md).

Only the configuration looks at hosts; the engine receives the resulting profile.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from dragoman import Dialect
from dragoman.gateway import BUILTIN_PROFILES, VENDOR_PROFILES
from dragoman_server.config.aws_host import aws_host, bedrock_endpoint

COMPATIBLE = "compatible"
"""The profile of an upstream whose host is unknown."""

RENAMED = {
    "bedrock": 'it is now "bedrock-invoke", for Claude behind a gateway that calls InvokeModel; a provider at'
    " Bedrock itself needs no profile"
}
"""Earlier names of profiles → the hint."""

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
    "api.groq.com": "groq",
    "api.cerebras.ai": "cerebras",
    "api.mistral.ai": "mistral",
    "api.x.ai": "xai",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "api.fireworks.ai": "fireworks",
    "api.together.ai": "together",
    "api.together.xyz": "together",
    "integrate.api.nvidia.com": "nvidia",
    "ollama.com": "ollama",
    "generativelanguage.googleapis.com": "gemini",
    "aiplatform.googleapis.com": "gemini",
    "api.githubcopilot.com": "copilot",
    "chatgpt.com": "chatgpt",
    "claude.googleapis.com": "anthropic",
}
"""Host → profile. It applies if the provider's dialect has a profile of that name."""

_VENDOR_HOSTS = frozenset(urlsplit(dialect.facts.base_url).hostname for dialect in Dialect)

_ENDINGS = {
    ".openai.azure.com": "azure",
    ".services.ai.azure.com": "azure",
    ".cognitiveservices.azure.com": "azure",
    "-aiplatform.googleapis.com": "gemini",
    ".rep.googleapis.com": "gemini",
    ".githubcopilot.com": "copilot",
}
OF_VENDOR = {("gemini", "anthropic"): "vertex"}
"""Profile of a host and vendor of the dialect → the profile, where that has another name: Vertex AI has Gemini and
Claude."""
_CLAUDE_ON_AWS = "aws-external-anthropic"
"""The service of Anthropic's own API at AWS."""
_OLLAMA_PORT = 11434
"""Ollama's default port, on any host: Ollama usually runs on a host of the user's own."""

PATTERNS = {
    **{f"*{ending}": name for ending, name in _ENDINGS.items()},
    "bedrock-runtime.*.amazonaws.com": "amazon-bedrock",
    "bedrock-mantle.*.api.aws": "amazon-bedrock",
    "aws-external-anthropic.*.api.aws": "anthropic",
    f"*:{_OLLAMA_PORT}": "ollama",
}
"""Host pattern → profile, for the documentation; `_profile_of_host` matches them."""


def default_profile(dialect: Dialect, base_url: str) -> str:
    """Return the name of the profile for the URL's host, or `compatible` if none is known for this dialect."""
    name = _profile_of_host(base_url)
    name = OF_VENDOR.get((name, dialect.facts.vendor), name)
    return name if (dialect, name) in BUILTIN_PROFILES else COMPATIBLE


def is_vendor(dialect: Dialect, base_url: str) -> bool:
    """True if the URL is that of the dialect's own vendor.

    A vendor's key from the environment is sent to no other host.
    """
    if default_profile(dialect, base_url) != VENDOR_PROFILES[dialect]:
        return False
    # Anthropic's API at AWS and at Google Cloud has its profile and not its keys.
    return urlsplit(base_url).hostname in _VENDOR_HOSTS


def _profile_of_host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return COMPATIBLE
    if port == _OLLAMA_PORT:
        return "ollama"
    if bedrock_endpoint(base_url):
        return "amazon-bedrock"
    if aws_host(base_url).service == _CLAUDE_ON_AWS:
        return "anthropic"
    for ending, name in _ENDINGS.items():
        if host.endswith(ending):
            return name
    return HOSTS.get(host, COMPATIBLE)
