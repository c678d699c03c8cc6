"""The vendors of public price lists, by the hosts of providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from dragoman_server.cli.imports.models_dev_prices import vendors_of

_BEDROCK: Final = ("bedrock", "bedrock_converse", "bedrock_mantle"), ("amazon-bedrock",)
_VERTEX: Final = ("vertex_ai", "vertex_ai-language-models"), ("google-vertex", "google-vertex-anthropic")
_MOONSHOT: Final = ("moonshot",), ("moonshotai", "moonshotai-cn")
_DASHSCOPE: Final = ("dashscope",), ("alibaba", "alibaba-cn")
HOSTS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "api.openai.com": (("openai",), ("openai",)),
    "api.anthropic.com": (("anthropic",), ("anthropic",)),
    "generativelanguage.googleapis.com": (("gemini",), ("google",)),
    "aiplatform.googleapis.com": _VERTEX,
    "openai.azure.com": (("azure",), ("azure",)),
    "services.ai.azure.com": (("azure_ai", "azure"), ("azure", "azure-cognitive-services")),
    "amazonaws.com": _BEDROCK,
    "api.aws": _BEDROCK,
    "api.groq.com": (("groq",), ("groq",)),
    "api.x.ai": (("xai",), ("xai",)),
    "api.mistral.ai": (("mistral",), ("mistral",)),
    "api.deepseek.com": (("deepseek",), ("deepseek",)),
    "api.moonshot.ai": _MOONSHOT,
    "api.moonshot.cn": _MOONSHOT,
    "api.z.ai": (("zai",), ("zai",)),
    "api.minimax.io": (("minimax",), ("minimax",)),
    "dashscope.aliyuncs.com": _DASHSCOPE,
    "dashscope-intl.aliyuncs.com": _DASHSCOPE,
    "openrouter.ai": (("openrouter",), ("openrouter",)),
    "api.together.xyz": (("together_ai",), ("togetherai",)),
    "api.fireworks.ai": (("fireworks_ai",), ("fireworks-ai",)),
    "api.cerebras.ai": (("cerebras",), ("cerebras",)),
    "api.cohere.com": (("cohere", "cohere_chat"), ("cohere",)),
    "api.cohere.ai": (("cohere", "cohere_chat"), ("cohere",)),
    "api.perplexity.ai": (("perplexity",), ("perplexity",)),
    "integrate.api.nvidia.com": (("nvidia_nim",), ("nvidia",)),
    "api.sambanova.ai": (("sambanova",), ("sambanova",)),
    "api.deepinfra.com": (("deepinfra",), ("deepinfra",)),
    "api.githubcopilot.com": (("github_copilot",), ("github-copilot",)),
    "ai-gateway.vercel.sh": (("vercel_ai_gateway",), ("vercel",)),
}
"""Host, or the domain that it is in → the vendor's names in LiteLLM's table and at models.dev."""


def vendors_of_host(base_url: str, data: Mapping[str, Any], *, litellm: bool) -> tuple[str, ...]:
    """Return the names that a list has for the vendor of a base URL; none if the host is not known.

    The list of models.dev names the API of most of its vendors itself.
    """
    host = _host_of(base_url)
    for known, (at_litellm, at_models_dev) in HOSTS.items():
        # `us-east5-aiplatform.googleapis.com` is in no domain of its own.
        if host == known or host.endswith((f".{known}", f"-{known}")):
            return at_litellm if litellm else at_models_dev
    if litellm or not host:
        return ()
    apis = ((name, entry.get("api")) for name, entry in vendors_of(data).items() if isinstance(entry, dict))
    return tuple(name for name, api in apis if isinstance(api, str) and _host_of(api) == host)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
