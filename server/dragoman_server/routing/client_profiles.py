"""Client profiles: known clients, recognised by the headers of their requests, and their knobs (mapping §17).

A client profile changes knobs and nothing else. Knobs that the operator set, for all requests or for a route, override
it, and a request's own header overrides those. The headers and needs of the clients were recorded on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from multidict import istr

from dragoman import Knobs
from dragoman.gateway import DEFAULT_KNOBS, KNOBS

AGENTS_KEPT = 256
"""Most user agents that are cached. They come from clients, so their number is not limited otherwise."""
AGENT_MAX = 256
"""Longest user agent that is cached, in characters."""


@dataclass(frozen=True)
class ClientProfile:
    """One client.

    `agent` is the beginning of its user agent, or empty. `header` is the name and the beginning of the value of another
    header, for requests whose user agent was changed on the way. With `both`, the two must match together. `knobs` are
    the values that the client needs, and `why` is the reason.
    """

    name: str
    title: str
    agent: str
    header: tuple[str, str] | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    both: bool = False


_HALF_CALLS = (
    "it takes a Chat call as complete as soon as another one begins: it raises an error for the partial arguments of"
    " strict tools, and reports those of others as complete"
)

CLIENTS: tuple[ClientProfile, ...] = (
    ClientProfile(
        "claude-code",
        "Claude Code",
        "claude-cli/",
        ("x-claude-code-session-id", ""),
        {"null_arguments": "strip", "overflow_sizes": "estimate", "last_signature": "drop"},
        "it refuses a call with `null` for an optional parameter, makes as much room in a conversation as the error"
        " says is missing, and has no result if the last block of a reply is not a text",
    ),
    ClientProfile(
        "codex",
        "Codex",
        "codex",
        ("originator", "codex"),
        {"reasoning_surface": "summary", "error_codes": "codex", "heartbeats": "event"},
        "it shows summaries of reasoning only, decides by error codes that the API's schema does not list, and ends a"
        " stream in which no event comes for five minutes",
    ),
    ClientProfile(
        "opencode",
        "opencode",
        "opencode/",
        ("x-session-affinity", "ses_"),
        {"reasoning_surface": "summary"},
        "the AI SDK in it shows summaries of reasoning only",
    ),
    ClientProfile(
        "qwen-code",
        "Qwen Code",
        "QwenCode/",
        None,
        {},
        "it needs the defaults only; receipts name it",
    ),
    ClientProfile(
        "ai-sdk",
        "AI SDK",
        "ai-sdk",  # `ai-sdk/openai/3…`, since version 7 `ai-sdk-openai/4…`
        ("user-agent", "ai/"),  # `generateText`; the other is `streamText`.
        {"reasoning_surface": "summary"},
        "over Responses it shows summaries of reasoning only",
    ),
    ClientProfile(
        "openai-agents-js",
        "openai-agents for Node",
        "Agents/JavaScript",
        None,
        {"reasoning_surface": "summary", "reasoning_field": "reasoning"},
        "over Responses it shows summaries of reasoning only, over Chat only the field `reasoning`",
    ),
    ClientProfile(
        "openai-python-stream",
        "openai for Python: `chat.completions.stream()`",
        "",  # frameworks on top of it put their own name there
        ("x-stainless-helper-method", "chat.completions.stream"),
        {"block_order": "sequential"},
        _HALF_CALLS,
    ),
    ClientProfile(
        "openai-node-stream",
        "openai for Node: `chat.completions.stream()`, `runTools()`",
        "OpenAI/JS",
        ("x-stainless-helper-method", ""),  # `stream` (of the Responses helper and of Anthropic's SDKs too), `runTools`
        {"block_order": "sequential"},
        _HALF_CALLS,
        both=True,
    ),
)
BY_NAME = {client.name: client for client in CLIENTS}
_BY_AGENT = tuple((client.agent, client) for client in CLIENTS if client.agent and not client.both)
_BY_HEADER = tuple(
    (istr(name), tuple(client for client in CLIENTS if client.header is not None and client.header[0] == name))
    for name in dict.fromkeys(client.header[0] for client in CLIENTS if client.header is not None)
)
"""The header names, in the type that a request's headers would convert them to, and the clients that have each."""


class ClientProfiles:
    """Recognises the clients of one gateway; none if `enabled` is False."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._known: dict[str, ClientProfile | None] = {}

    def recognise(self, headers: Mapping[str, str]) -> ClientProfile | None:
        """Return the client that sent a request with these headers, or None. Names must be case-insensitive."""
        if not self._enabled:
            return None
        agent = headers.get("user-agent", "")
        try:
            found = self._known[agent]
        except KeyError:
            found = self._read(agent)
        return found if found is not None else _by_header(headers, agent)

    def _read(self, agent: str) -> ClientProfile | None:
        found = next((client for begins, client in _BY_AGENT if agent.startswith(begins)), None)
        if len(agent) <= AGENT_MAX:
            if len(self._known) >= AGENTS_KEPT:
                del self._known[next(iter(self._known))]
            self._known[agent] = found
        return found


def _by_header(headers: Mapping[str, str], agent: str) -> ClientProfile | None:
    """Return the first client that one of its headers names, and the agent too where `both` are needed."""
    for name, clients in _BY_HEADER:
        if name in headers:
            value = headers[name]
            for client in clients:
                known = client.header is not None and value.startswith(client.header[1])
                if known and (not client.both or agent.startswith(client.agent)):
                    return client
    return None


def explicit_knobs(knobs: Knobs, named: Iterable[str] = ()) -> frozenset[str]:
    """Return the knobs that the operator set: those `named` in a file, and those that differ from their default."""
    return frozenset(named) | {name for name in KNOBS if getattr(knobs, name) != getattr(DEFAULT_KNOBS, name)}


def knobs_by_client(knobs: Knobs, fixed: Collection[str]) -> dict[str, Knobs]:
    """Return `knobs` by client name, for the clients whose profile changes them. Knobs in `fixed` do not change."""
    by_client = {}
    for client in CLIENTS:
        changes = {name: value for name, value in client.knobs.items() if name not in fixed}
        if changes:
            by_client[client.name] = replace(knobs, **changes)
    return by_client
