"""The facts about Responses."""

from __future__ import annotations

from typing import Final

from dragoman.dialects.count_endpoint import CountEndpoint
from dragoman.dialects.facts import ReplySigns, WireFacts
from dragoman.dialects.openai import facts as openai

FACTS: Final = WireFacts(
    name="Responses",
    maker=openai.MAKER,
    api="Responses",
    vendor=openai.VENDOR,
    model_names=openai.MODEL_NAMES,
    path="responses",
    instructions="instructions",
    conversation="input",
    base_url=openai.BASE_URL,
    version_in_base=True,
    key_variable=openai.KEY_VARIABLE,
    # Codex sends back the state of the turn that the upstream's last reply had, so that it stays on one machine.
    body_headers=("idempotency-key", "x-codex-turn-state"),
    key_headers=openai.KEY_HEADERS,
    sdk_package="@ai-sdk/openai",
    count=CountEndpoint(
        "responses/input_tokens",
        frozenset(
            (
                "input",
                "instructions",
                "model",
                "parallel_tool_calls",
                "reasoning",
                "text",
                "tool_choice",
                "tools",
                "truncation",
            )
        ),
        "response.input_tokens",
    ),
    forwarded=True,
    paths=("responses", "conversations"),
    content=("output",),
    reply_signs=ReplySigns(type_prefix="response.", object="response"),
    reply_headers=openai.REPLY_HEADERS,
    # What Codex reads (openai/codex, core).
    dialect_headers=("openai-model", "x-models-etag", "x-reasoning-included", "x-codex-"),
    limits=openai.LIMITS,
    last_events=("response.completed", "response.incomplete", "response.failed"),
    event_heartbeat=b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n',
    stored=True,
    agent_tools=True,
    reasoning_types=("reasoning",),
    citation="",
)
