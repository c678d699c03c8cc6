"""Known clients, told by the headers of their requests: what each needs that is not the default (mapping §17).

A client profile changes knobs, and nothing else: whatever the operator set, for all requests or for a route, goes
before it, and a request's own header before that. Which clients these are was recorded on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.knobs import DEFAULT, KNOBS, Knobs

AGENTS_KEPT = 256
"""User agents remembered: they come from clients, so their number has no bound of its own."""
AGENT_MAX = 256
"""Longest user agent that is remembered, in characters."""


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """One client. `agent` is what its user agent begins with, or empty; `header` another header and how its value
    begins, for requests whose user agent was changed on the way; with `both`, neither is enough alone. `knobs` are the
    values that it needs, and `why` says why."""

    name: str
    title: str
    agent: str
    header: tuple[str, str] | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    both: bool = False


_HALF_CALLS = (
    "a Chat call is done for it as soon as another one speaks: it raises on the half arguments of strict tools, and"
    " tells those of others as done"
)

CLIENTS: tuple[ClientProfile, ...] = (
    ClientProfile(
        "claude-code",
        "Claude Code",
        "claude-cli/",
        ("x-claude-code-session-id", ""),
        {"null_arguments": "strip", "overflow_sizes": "estimate"},
        "it refuses a call with `null` for an optional parameter, and makes as much room in a conversation as the error"
        " says is missing",
    ),
    ClientProfile(
        "codex",
        "Codex",
        "codex",
        ("originator", "codex"),
        {"reasoning_surface": "summary", "error_codes": "codex"},
        "it shows summaries of reasoning only, and decides by error codes that the API's schema does not list",
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
        "the defaults are what it needs; it is told in receipts",
    ),
    ClientProfile(
        "ai-sdk",
        "AI SDK",
        "ai-sdk/",
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
_FURTHER = tuple((client, *client.header) for client in CLIENTS if client.header is not None)


class Clients:
    """Recognises the clients of one gateway; with `enabled` False, none of them."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._known: dict[str, ClientProfile | None] = {}

    def recognise(self, headers: Mapping[str, str]) -> ClientProfile | None:
        """The client that sent a request with these headers (their names in any case), or None."""
        if not self._enabled:
            return None
        agent = headers.get("user-agent", "")
        try:
            found = self._known[agent]
        except KeyError:
            found = self._read(agent)
        if found is None:
            for client, name, beginning in _FURTHER:
                value = headers.get(name)
                known = value is not None and value.startswith(beginning)
                if known and (not client.both or agent.startswith(client.agent)):
                    return client
        return found

    def _read(self, agent: str) -> ClientProfile | None:
        found = next((client for begins, client in _BY_AGENT if agent.startswith(begins)), None)
        if len(agent) <= AGENT_MAX:
            if len(self._known) >= AGENTS_KEPT:
                del self._known[next(iter(self._known))]
            self._known[agent] = found
        return found


def chosen(knobs: Knobs, named: Iterable[str] = ()) -> frozenset[str]:
    """The knobs that the operator set: those `named` in a file, and those that are not at their default."""
    return frozenset(named) | {name for name in KNOBS if getattr(knobs, name) != getattr(DEFAULT, name)}


def adapted(knobs: Knobs, fixed: Collection[str]) -> dict[str, Knobs]:
    """`knobs` by client name, for the clients that they differ for; `fixed` are the ones no client profile changes."""
    by_client = {}
    for client in CLIENTS:
        changes = {name: value for name, value in client.knobs.items() if name not in fixed}
        if changes:
            by_client[client.name] = replace(knobs, **changes)
    return by_client
