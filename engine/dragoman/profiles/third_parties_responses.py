"""Third parties with an upstream of Responses."""

from __future__ import annotations

from functools import partial

from dragoman.profiles.third_party_entry import Fact, Vendor

_DEEPSEEK = "https://api-docs.deepseek.com/guides/thinking_mode"

_XAI = "https://docs.x.ai/docs/guides/chat"
_XAI_SEARCH = "https://docs.x.ai/developers/tools/web-search"
_XAI_REASONING = "https://docs.x.ai/guides/reasoning"
_XAI_FIELDS = (
    "https://github.com/langchain-ai/langchainjs/blob/main/"
    "libs/providers/langchain-xai/src/chat_models/responses-types.ts"
)
_FIREWORKS = "https://docs.fireworks.ai/api-reference/post-responses"
_OPENROUTER = "https://openrouter.ai/docs/api/api-reference/responses/create-responses"
_OPENROUTER_TYPES = (
    "https://github.com/OpenRouterTeam/python-sdk/blob/main/src/openrouter/components/responsesrequest.py"
)
_CACHE_OPTIONS = ("prompt_cache_options", "prompt_cache_retention")
_BEDROCK = "https://developers.openai.com/codex/amazon-bedrock"

_CHATGPT = "https://github.com/askalf/dario/issues/1009"

_vendor = partial(Vendor, "responses")

RESPONSES: tuple[Vendor, ...] = (
    _vendor(
        "deepseek",
        "DeepSeek",
        _DEEPSEEK,
        {"efforts": Fact(("none", "low", "high", "max"), _DEEPSEEK)},
    ),
    _vendor(
        "xai",
        "xAI",
        _XAI,
        {
            "encrypted_reasoning": Fact(True, _XAI_REASONING),
            "rewrite": Fact(True, _XAI_FIELDS),
            "vendor_tools": Fact(False, _XAI_FIELDS),
            "web_search": Fact(True, f"{_XAI_SEARCH}; {_XAI_FIELDS}"),
            "efforts": Fact(("low", "medium", "high"), _XAI_FIELDS),
            "service_tiers": Fact((), _XAI_FIELDS),
            "user_field": Fact("user", _XAI_FIELDS),
            "refused_fields": Fact((*_CACHE_OPTIONS, "moderation", "max_tool_calls", "verbosity"), _XAI_FIELDS),
        },
    ),
    _vendor(
        "fireworks",
        "Fireworks",
        _FIREWORKS,
        {
            "rewrite": Fact(True, _FIREWORKS),
            "vendor_tools": Fact(False, _FIREWORKS),
            "service_tiers": Fact((), _FIREWORKS),
            "user_field": Fact("user", _FIREWORKS),
            "refused_fields": Fact(
                ("include", "top_logprobs", "prompt_cache_key", *_CACHE_OPTIONS, "moderation"), _FIREWORKS
            ),
        },
    ),
    _vendor(
        "openrouter",
        "OpenRouter",
        _OPENROUTER,
        {
            "rewrite": Fact(True, _OPENROUTER_TYPES),
            "vendor_tools": Fact(False, _OPENROUTER_TYPES),
            "encrypts_on_request": Fact(True, _OPENROUTER_TYPES),
            "text_parts": Fact(False, _OPENROUTER_TYPES),
            "refused_fields": Fact(("prompt_cache_retention", "moderation"), _OPENROUTER_TYPES),
        },
        judge="openrouter",
    ),
    _vendor(
        "amazon-bedrock",
        "Amazon Bedrock (its APIs of OpenAI and Anthropic)",
        _BEDROCK,
        {"stream_obfuscation": Fact(False, "no source says that it is taken")},
        base="openai",
        judge="openai",
    ),
    _vendor(
        "azure",
        "Azure OpenAI",
        "chat §7.3",
        {"stream_obfuscation": Fact(False, "no source says that it is taken")},
        base="openai",
        judge="openai",
    ),
    _vendor("chatgpt", "Codex by a plan of ChatGPT", _CHATGPT, {"sampling": Fact("none", _CHATGPT)}, base="openai"),
)
