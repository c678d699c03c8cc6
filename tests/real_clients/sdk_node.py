"""The two vendors' SDKs for Node."""

from __future__ import annotations

from real_clients.contract import Client
from real_clients.scripted import LOOPS, Program

OPENAI = ("openai@7.57.0",)
ANTHROPIC = ("@anthropic-ai/sdk@1.14.0",)
_WITH_RUNNER = (*LOOPS, "runner", "parallel runner", "whole runner")
_OPENAI_FAILURES = {
    "limited": "RateLimitError",
    "overloaded": "InternalServerError",
    "broken": "APIError",
    "cut": "APIError",
}
_RESPONSES_FAILURES = {**_OPENAI_FAILURES, "broken": "OpenAIError", "cut": "OpenAIError"}
_ANTHROPIC_FAILURES = {
    "limited": "RateLimitError",
    "overloaded": "OverloadedError",
    "broken": "APIError",
    "cut": "APIError",
}

CLIENTS: list[Client] = [
    Client(
        "anthropic (Node)",
        "messages",
        "sdk",
        "node",
        ANTHROPIC,
        Program("anthropic_sdk.mjs", loops=_WITH_RUNNER, failures=_ANTHROPIC_FAILURES),
        refused=True,  # Its tool runner asks for a server-side thread first.
    ),
    Client(
        "openai Chat (Node)",
        "chat",
        "sdk",
        "node",
        OPENAI,
        Program("openai_sdk.mjs", "chat", loops=_WITH_RUNNER, failures=_OPENAI_FAILURES),
    ),
    Client(
        "openai Responses (Node)",
        "responses",
        "sdk",
        "node",
        OPENAI,
        Program("openai_sdk.mjs", "responses", loops=_WITH_RUNNER, failures=_RESPONSES_FAILURES),
    ),
]
