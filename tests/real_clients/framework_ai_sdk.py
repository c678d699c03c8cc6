"""Vercel's AI SDK with its providers. Version 6 is the newest line that runs on Node 20."""

from __future__ import annotations

from real_clients.contract import Client
from real_clients.scripted import Program

_CORE = ("ai@6.0.326", "zod@4.6.7")
OPENAI = (*_CORE, "@ai-sdk/openai@3.0.141")
ANTHROPIC = (*_CORE, "@ai-sdk/anthropic@3.0.138")
COMPATIBLE = (*_CORE, "@ai-sdk/openai-compatible@2.0.87")
PACKAGES = (*OPENAI, *ANTHROPIC[2:], *COMPATIBLE[2:])
_FAILURES = {
    "limited": "AI_APICallError",
    "overloaded": "AI_APICallError",
    "broken": "StreamedError",
    "cut": "StreamedError",
}


def _client(name: str, dialect: str, variant: str, reasoning: tuple[str, ...] | None = None) -> Client:
    program = Program("ai_sdk.mjs", variant, failures=_FAILURES, reasoning=reasoning)
    return Client(f"AI SDK, {name}", dialect, "framework", "node", PACKAGES, program)


CLIENTS: list[Client] = [
    _client("openai Chat", "chat", "chat", ()),  # This provider reads no reasoning.
    _client("openai-compatible", "chat", "compatible"),
    _client("openai Responses", "responses", "responses"),
    _client("anthropic", "messages", "messages"),
]
