"""The facts about Chat Completions."""

from __future__ import annotations

from typing import Final

from dragoman.dialects.facts import ReplySigns, RequestSigns, WireFacts
from dragoman.dialects.openai import facts as openai

# Without fields that servers of Messages accept, too, and those of Messages that many Chat servers do: `thinking`.
_SIGNS: Final = RequestSigns(
    fields=frozenset(
        (
            "audio",
            "frequency_penalty",
            "function_call",
            "functions",
            "logit_bias",
            "logprobs",
            "max_completion_tokens",
            "modalities",
            "n",
            "parallel_tool_calls",
            "prediction",
            "presence_penalty",
            "reasoning_effort",
            "response_format",
            "seed",
            "stop",
            "stream_options",
            "top_logprobs",
            "verbosity",
            "web_search_options",
        )
    ),
    roles=frozenset(("developer", "function", "tool")),
    opening_roles=frozenset(("system",)),  # Messages allows it within the conversation, but not at its beginning
    message_fields=frozenset(("tool_calls",)),
    parts=frozenset(("file", "image_url", "input_audio", "refusal")),
    tool_fields=frozenset(("function", "custom")),
)

FACTS: Final = WireFacts(
    name="Chat",
    maker=openai.MAKER,
    api="Chat Completions",
    vendor=openai.VENDOR,
    model_names=openai.MODEL_NAMES,
    path="chat/completions",
    instructions=None,
    conversation="messages",
    stop_path=("stop",),
    signs=_SIGNS,
    base_url=openai.BASE_URL,
    version_in_base=True,
    key_variable=openai.KEY_VARIABLE,
    body_headers=("idempotency-key",),
    key_headers=openai.KEY_HEADERS,
    sdk_package="@ai-sdk/openai-compatible",
    forwarded=True,
    content=("choices", 0, "message"),
    content_in_list=False,
    reply_signs=ReplySigns(fields=frozenset(("choices",))),
    reply_headers=openai.REPLY_HEADERS,
    limits=openai.LIMITS,
    last_events=("[DONE]",),
    pairs_by_id=False,
    reasoning_fields={
        "reasoning_content": "text",
        "reasoning_details": "objects",
        "extra_content": "object of objects",
    },
    proof="reasoning_content",
    loses_signatures=True,
    citation="url_citation",
)
