"""Third parties with an upstream of Messages (messages §12, mapping §5.4, and the pages named)."""

from __future__ import annotations

from functools import partial
from typing import Final

from dragoman.profiles.third_party_entry import Fact, Vendor

MID_SYSTEM_MODELS: Final = (
    "*claude-opus-4-8*",
    "*claude-opus-4.8*",
    "*claude-opus-5*",
    "*claude-sonnet-5*",
    "*claude-haiku-5*",
    "*claude-fable-5*",
    "*claude-mythos-5*",
)
"""Models that take a `system` message in mid-conversation, also under other hosts' names for them. Others answer 400.

Opus 4.8 is the first (https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-8); the rest is as in
https://github.com/langchain-ai/langchainjs/releases/tag/@langchain%2Fanthropic@1.5.13, and as Claude Code was recorded.
"""

PREFILL_MODELS: Final = (
    "*claude-2*",
    "*claude-3*",
    "*claude-instant*",
    "*claude-opus-4",
    "*claude-opus-4[-@]2025*",
    "*claude-opus-4[-.][015]*",
    "*claude-sonnet-4",
    "*claude-sonnet-4[-@]2025*",
    "*claude-sonnet-4[-.][05]*",
    "*claude-haiku-4[-.]5*",
)
"""Models that continue a final assistant message (a prefill), also under other hosts' names. Others answer 400.

Opus and Sonnet 4.6 are the first that take none
(https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6,
https://github.com/anomalyco/opencode/issues/13768), and no later model does (messages §5).
"""

OUTPUT_LIMITS: Final = (
    ("*claude-opus-4[-.][678]*", 128_000),
    ("*claude-sonnet-4[-.]6*", 128_000),
    ("*claude-opus-5*", 128_000),
    ("*claude-sonnet-5*", 128_000),
    ("*claude-haiku-5*", 128_000),
    ("*claude-fable-5*", 128_000),
    ("*claude-mythos-5*", 128_000),
    ("*claude-opus-4[-.]5*", 64_000),
    ("*claude-sonnet-4*", 64_000),
    ("*claude-haiku-4*", 64_000),
    ("*claude-3[-.]7*", 64_000),
    ("*claude-opus-4*", 32_000),
    ("*claude-3[-.]5*", 8192),
    ("*claude-3*", 4096),
    ("*claude-2*", 4096),
    ("*claude-instant*", 4096),
)
"""The largest output limits of models in tokens, by patterns of names, also of other hosts; the first that fits counts.

From https://platform.claude.com/docs/en/models/overview and the pages of single models there; those of Opus 4.6 to 4.8
also from https://github.com/Effect-TS/effect/pull/7129, and of Claude 3 from the API's errors
(https://github.com/anthropics/claude-code/issues/11302, https://github.com/coolcline/CoolCline/issues/23).
"""

_DEEPSEEK = "https://api-docs.deepseek.com/guides/anthropic_api"
_DEEPSEEK_ADVISOR = "https://github.com/SaladDay/cc-switch-cli/issues/468"
_FIREWORKS = "https://docs.fireworks.ai/tools-sdks/anthropic-compatibility"
_FIREWORKS_TYPES = "https://github.com/fw-ai-external/python-sdk/blob/main/src/fireworks/types/message_create_params.py"
_OPENROUTER = "https://openrouter.ai/docs/api/api-reference/anthropic-messages/create-messages"
_OPENROUTER_TYPES = (
    "https://github.com/OpenRouterTeam/python-sdk/blob/main/src/openrouter/components/messagesrequest.py"
)
_GLM = "https://docs.z.ai/guides/capabilities/thinking-mode"
_MINIMAX = "https://platform.minimax.io/docs/api-reference/text-anthropic-api"
_OLLAMA = "https://docs.ollama.com/api/anthropic-compatibility"
_LLAMA = "https://huggingface.co/blog/ggml-org/anthropic-messages-api-in-llamacpp"
_LATE_LLAMA = "https://github.com/ggml-org/llama.cpp/issues/27367"
_LATE_VLLM = "https://github.com/vllm-project/vllm/issues/44000"
_COPILOT = "https://github.com/ericc-ch/copilot-api/issues/217"
_BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html"
_INVOKE = "https://github.com/anthropics/claude-code/issues/49548"
_VERTEX = "https://github.com/anthropics/anthropic-sdk-python/blob/main/src/anthropic/lib/vertex/_client.py"
_BETAS = "https://github.com/BerriAI/litellm/blob/main/litellm/anthropic_beta_headers_config.json"
_DIALECT_PAGE = "messages §12"
_SAME_CHECKS = "messages §5.2"

_CLOUD_BETAS: Final = (
    "compact-*",
    "computer-use-2025-*",
    "context-management-2025-06-27",
    "dangerous-tool-use-2026-09-03",
    "interleaved-thinking-2025-05-14",
    "per-turn-control-2026-07-01",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "tool-search-tool-2025-10-19",
    "advanced-tool-use-2025-11-20=tool-search-tool-2025-10-19",
    "web-search-2025-03-05",
)
"""Betas that Bedrock and Vertex AI take. Both refuse a request that names another one, also if it does nothing.

Reports: https://github.com/anthropics/claude-code/issues/12429, https://github.com/BerriAI/litellm/issues/19984,
https://github.com/BerriAI/litellm/pull/41203.
"""

_vendor = partial(Vendor, "messages")

MESSAGES: tuple[Vendor, ...] = (
    _vendor(
        "deepseek",
        "DeepSeek",
        _DEEPSEEK,
        {
            "rewrite": Fact(True, _DEEPSEEK_ADVISOR),
            "max_temperature": Fact(2.0, _DEEPSEEK),
            "thinking": Fact("budget_and_effort", _DEEPSEEK),
            "thinking_replay": Fact("own_required", _DIALECT_PAGE),
            "images": Fact(False, _DEEPSEEK),
        },
    ),
    _vendor(
        "kimi",
        "Kimi (Moonshot AI)",
        _DIALECT_PAGE,
        {"rewrite": Fact(True, _DIALECT_PAGE), "thinking_replay": Fact("own_required", _DIALECT_PAGE)},
    ),
    _vendor(
        "glm",
        "GLM (Z.ai, BigModel)",
        _DIALECT_PAGE,
        {"thinking_replay": Fact("own_required", _GLM)},
    ),
    _vendor(
        "minimax",
        "MiniMax",
        _DIALECT_PAGE,
        {"thinking_replay": Fact("own_required", _MINIMAX), "stop_limit": Fact(0, _MINIMAX)},
    ),
    _vendor(
        "ollama",
        "Ollama",
        _OLLAMA,
        {"thinking_replay": Fact("own_required", _OLLAMA), "url_sources": Fact(False, _OLLAMA)},
    ),
    _vendor("llama.cpp", "llama.cpp (llama-server)", _LLAMA, {"rewrite": Fact(True, _LATE_LLAMA)}),
    _vendor("vllm", "vLLM", _LATE_VLLM, {"rewrite": Fact(True, _LATE_VLLM)}),
    _vendor(
        "amazon-bedrock",
        "Amazon Bedrock (its APIs of OpenAI and Anthropic)",
        _BEDROCK,
        {
            "betas": Fact(
                (
                    *_CLOUD_BETAS,
                    "claude-code-20250219",
                    "context-1m-2025-08-07",
                    "effort-2025-11-24",
                    "fine-grained-tool-streaming-2025-05-14",
                    "mid-conversation-*-2026-07-01",
                    "output-128k-2025-02-19",
                    "structured-outputs-2025-11-13",
                    "token-efficient-tools-2025-02-19",
                    "tool-examples-2025-10-29",
                ),
                _BETAS,
            )
        },
        base="anthropic",
        judge="anthropic",
    ),
    _vendor(
        "bedrock-invoke",
        "Claude behind a gateway that calls Bedrock InvokeModel",
        _SAME_CHECKS,
        {"rewrite": Fact(True, _INVOKE)},
        base="anthropic",
    ),
    _vendor(
        "vertex",
        "Claude at Vertex AI",
        _VERTEX,
        {"betas": Fact(_CLOUD_BETAS, _BETAS)},
        base="anthropic",
        judge="anthropic",
    ),
    _vendor(
        "copilot",
        "Claude behind GitHub Copilot",
        _DIALECT_PAGE,
        {"rewrite": Fact(True, _COPILOT)},
        base="anthropic",
    ),
    _vendor(
        "fireworks",
        "Fireworks",
        _FIREWORKS,
        {
            "rewrite": Fact(True, _FIREWORKS_TYPES),
            "efforts": Fact(("low", "medium", "high", "max"), _FIREWORKS_TYPES),
            "thinking": Fact("budget_and_effort", _FIREWORKS_TYPES),
            "thinking_display": Fact(False, _FIREWORKS_TYPES),
            "pdf": Fact(True, _FIREWORKS_TYPES),
        },
        judge="fireworks-ai",
    ),
    _vendor(
        "openrouter",
        "OpenRouter",
        _OPENROUTER,
        {
            "thinking": Fact("adaptive", _OPENROUTER_TYPES),
            "thinking_replay": Fact("verify", _OPENROUTER_TYPES),
            "explicit_cache": Fact(True, _OPENROUTER_TYPES),
            "pdf": Fact(True, _OPENROUTER_TYPES),
        },
        judge="openrouter",
    ),
    _vendor("azure", "Claude at Microsoft Foundry", _SAME_CHECKS, base="anthropic", judge="anthropic"),
)
