"""Vendors by LiteLLM's prefix of a model (`groq/llama-3`): API, base URL and the variable of the key.

Base URLs and variables are those of LiteLLM's `get_llm_provider_logic.py` and of its classes for each provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dragoman.gateway import DEFAULT_DIALECT


@dataclass(frozen=True, slots=True)
class ImportedVendor:
    """An upstream that this gateway can use.

    Without a `base_url` the origin names one. `key` is the variable of its key, if it needs one. `suffix` is the end of
    the base URL here that the origin leaves out.
    """

    dialect: str
    base_url: str | None = None
    key: str | None = None
    suffix: str = ""


_chat = partial(ImportedVendor, DEFAULT_DIALECT.value)

VENDORS = {
    "openai": _chat("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "custom_openai": _chat(None, "OPENAI_API_KEY"),
    "openai_like": _chat(None, "OPENAI_LIKE_API_KEY"),
    "anthropic": ImportedVendor("messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    # Azure's v1 API takes the deployment as the model and needs no api-version.
    "azure": _chat(None, "AZURE_API_KEY", suffix="/openai/v1"),
    "gemini": _chat("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "deepseek": _chat("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "openrouter": _chat("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": _chat("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": _chat("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "xai": _chat("https://api.x.ai/v1", "XAI_API_KEY"),
    "moonshot": _chat("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "dashscope": _chat("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "volcengine": _chat("https://ark.cn-beijing.volces.com/api/v3", "VOLCENGINE_API_KEY"),
    "together_ai": _chat("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks_ai": _chat("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "deepinfra": _chat("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "nvidia_nim": _chat("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "cerebras": _chat("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "sambanova": _chat("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "meta_llama": _chat("https://api.llama.com/compat/v1", "LLAMA_API_KEY"),
    "friendliai": _chat("https://api.friendli.ai/serverless/v1", "FRIENDLIAI_API_KEY"),
    "litellm_proxy": _chat(None, "LITELLM_PROXY_API_KEY"),
    "hosted_vllm": _chat(),
    "lm_studio": _chat(),
    "llamafile": _chat("http://127.0.0.1:8080/v1"),
    "xinference": _chat(),
    "ollama": _chat("http://localhost:11434", suffix="/v1"),
    "ollama_chat": _chat("http://localhost:11434", suffix="/v1"),
}

REFUSED = {
    "bedrock": "Bedrock is reached by its other APIs: write it by hand (docs/howto/vendors/bedrock.md)",
    "bedrock_converse": "Bedrock is reached by its other APIs: write it by hand (docs/howto/vendors/bedrock.md)",
    "sagemaker": "requests to SageMaker are signed by AWS's rules, which this gateway does not do",
    "vertex_ai": "Vertex AI needs a project and a login: write it by hand (docs/howto/vendors/vertex.md)",
    "vertex_ai_beta": "Vertex AI needs a project and a login: write it by hand (docs/howto/vendors/vertex.md)",
    "azure_ai": "is not one API: name the provider by hand, with the dialect and base URL of its endpoint",
}
"""Prefix of a vendor that cannot be imported → why."""

PLACEHOLDERS = frozenset(
    {
        "",
        "none",
        "null",
        "dummy",
        "fake",
        "fake-key",
        "no-key",
        "not-needed",
        "empty",
        "ollama",
        "lm-studio",
        "anything",
    }
)
"""Keys, in lower case, that are written only because a tool requires one."""

ENDPOINTS = ("/chat/completions", "/v1/messages", "/messages", "/responses")


def base_of(url: str) -> str:
    """Return a base URL without the endpoint's path, which some configurations include, and without a last slash."""
    url = url.strip().rstrip("/")
    for ending in ENDPOINTS:
        if url.endswith(ending):
            return url.removesuffix(ending)
    return url
