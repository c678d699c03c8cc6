"""The vendors' hosts: their endpoints, the types of their requests, and how their replies differ from those of others.

`types` are those of the vendor's own SDK where there is one. Where a vendor documents its API with OpenAI's or
Anthropic's SDK alone, they are that SDK's, narrowed by what the vendor's pages list and exclude.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.dialects import Dialect
from vendors.sdk_types import Misfit

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES, *_ = Dialect


def accepts(body: Json) -> Iterator[Misfit]:
    """Yield nothing: the types are all that the host checks."""
    yield from ()


@dataclass(frozen=True)
class Host:
    """A host of a vendor in one dialect. `page` names a file of docs/howto/vendors, `profile` the expected profile.

    `only` are the top-level fields that the vendor's pages list, empty for all that the types have. `also` has paths
    that the host takes though the types do not have them, `never` paths that it refuses though they do, each with the
    source. In a path, `[]` stands for any index.
    """

    page: str
    profile: str
    dialect: Dialect
    endpoint: str
    types: str
    only: str = ""
    also: Mapping[str, str] = field(default_factory=dict, hash=False)
    never: Mapping[str, str] = field(default_factory=dict, hash=False)
    check: Callable[[Json], Iterator[Misfit]] = accepts
    """Yields what the host refuses of a request for another reason than its types."""
    header: str = "authorization"
    """The header of the key: a Bearer token in `authorization`, else the key itself."""
    error: str = "openai"
    """The form of its errors, a key of `errors.FORMS`."""
    reasoning: str = "reasoning_content"
    """Chat: the field of the reasoning in its replies; `content` for parts of the content, empty for none."""
    usage_at_end: bool = True
    """Chat: the last chunk with a choice has the usage, without a request for it."""
    call_ids: str = ""
    """Chat: the form of its call ids, as a pattern that it also checks in requests; empty = OpenAI's form."""
    encrypts: bool = False
    """Responses: encrypts reasoning if that is requested, and refuses what it did not encrypt itself."""

    @property
    def name(self) -> str:
        """The page and the dialect, for test ids."""
        return f"{self.page}-{self.dialect}"


def deepseek_messages(body: Json) -> Iterator[Misfit]:
    """Yield what DeepSeek's endpoint for Messages refuses, by reports of its errors."""
    for number, message in enumerate(body["messages"]):
        if message["role"] not in ("user", "assistant"):  # deepseek-ai/awesome-deepseek-agent, issue 167
            yield Misfit(f"messages[{number}].role", f"unknown variant `{message['role']}`")
    for number, tool in enumerate(body.get("tools") or ()):
        # SaladDay/cc-switch-cli, issue 468, and decolua/9router, issue 3905
        if tool.get("type") not in (None, "web_search_20250305", "web_search_20260209"):
            yield Misfit(f"tools[{number}].type", f"unknown variant `{tool['type']}`")
    user = (body.get("metadata") or {}).get("user_id")
    if user is not None and not re.fullmatch("[a-zA-Z0-9_-]+", user):  # deepseek-ai/awesome-deepseek-agent, issue 67
        yield Misfit("metadata.user_id", "string does not match pattern")


def xai_responses(body: Json) -> Iterator[Misfit]:
    """Yield the tools of a request that xAI's pages do not list."""
    yield from _tools(body, "function", "web_search", "x_search", "file_search", "code_interpreter", "mcp")


def fireworks_responses(body: Json) -> Iterator[Misfit]:
    """Yield the tools of a request that Fireworks' pages do not list."""
    yield from _tools(body, "function", "mcp", "sse")


def _tools(body: Json, *known: str) -> Iterator[Misfit]:
    for number, tool in enumerate(body.get("tools") or ()):
        if tool["type"] not in known:
            yield Misfit(f"tools[{number}].type", f"unknown tool {tool['type']!r}")


_CHAT_PARAMS = "types.chat.completion_create_params:CompletionCreateParams"
_OPENAI_CHAT = f"openai.{_CHAT_PARAMS}"
_OPENAI_RESPONSES = "openai.types.responses.response_create_params:ResponseCreateParams"
_GROQ = "https://console.groq.com/docs/openai"
_DEEPSEEK = "https://api-docs.deepseek.com/guides/anthropic_api"
_XAI = (
    "https://github.com/langchain-ai/langchainjs/blob/main/"
    "libs/providers/langchain-xai/src/chat_models/responses-types.ts"
)
_TOGETHER = "https://docs.together.ai/docs/function-calling"
_COHERE = "https://github.com/OpenRouterTeam/openrouter-examples/issues/71"
_NVIDIA = "https://build.nvidia.com"
_OPENROUTER = "https://openrouter.ai/docs/api_reference/parameters"
_LEFT_OUT = {
    "input[].content[].type": "https://platform.openai.com/docs/guides/conversation-state",
    "tools[].strict": "https://platform.openai.com/docs/guides/function-calling",
}
"""Fields that the API's examples leave out: id and status of an assistant's message, and `strict` of a tool."""
_SHARED = "model messages stream temperature top_p max_tokens stop seed frequency_penalty presence_penalty tools"

HOSTS: tuple[Host, ...] = (
    Host(
        page="groq",
        profile="groq",
        dialect=CHAT,
        endpoint="/openai/v1/chat/completions",
        types=f"groq.{_CHAT_PARAMS}",
        also={"stream_options": "https://github.com/withceleste/celeste-python/pull/351"},
        never=dict.fromkeys(("logprobs", "logit_bias", "top_logprobs", "messages[].name"), _GROQ),
        reasoning="reasoning",
        usage_at_end=False,
    ),
    Host(
        page="cerebras",
        profile="cerebras",
        dialect=CHAT,
        endpoint="/v1/chat/completions",
        types=f"cerebras.cloud.sdk.{_CHAT_PARAMS}",
        error="cerebras",
        reasoning="reasoning",
    ),
    Host(
        page="mistral",
        profile="mistral",
        dialect=CHAT,
        endpoint="/v1/chat/completions",
        types="mistralai.client.models:ChatCompletionStreamRequest",
        error="mistral",
        reasoning="content",
        call_ids="[a-zA-Z0-9]{9}",
    ),
    Host(
        page="cohere",
        profile="cohere",
        dialect=CHAT,
        endpoint="/compatibility/v1/chat/completions",
        types=_OPENAI_CHAT,
        only=f"{_SHARED} reasoning_effort response_format tool_choice user logprobs max_completion_tokens "
        "stream_options",
        never={"tools[].function.strict": _COHERE},
        error="cohere",
        reasoning="",
        usage_at_end=False,
    ),
    Host(
        page="fireworks",
        profile="fireworks",
        dialect=CHAT,
        endpoint="/inference/v1/chat/completions",
        types=f"fireworks.{_CHAT_PARAMS}",
        also={"stream_options": "https://github.com/langchain-ai/langchain/pull/36977"},
        usage_at_end=False,
    ),
    Host(
        page="fireworks",
        profile="fireworks",
        dialect=RESPONSES,
        endpoint="/inference/v1/responses",
        types=_OPENAI_RESPONSES,
        only="model input previous_response_id instructions max_output_tokens max_tool_calls metadata "
        "parallel_tool_calls reasoning store stream temperature text tool_choice tools top_p truncation user",
        also=_LEFT_OUT,
        check=fireworks_responses,
    ),
    Host(
        page="fireworks",
        profile="fireworks",
        dialect=MESSAGES,
        endpoint="/inference/v1/messages",
        types="fireworks.types.message_create_params:MessageCreateParams",
        header="x-api-key",
        error="anthropic",
    ),
    Host(
        page="together",
        profile="together",
        dialect=CHAT,
        endpoint="/v1/chat/completions",
        types=f"together.{_CHAT_PARAMS}",
        also={
            "stream_options": "https://github.com/vercel/ai/pull/17986",
            **dict.fromkeys(
                (
                    "messages[].tool_calls[].index",
                    "tool_choice.id",
                    "tool_choice.index",
                    "tool_choice.function.arguments",
                    "messages[].content[].type",
                ),
                _TOGETHER,
            ),
        },
        usage_at_end=False,
    ),
    Host(
        page="nvidia",
        profile="nvidia",
        dialect=CHAT,
        endpoint="/v1/chat/completions",
        types=_OPENAI_CHAT,
        only=f"{_SHARED} stream_options tool_choice parallel_tool_calls reasoning_effort response_format user logprobs "
        "top_logprobs logit_bias n max_completion_tokens",
        also={"messages[].reasoning_content": _NVIDIA},
        error="nvidia",
        usage_at_end=False,
    ),
    Host(
        page="openrouter",
        profile="openrouter",
        dialect=MESSAGES,
        endpoint="/api/v1/messages",
        types="openrouter.components:MessagesRequest",
        error="anthropic",
    ),
    Host(
        page="openrouter",
        profile="openrouter",
        dialect=RESPONSES,
        endpoint="/api/v1/responses",
        types="openrouter.components:ResponsesRequest",
        encrypts=True,
    ),
    Host(
        page="openrouter",
        profile="openrouter",
        dialect=CHAT,
        endpoint="/api/v1/chat/completions",
        types="openrouter.components:ChatRequest",
        also={"verbosity": _OPENROUTER},
        reasoning="reasoning",
        usage_at_end=False,
    ),
    Host(
        page="xai",
        profile="xai",
        dialect=RESPONSES,
        endpoint="/v1/responses",
        types=_OPENAI_RESPONSES,
        only="model input background include instructions logprobs max_output_tokens metadata parallel_tool_calls "
        "previous_response_id prompt_cache_key reasoning search_parameters service_tier store stream temperature text "
        "tool_choice tools top_logprobs top_p truncation user",
        also=_LEFT_OUT,
        never={"text.verbosity": _XAI},
        check=xai_responses,
        error="xai",
        encrypts=True,
    ),
    Host(
        page="deepseek",
        profile="deepseek",
        dialect=MESSAGES,
        endpoint="/anthropic/v1/messages",
        types="anthropic.types.message_create_params:MessageCreateParams",
        also=dict.fromkeys(("temperature", "top_p", "top_k"), _DEEPSEEK),
        check=deepseek_messages,
        header="x-api-key",
        error="anthropic",
    ),
)
