"""Agent frameworks for Python: openai-agents, pydantic-ai, LangChain."""

from __future__ import annotations

from collections.abc import Mapping

from real_clients.contract import Client
from real_clients.scripted import IN_TURN, LOOPS, Program

AGENTS = ("openai-agents==0.24.0", "openai==3.57.0")
PYDANTIC_AI = ("pydantic-ai-slim[openai,anthropic]==2.68.0", "openai==3.57.0", "anthropic==2.14.0")
LANGCHAIN = (
    "langchain-core==1.8.3",
    "langchain-openai==1.7.4",
    "langchain-anthropic==1.7.10",
    "openai==3.57.0",
    "anthropic==2.14.0",
)
_AGENTS_CHAT = {
    "limited": "RateLimitError",
    "overloaded": "InternalServerError",
    "broken": "APIError",
    "cut": "APIError",
}
_AGENTS_RESPONSES = {**_AGENTS_CHAT, "broken": "ModelBehaviorError", "cut": "ModelBehaviorError"}
_PYDANTIC_AI = {
    "limited": "ModelRateLimitError",
    "overloaded": "ModelOverloadedError",
    "broken": "ModelOverloadedError",
    "cut": "ModelServerError",
}
# The API documents no code for an overload in a stream (mapping §10.1): only a Responses upstream's own one passes.
_PYDANTIC_AI_RESPONSES = {**_PYDANTIC_AI, "broken": "ModelOverloadedError or ModelServerError"}
_LANGCHAIN_CHAT = {
    "limited": "OpenAIRateLimitError",
    "overloaded": "OpenAIAPIError",
    "broken": "APIError",
    "cut": "APIError",
}
_LANGCHAIN_RESPONSES = {**_LANGCHAIN_CHAT, "broken": "ValueError", "cut": "ValueError"}
_LANGCHAIN_ANTHROPIC = {
    "limited": "AnthropicRateLimitError",
    "overloaded": "AnthropicOverloadedError",
    "broken": "APIStatusError",
    "cut": "APIStatusError",
}


def _client(name: str, dialect: str, packages: tuple[str, ...], program: Program) -> Client:
    return Client(name, dialect, "framework", "python", packages, program)


def _agents(dialect: str, loops: tuple[str, ...], failures: Mapping[str, str]) -> Program:
    return Program("openai_agents.py", dialect, loops, failures)


def _pydantic_ai(dialect: str) -> Program:
    return Program(
        "pydantic_agent.py", dialect, failures=_PYDANTIC_AI_RESPONSES if dialect == "responses" else _PYDANTIC_AI
    )


CLIENTS: list[Client] = [
    _client(
        "openai-agents Responses (Python)",
        "responses",
        AGENTS,
        _agents("responses", (*LOOPS, "stateless"), _AGENTS_RESPONSES),
    ),
    _client("openai-agents Chat (Python)", "chat", AGENTS, _agents("chat", LOOPS, _AGENTS_CHAT)),
    _client("pydantic-ai, OpenAI Chat", "chat", PYDANTIC_AI, _pydantic_ai("chat")),
    _client("pydantic-ai, OpenAI Responses", "responses", PYDANTIC_AI, _pydantic_ai("responses")),
    _client("pydantic-ai, Anthropic", "messages", PYDANTIC_AI, _pydantic_ai("messages")),
    _client(
        "LangChain, OpenAI Chat",
        "chat",
        LANGCHAIN,
        # ChatOpenAI reads no reasoning over Chat.
        Program("langchain_loop.py", "chat", failures=_LANGCHAIN_CHAT, reasoning=()),
    ),
    _client(
        "LangChain, OpenAI Responses",
        "responses",
        LANGCHAIN,
        # It reads summaries of reasoning only, and gives all fragments of arguments to the newest call.
        Program("langchain_loop.py", "responses", IN_TURN, failures=_LANGCHAIN_RESPONSES, reasoning=()),
    ),
    _client(
        "LangChain, Anthropic",
        "messages",
        LANGCHAIN,
        Program("langchain_loop.py", "messages", failures=_LANGCHAIN_ANTHROPIC),
    ),
]
