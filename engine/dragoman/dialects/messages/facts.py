"""The facts about Anthropic's Messages."""

from __future__ import annotations

from typing import Final

from dragoman.dialects.count_endpoint import CountEndpoint
from dragoman.dialects.facts import RateLimitHeaders, ReplySigns, RequestSigns, WireFacts

FACTS: Final = WireFacts(
    name="Messages",
    maker="Anthropic",
    api="Messages",
    vendor="anthropic",
    model_names=("claude*",),
    path="messages",
    instructions="system",
    conversation="messages",
    output_cap="max_tokens",
    stop_path=("stop_sequences",),
    signs=RequestSigns(
        fields=frozenset(("context_management", "mcp_servers", "output_config", "stop_sequences", "system")),
        parts=frozenset(("document", "image", "redacted_thinking", "thinking", "tool_result", "tool_use")),
        tool_fields=frozenset(("input_schema",)),
    ),
    base_url="https://api.anthropic.com",
    key_header="x-api-key",
    key_variable="ANTHROPIC_API_KEY",
    version_header="anthropic-version",
    body_headers=("anthropic-version", "anthropic-beta"),
    betas=True,
    sdk_package="@ai-sdk/anthropic",
    count=CountEndpoint(
        "messages/count_tokens",
        frozenset(
            (
                "cache_control",
                "context_management",
                "mcp_servers",
                "messages",
                "model",
                "output_config",
                "system",
                "thinking",
                "tool_choice",
                "tools",
            )
        ),
    ),
    list_query="limit=1000",
    list_cursor="after_id",
    paths=("messages",),
    content=("content",),
    reply_signs=ReplySigns(
        types=frozenset(("message", "message_start", "message_delta", "message_stop")), type_prefix="content_block_"
    ),
    request_id_header="request-id",
    reply_headers=("request-id", "anthropic-organization-id", "anthropic-workspace-id", "anthropic-processing-ms"),
    limits=RateLimitHeaders("anthropic-ratelimit-{what}-{fact}", "time"),
    last_events=("message_stop",),
    heartbeat=b'event: ping\ndata: {"type":"ping"}\n\n',
    overloaded_status=529,
    flags_failed_results=True,
    blank_texts=False,
    signed_history=True,
    reasoning_types=("thinking", "redacted_thinking"),
    proof="signature",
    image_prices="anthropic",
)
