"""The two vendors' SDKs for Python."""

from __future__ import annotations

from real_clients.contract import Client
from real_clients.scripted import LOOPS, Program

OPENAI = ("openai==3.57.0",)
ANTHROPIC = ("anthropic==2.14.0",)
_WITH_RUNNER = (*LOOPS, "runner", "parallel runner", "whole runner")
_OPENAI_FAILURES = {
    "limited": "RateLimitError",
    "overloaded": "InternalServerError",
    "broken": "APIError",
    "cut": "APIError",
}
_RESPONSES_FAILURES = {**_OPENAI_FAILURES, "broken": "RuntimeError", "cut": "RuntimeError"}
_ANTHROPIC_FAILURES = {
    "limited": "RateLimitError",
    "overloaded": "OverloadedError",
    "broken": "APIStatusError",
    "cut": "APIStatusError",
}

CLIENTS: list[Client] = [
    Client(
        "anthropic (Python)",
        "messages",
        "sdk",
        "python",
        ANTHROPIC,
        Program("anthropic_sdk.py", loops=_WITH_RUNNER, failures=_ANTHROPIC_FAILURES),
        refused=True,  # Its tool runner asks for a server-side thread first.
    ),
    Client(
        "openai Chat (Python)",
        "chat",
        "sdk",
        "python",
        OPENAI,
        Program("openai_sdk.py", "chat", failures=_OPENAI_FAILURES),
    ),
    Client(
        "openai Responses (Python)",
        "responses",
        "sdk",
        "python",
        OPENAI,
        Program("openai_sdk.py", "responses", loops=_WITH_RUNNER, failures=_RESPONSES_FAILURES),
    ),
]
