"""Reads Messages requests into canonical ones (mapping §3, §8.2)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, OutputFormat, Part, Request, Role, Text, Tool, Turn
from dragoman.dialects.messages.request.read_compact import read_compact_turns
from dragoman.dialects.messages.request.read_content import ASSISTANT, INSTRUCTION, USER, read_blocks
from dragoman.dialects.messages.request.read_tools import change_tools, read_choice, read_tools
from dragoman.dialects.messages.request.thinking_settings import read_effort, read_thinking
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import (
    drop_if_set,
    drop_unknown,
    kind_of,
    one_of,
    optional,
    reject_if_set,
    required,
    typed,
)
from dragoman.errors import ClientRequestError, Path, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import LossCode, Losses

_REJECTED: Final[dict[str, str]] = {
    "container": "code execution containers do not exist at this upstream",
    "compaction": "this upstream makes no compaction blocks",
    "thread": "this upstream keeps no conversation: send all of it, without this field",
    "inference_geo": "this upstream cannot promise a region",
}
_REJECTED_CODES: Final = {"thread": "thread_unsupported_request"}
_DROPPED: Final[dict[str, LossCode]] = {
    "fallbacks": LossCode.VENDOR_OPTION,
    "fallback_credit_token": LossCode.VENDOR_OPTION,
    "billing_policy": LossCode.VENDOR_OPTION,
    "safeguards": LossCode.VENDOR_OPTION,
    "context_management": LossCode.CONTEXT_MANAGEMENT,
}
_IGNORED: Final = ("diagnostics", "cache_control", "betas", "user_profile_id", "workspace_id")
_READ: Final = (
    "model",
    "max_tokens",
    "messages",
    "system",
    "stream",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "thinking",
    "output_config",
    "output_format",
    "tools",
    "tool_choice",
    "metadata",
    "service_tier",
    "speed",
    "mcp_servers",
)
FIELDS: Final = frozenset({*_READ, *_REJECTED, *_DROPPED, *_IGNORED})
_NOT_CARRIED: Final = frozenset({*_REJECTED, *_DROPPED, "mcp_servers"})
_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k", "stop_sequences"})
_MESSAGE_KEYS: Final = frozenset({"role", "content"})
_SYSTEM_KEYS: Final = frozenset({"role", "content", "output_config", "clear_at"})
_OUTPUT_KEYS: Final = frozenset({"effort", "format", "task_budget"})
_FORMAT_KEYS: Final = frozenset({"type", "schema"})
_METADATA_KEYS: Final = frozenset({"user_id"})
_TIERS: Final = {"auto": "auto", "standard_only": "default"}
_CHANGES: Final = ("tool_addition", "tool_removal")

# Member access on an enum class costs more than a global.
_INSTRUCTION: Final = Role.INSTRUCTION
_USER: Final = Role.USER
_ASSISTANT: Final = Role.ASSISTANT


def read_request(body: Any, losses: Losses, knobs: Knobs, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Return the canonical request of a client's body.

    Fields without a meaning in other dialects are dropped and recorded (mapping §8.2). Raises `ClientRequestError` for
    a malformed request, `Unsupported` for anything that no other dialect can express and must not be dropped, and
    `TooMany` for too many messages.

    Args:
        body: the parsed body; it is not changed.
        losses: where dropped fields are recorded.
        knobs: unused; part of the interface of all dialects.
        limits: the largest number of messages.
    """
    if type(body) is not dict:
        raise ClientRequestError("", f"expected a JSON object, got {kind_of(body)}")
    if not FIELDS.issuperset(body):
        drop_unknown(body, FIELDS, losses)
    model = required(body, "model", str)
    max_tokens = _max_tokens(body)
    if not _NOT_CARRIED.isdisjoint(body):
        _reject_or_drop(body, losses)

    # Most requests have few fields: each group of rare ones is looked for once.
    config: Json = {}
    if "output_config" in body:
        config = optional(body, "output_config", dict) or {}
        drop_unknown(config, _OUTPUT_KEYS, losses, ("output_config",))
    tools = read_tools(body, losses)
    reader = _TurnReader(tools, read_effort(config, losses) if config else None, losses)
    turns = reader.read(body, limits)
    # Messages streams always report their usage.
    request = Request(DIALECT, model, turns, include_usage=True, tools=tools)
    request.max_tokens, request.max_tokens_at = max_tokens, ("max_tokens",)
    request.stop_at = ("stop_sequences",)
    if "tool_choice" in body:
        request.tool_choice, request.parallel = read_choice(body, tools, losses)
    if "speed" in body or "service_tier" in body:
        request.service_tier, request.service_tier_at = _service_tier(body, losses)
    request.stream = optional(body, "stream", bool) or False
    if not _SAMPLING.isdisjoint(body):
        request.temperature = optional(body, "temperature", float)
        request.top_p = optional(body, "top_p", float)
        request.top_k = optional(body, "top_k", int)
        request.stop = _stop(body, losses)
    if "thinking" in body or reader.effort is not None:
        request.thinking = read_thinking(body, reader.effort, losses)
    if config or "output_format" in body:
        request.format = _format(body, config, losses)
    if "metadata" in body:
        request.end_user = _end_user(body, losses)
    return request


def _reject_or_drop(body: Json, losses: Losses) -> None:
    """Reject or drop the fields that no other dialect has."""
    for key, why in _REJECTED.items():
        reject_if_set(body, key, why, code=_REJECTED_CODES.get(key))
    for key, code in _DROPPED.items():
        drop_if_set(body, key, code, losses)
    if body.get("mcp_servers"):
        raise Unsupported(("mcp_servers",), "this upstream does not connect to MCP servers")


def _max_tokens(body: Json) -> int:
    value = required(body, "max_tokens", int)
    if value == 0:
        raise Unsupported(("max_tokens",), "0 (filling the prompt cache only) cannot be sent to this upstream")
    if value < 0:
        raise ClientRequestError(("max_tokens",), f"must be positive; got {value}")
    return value


def _stop(body: Json, losses: Losses) -> list[str]:
    stops: list[str] = []
    for index, entry in enumerate(optional(body, "stop_sequences", list) or ()):
        at: Path = ("stop_sequences", index)
        if typed(entry, str, at).strip():
            stops.append(entry)
        else:
            losses.add(LossCode.STOP_DROPPED, at, "empty or whitespace only")
    return stops


def _format(body: Json, config: Json, losses: Losses) -> OutputFormat | None:
    at: Path = ("output_config", "format")
    given = optional(config, "format", dict, ("output_config",))
    if given is None:
        # The field of the former beta, still sent by some clients.
        at = ("output_format",)
        given = optional(body, "output_format", dict)
        if given is None:
            return None
    one_of(given, "type", ("json_schema",), at)
    drop_unknown(given, _FORMAT_KEYS, losses, at)
    # The API always enforces the schema.
    return OutputFormat("json_schema", at, schema=required(given, "schema", dict, at), strict=True)


def _end_user(body: Json, losses: Losses) -> str | None:
    metadata = optional(body, "metadata", dict)
    if metadata is None:
        return None
    drop_unknown(metadata, _METADATA_KEYS, losses, ("metadata",))
    return optional(metadata, "user_id", str, ("metadata",))


def _service_tier(body: Json, losses: Losses) -> tuple[str | None, Path]:
    speed = optional(body, "speed", str)
    if speed is not None and speed != "standard":
        losses.add(LossCode.SERVICE_TIER, ("speed",))
    tier = one_of(body, "service_tier", _TIERS)
    return (None, ()) if tier is None else (_TIERS[tier], ("service_tier",))


class _TurnReader:
    """Reads `system` and `messages` into turns.

    Messages may change the tools and the effort. After `read`, `tools` and `effort` are those in effect at the end.
    """

    __slots__ = ("_changed", "_losses", "effort", "tools")

    def __init__(self, tools: list[Tool], effort: str | None, losses: Losses) -> None:
        self.tools, self.effort, self._losses = tools, effort, losses
        self._changed: dict[str, Tool] | None = None
        """The tools by name, from the first message on that changes them."""

    def read(self, body: Json, limits: Limits) -> list[Turn]:
        messages = required(body, "messages", list)
        if not messages:
            raise ClientRequestError(("messages",), "at least one message is required")
        if len(messages) > limits.messages:
            raise TooMany(("messages",), f"{len(messages)} messages", "messages", limits.messages)
        losses = self._losses
        turns: list[Turn] = []
        system = body.get("system")
        if system:
            parts, plain = self._content(system, INSTRUCTION, "the system prompt", ("system",))
            turns.append(Turn(_INSTRUCTION, parts, ("system",), "top", plain))
        last_user: int | None = None
        numbered = enumerate(messages)  # shared with `read_compact_turns`, which consumes the messages that it can read
        while (other := read_compact_turns(numbered, turns)) is not None:
            index, message = other
            at = ("messages", index)
            if type(message) is not dict:
                raise ClientRequestError(at, f"expected a message (an object), got {kind_of(message)}")
            role = message.get("role")
            if role == "user":
                if len(message) > 2:
                    drop_unknown(message, _MESSAGE_KEYS, losses, at)
                parts, plain = self._content(message.get("content"), USER, "a user message", (*at, "content"))
                turns.append(Turn(_USER, parts, at, "", plain))
            elif role == "assistant":
                if len(message) > 2:
                    drop_unknown(message, _MESSAGE_KEYS, losses, at)
                self._assistant(message, at, turns)
            elif role == "system":
                if message.get("clear_at") is not None and last_user is None:
                    last_user = _last_user(messages)
                self._system(message, at, turns, -1 if last_user is None else last_user)
            else:
                raise ClientRequestError((*at, "role"), f"expected user, assistant or system; got {role!r}")
        if self._changed is not None:
            self.tools[:] = self._changed.values()
        return turns

    def _content(self, content: Any, table: Any, role: str, at: Path) -> tuple[list[Part], bool]:
        if type(content) is list:
            return read_blocks(content, table, role, at, self._losses), False
        return _plain(content, at), True

    def _assistant(self, message: Json, at: Path, turns: list[Turn]) -> None:
        content, inside = message.get("content"), (*at, "content")
        if type(content) is not list:
            turns.append(Turn(_ASSISTANT, _plain(content, inside), at, "", True))
            return
        summaries: list[Part] = []
        parts = read_blocks(content, ASSISTANT, "an assistant message", inside, self._losses, summaries)
        if summaries:
            # The summary replaces earlier turns of the user's side: it becomes a user turn here (mapping §6.5).
            turns.append(Turn(_USER, summaries, at))
            if not parts:
                return
        turns.append(Turn(_ASSISTANT, parts, at))

    def _system(self, message: Json, at: Path, turns: list[Turn], last_user: int) -> None:
        drop_unknown(message, _SYSTEM_KEYS, self._losses, at)
        clear_at = one_of(message, "clear_at", ("next_user_message", "never"), at)
        config = optional(message, "output_config", dict, at)
        cleared = clear_at == "next_user_message" and int(at[1]) < last_user
        if config is not None and not cleared:
            path = (*at, "output_config")
            drop_unknown(config, frozenset({"effort"}), self._losses, path)
            effort = one_of(config, "effort", ("low", "medium", "high", "xhigh", "max"), path)
            if effort is not None:
                self._losses.add(
                    LossCode.PER_TURN_EFFORT, (*path, "effort"), "the last one holds for the whole request"
                )
                self.effort = effort
        content = message.get("content")
        if content is None and config is not None:
            return
        inside = (*at, "content")
        if type(content) is list:
            content = self._change_tools(content, inside)
            if not content:
                return
        if cleared:
            # As in the API, the model does not see such a message (mapping §3).
            return
        parts, plain = self._content(content, INSTRUCTION, "a system message", inside)
        turns.append(Turn(_INSTRUCTION, parts, at, "system", plain))

    def _change_tools(self, content: list[Any], at: Path) -> list[Any]:
        if not any(type(block) is dict and block.get("type") in _CHANGES for block in content):
            return content
        if self._changed is None:
            self._changed = {tool.name: tool for tool in self.tools}
        texts: list[Any] = []
        for index, block in enumerate(content):
            if type(block) is dict and block.get("type") in _CHANGES:
                change_tools(self._changed, block, (*at, index), self._losses)
            else:
                texts.append(block)
        return texts


def _plain(content: Any, at: Path) -> list[Part]:
    """Content that is no array, as its one part."""
    if type(content) is not str:
        raise ClientRequestError(at, f"expected a string or an array of content blocks, got {kind_of(content)}")
    return [Text(content, at)]


def _last_user(messages: list[Any]) -> int:
    """Where the last real user message stands: one that does more than return tool results."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if type(message) is not dict or message.get("role") != "user":
            continue
        content = message.get("content")
        if type(content) is not list or any(
            type(block) is not dict or block.get("type") != "tool_result" for block in content
        ):
            return index
    return -1
