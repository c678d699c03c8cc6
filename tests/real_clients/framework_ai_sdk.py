"""Vercel's AI SDK with its providers, with their defaults: the only options are those that make them show reasoning.

By default its provider of Responses lets the server keep the conversation, and sends references to earlier items.
"""

from __future__ import annotations

from real_clients.contract import Client
from real_clients.scripted import Program

_CORE = ("ai@7.0.173", "zod@4.6.7")
OPENAI = (*_CORE, "@ai-sdk/openai@4.0.118")
ANTHROPIC = (*_CORE, "@ai-sdk/anthropic@4.0.105")
COMPATIBLE = (*_CORE, "@ai-sdk/openai-compatible@3.0.92")
PACKAGES = (*OPENAI, *ANTHROPIC[2:], *COMPATIBLE[2:])
_FAILURES = {
    "limited": "AI_APICallError",
    "overloaded": "AI_APICallError",
    "broken": "AI_StreamProviderError",
    "cut": "AI_StreamProviderError",
}


def _client(name: str, dialect: str, variant: str, reasoning: tuple[str, ...] | None = None) -> Client:
    program = Program("ai_sdk.mjs", variant, failures=_FAILURES, reasoning=reasoning)
    return Client(f"AI SDK, {name}", dialect, "framework", "node", PACKAGES, program)


CLIENTS: list[Client] = [
    _client("openai Chat", "chat", "chat", ()),  # This provider reads no reasoning.
    _client("openai-compatible", "chat", "compatible"),
    _client("openai Responses", "responses", "responses", ()),  # It shows reasoning only on request.
    _client("openai Responses, `store: false`", "responses", "stateless"),
    _client("anthropic", "messages", "messages"),
]
