"""Third parties with an upstream of Chat Completions (chat §12, and the pages named)."""

from __future__ import annotations

from functools import partial

from dragoman.profiles.third_party_entry import Fact, Vendor

_DEEPSEEK = "https://api-docs.deepseek.com/guides/thinking_mode"
_KIMI = "https://platform.kimi.ai/docs/api/chat"
_KIMI_MODELS = "https://platform.kimi.ai/docs/api/models-overview"
_KIMI_CALLS = "https://github.com/continuedev/continue/pull/11806"
_GLM = "https://docs.z.ai/api-reference/llm/chat-completion"
_GLM_THINKING = "https://docs.z.ai/guides/capabilities/thinking-mode"
_GLM_ADAPTER = "https://java.agentscope.io/v2/en/integration/model/glm"
_MINIMAX = "https://platform.minimax.io/docs/api-reference/text-openai-api"
_VLLM = "https://docs.vllm.ai/en/stable/features/reasoning_outputs/"
_OLLAMA = "https://docs.ollama.com/api/openai-compatibility"
_OPENROUTER = "https://openrouter.ai/docs/use-cases/reasoning-tokens"
_QWEN = "https://help.aliyun.com/en/model-studio/deep-thinking"
_TEMPLATES = "https://github.com/QwenLM/Qwen3.8/issues/244"
_LATE_VLLM = "https://github.com/vllm-project/vllm/pull/46976"
_LATE_LLAMA = "https://github.com/ggml-org/llama.cpp/issues/27367"
_LLAMA_CHOICE = "https://pypi.org/project/langchain-llama-cpp/"
_GEMINI = "https://ai.google.dev/gemini-api/docs/openai"
_SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"
_GEMINI_FIELDS = "https://github.com/MinLL/SkyrimNet-GamePlugin/issues/77"
_GEMINI_EFFORTS = (
    "https://discuss.ai.google.dev/t/openai-compat-api-rejects-reasoning-effort-minimal-for-gemini-3-flash/118724"
)
_GROQ = "https://console.groq.com/docs/openai"
_GROQ_TYPES = "https://github.com/groq/groq-python/blob/main/src/groq/types/chat/completion_create_params.py"
_GROQ_REASONING = "https://github.com/janhq/jan/issues/8136"
_CEREBRAS = "https://inference-docs.cerebras.ai/capabilities/reasoning"
_CEREBRAS_TYPES = (
    "https://github.com/Cerebras/cerebras-cloud-sdk-python/blob/main/"
    "src/cerebras/cloud/sdk/types/chat/completion_create_params.py"
)
_CEREBRAS_REASONING = "https://github.com/QwenLM/qwen-code/issues/11045"
_MISTRAL = "https://docs.mistral.ai/api/endpoint/chat"
_MISTRAL_TYPES = (
    "https://github.com/mistralai/client-python/blob/main/src/mistralai/client/models/chatcompletionrequest.py"
)
_MISTRAL_USAGE = "https://github.com/dnakov/anon-kode/issues/53"
_MISTRAL_IDS = "https://github.com/anomalyco/opencode/issues/1680"
_COHERE = "https://docs.cohere.com/docs/compatibility-api"
_COHERE_UNKNOWN = "https://github.com/OpenRouterTeam/openrouter-examples/issues/71"
_FIREWORKS = "https://docs.fireworks.ai/tools-sdks/openai-compatibility"
_FIREWORKS_TYPES = (
    "https://github.com/fw-ai-external/python-sdk/blob/main/src/fireworks/types/chat/completion_create_params.py"
)
_TOGETHER = "https://docs.together.ai/docs/openai-api-compatibility"
_TOGETHER_TYPES = (
    "https://github.com/togethercomputer/together-py/blob/main/src/together/types/chat/completion_create_params.py"
)
_NVIDIA = "https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html"
_VLLM_FIELDS = "https://docs.vllm.ai/en/stable/serving/openai_compatible_server/"
_NVIDIA_CACHE = "https://github.com/sipeed/picoclaw/issues/1019"
_DIALECT_PAGE = "chat §12"
_CACHE_OPTIONS = ("prompt_cache_options", "prompt_cache_retention")
_CACHE_FIELDS = ("prompt_cache_key", *_CACHE_OPTIONS)

_vendor = partial(Vendor, "chat")

CHAT: tuple[Vendor, ...] = (
    _vendor(
        "deepseek",
        "DeepSeek",
        _DEEPSEEK,
        {
            "thinking_field": Fact("thinking", _DEEPSEEK),
            "reasoning_required": Fact(True, _DEEPSEEK),
            "structured_output": Fact(False, "https://api-docs.deepseek.com/guides/json_mode"),
        },
    ),
    _vendor(
        "kimi",
        "Kimi (Moonshot AI)",
        _KIMI,
        {
            "max_tokens_field": Fact("max_completion_tokens", _KIMI),
            "sampling": Fact("default_only", _KIMI_MODELS),
            "efforts": Fact((), "https://github.com/HKUDS/nanobot/issues/3939"),
            "thinking_field": Fact("thinking", _KIMI_MODELS),
            "reasoning_required": Fact(True, _KIMI_CALLS),
            "url_sources": Fact(False, _KIMI),
        },
    ),
    _vendor(
        "glm",
        "GLM (Z.ai, BigModel)",
        _GLM,
        {
            "max_temperature": Fact(1.0, _GLM),
            "thinking_field": Fact("thinking", _GLM_THINKING),
            "tool_choice": Fact("auto", _GLM_ADAPTER),
            "parallel_tool_calls": Fact(False, _GLM),
            "strict_tools": Fact(False, _GLM_ADAPTER),
            "stop_limit": Fact(1, _GLM),
            "stream_usage": Fact(False, _GLM_ADAPTER),
            "structured_output": Fact(False, _GLM),
            "user_field": Fact("user_id", _GLM),
        },
    ),
    _vendor(
        "minimax",
        "MiniMax",
        _MINIMAX,
        {
            "max_temperature": Fact(1.0, "https://platform.minimax.io/docs/api-reference/text-chat"),
            "thinking_field": Fact("reasoning_split", _MINIMAX),
            "reasoning_key": Fact("reasoning_details", _MINIMAX),
        },
    ),
    _vendor(
        "qwen",
        "Qwen (DashScope, Model Studio)",
        _QWEN,
        {
            "thinking_field": Fact("enable_thinking", _QWEN),
            "explicit_cache": Fact(True, _DIALECT_PAGE),
            "text_parts": Fact(True, _DIALECT_PAGE),
            "cache_field": Fact("cache_control", _DIALECT_PAGE),
        },
    ),
    _vendor(
        "openrouter",
        "OpenRouter",
        _OPENROUTER,
        {
            "thinking_field": Fact("reasoning", _OPENROUTER),
            "reasoning_key": Fact("reasoning", _DIALECT_PAGE),
            "reasoning_details": Fact(True, _OPENROUTER),
            "explicit_cache": Fact(True, _DIALECT_PAGE),
            "text_parts": Fact(True, _DIALECT_PAGE),
            "cache_field": Fact("cache_control", _DIALECT_PAGE),
        },
        judge="openrouter",
    ),
    _vendor(
        "gemini",
        "Gemini (AI Studio, Vertex AI)",
        _GEMINI,
        {
            "signed_calls": Fact(True, _SIGNATURES),
            "reasoning_replay": Fact(False, _GEMINI_FIELDS),
            "efforts": Fact(("none", "low", "medium", "high"), _GEMINI_EFFORTS),
        },
    ),
    _vendor(
        "groq",
        "Groq",
        _GROQ,
        {
            "reasoning_key": Fact("reasoning", _GROQ_REASONING),
            "efforts": Fact(("none", "low", "medium", "high"), _GROQ_TYPES),
            "service_tiers": Fact(("auto", "flex"), _GROQ_TYPES),
            "refused_fields": Fact(
                ("verbosity", *_CACHE_FIELDS, "moderation", "logprobs", "logit_bias", "top_logprobs"),
                _GROQ_TYPES,
            ),
        },
        judge="groq",
    ),
    _vendor(
        "cerebras",
        "Cerebras",
        _CEREBRAS,
        {
            "reasoning_key": Fact("reasoning", _CEREBRAS_REASONING),
            "efforts": Fact(("none", "low", "medium", "high"), _CEREBRAS_TYPES),
            "service_tiers": Fact(("auto", "default", "flex", "priority"), _CEREBRAS_TYPES),
            "refused_fields": Fact(("verbosity", "metadata", *_CACHE_OPTIONS, "moderation", "store"), _CEREBRAS_TYPES),
        },
        judge="cerebras-cloud-sdk",
    ),
    _vendor(
        "mistral",
        "Mistral",
        _MISTRAL,
        {
            "reasoning_key": Fact("thinking", _MISTRAL_TYPES),
            "call_id_max": Fact(9, _MISTRAL_IDS),
            "stream_usage": Fact(False, _MISTRAL_USAGE),
            "service_tiers": Fact(("auto",), _MISTRAL_TYPES),
            "refused_fields": Fact(
                ("user", "verbosity", *_CACHE_OPTIONS, "moderation", "store", "seed", "logit_bias"), _MISTRAL_TYPES
            ),
        },
        judge="mistralai",
    ),
    _vendor(
        "cohere",
        "Cohere",
        _COHERE,
        {
            "efforts": Fact(("none", "high"), _COHERE),
            "parallel_tool_calls": Fact(False, _COHERE),
            "service_tiers": Fact((), _COHERE),
            "strict_tools": Fact(False, _COHERE_UNKNOWN),
            "reasoning_replay": Fact(False, _COHERE_UNKNOWN),
            "refused_fields": Fact(
                ("store", "metadata", "logit_bias", "top_logprobs", "verbosity", *_CACHE_FIELDS, "moderation"), _COHERE
            ),
        },
    ),
    _vendor(
        "fireworks",
        "Fireworks",
        _FIREWORKS,
        {
            "efforts": Fact(("none", "low", "medium", "high"), _FIREWORKS_TYPES),
            "service_tiers": Fact(("auto", "default", "flex", "priority"), _FIREWORKS_TYPES),
            "refused_fields": Fact(("verbosity", *_CACHE_OPTIONS, "moderation", "store"), _FIREWORKS_TYPES),
        },
        judge="fireworks-ai",
    ),
    _vendor(
        "together",
        "Together",
        _TOGETHER,
        {
            "efforts": Fact(("low", "medium", "high"), _TOGETHER_TYPES),
            "service_tiers": Fact((), _TOGETHER_TYPES),
            "parallel_tool_calls": Fact(False, _TOGETHER_TYPES),
            "strict_tools": Fact(False, _TOGETHER_TYPES),
            "top_k": Fact(True, _TOGETHER_TYPES),
            "refused_fields": Fact(
                (
                    "verbosity",
                    "user",
                    "metadata",
                    *_CACHE_FIELDS,
                    "moderation",
                    "store",
                    "logprobs",
                    "top_logprobs",
                ),
                _TOGETHER_TYPES,
            ),
        },
        judge="together",
    ),
    _vendor(
        "nvidia",
        "NVIDIA (API catalogue)",
        _NVIDIA,
        {
            "service_tiers": Fact((), _VLLM_FIELDS),
            "refused_fields": Fact((*_CACHE_FIELDS, "verbosity", "metadata", "moderation", "store"), _NVIDIA_CACHE),
        },
    ),
    _vendor(
        "litellm",
        "LiteLLM",
        _DIALECT_PAGE,
        {
            "explicit_cache": Fact(True, _DIALECT_PAGE),
            "text_parts": Fact(True, _DIALECT_PAGE),
            "cache_field": Fact("cache_control", _DIALECT_PAGE),
        },
    ),
    _vendor(
        "vllm",
        "vLLM",
        _VLLM,
        {
            "thinking_field": Fact("chat_template_kwargs", _VLLM),
            "reasoning_key": Fact("reasoning", _VLLM),
            "system_inline": Fact(False, _LATE_VLLM),
            "top_k": Fact(True, _DIALECT_PAGE),
        },
    ),
    _vendor(
        "sglang",
        "SGLang",
        _DIALECT_PAGE,
        {"system_inline": Fact(False, _TEMPLATES), "top_k": Fact(True, _DIALECT_PAGE)},
    ),
    _vendor(
        "llama.cpp",
        "llama.cpp (llama-server)",
        "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        {
            "system_inline": Fact(False, _LATE_LLAMA),
            "tool_choice": Fact("words", _LLAMA_CHOICE),
            "top_k": Fact(True, _DIALECT_PAGE),
        },
    ),
    _vendor(
        "ollama",
        "Ollama",
        _OLLAMA,
        {"parallel_tool_calls": Fact(False, _OLLAMA), "reasoning_key": Fact("reasoning", _DIALECT_PAGE)},
    ),
    _vendor(
        "copilot",
        "GitHub Copilot",
        "https://github.com/pydantic/pydantic-ai/pull/8059",
        {"reasoning_replay": Fact(False, "no source says that it is taken")},
    ),
    _vendor(
        "azure",
        "Azure OpenAI",
        "chat §7.3",
        {"stream_obfuscation": Fact(False, "no source says that it is taken")},
        base="openai",
        judge="openai",
    ),
)
