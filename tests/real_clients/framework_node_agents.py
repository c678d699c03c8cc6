"""openai-agents for Node."""

from __future__ import annotations

from real_clients.contract import Client
from real_clients.scripted import LOOPS, Program

PACKAGES = ("@openai/agents@0.20.0", "openai@7.57.0", "zod@4.6.7")
_CHAT = {
    "limited": "RateLimitError",
    "overloaded": "InternalServerError",
    "broken": "APIError",
    "cut": "APIError",
}
_RESPONSES = {**_CHAT, "broken": "ModelBehaviorError", "cut": "ModelBehaviorError"}


def _client(name: str, dialect: str, program: Program) -> Client:
    return Client(name, dialect, "framework", "node", PACKAGES, program)


CLIENTS: list[Client] = [
    _client(
        "openai-agents Responses (Node)",
        "responses",
        # Its exception for a failed response is silent more.
        Program("openai_agents.mjs", "responses", (*LOOPS, "stateless"), _RESPONSES, noted=False),
    ),
    _client(
        "openai-agents Chat (Node)",
        "chat",
        # After a whole reply it sends keys of the message back inside a part, which OpenAI's own API refuses.
        # It reads reasoning from the field `reasoning` only, which is not what every server calls it.
        Program("openai_agents.mjs", "chat", ("streamed", "parallel", "interleaved"), _CHAT, reasoning=()),
    ),
]
