"""Reads a Chat request body into a canonical `Request` (mapping §8.1, §8.4).

Fields that no other dialect supports are rejected; those that none needs are dropped with a loss. All others are kept,
and the target's writer decides.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.parts import Document, Image, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Role, Turn
from dragoman.dialects.chat.extra_content import EXTRA_KEY, OF_MESSAGE, read_signed, signature_of
from dragoman.dialects.chat.reasoning_fields import reasoning_text, record_dropped_proofs
from dragoman.dialects.chat.request.odd_messages import repair
from dragoman.dialects.chat.request.read_compact import read_compact_turns
from dragoman.dialects.chat.request.read_content import (
    ASSISTANT_PARTS,
    INSTRUCTION_PARTS,
    TOOL_PARTS,
    USER_PARTS,
    read_citations,
    read_parts,
)
from dragoman.dialects.chat.request.read_settings import read_rare_settings
from dragoman.dialects.chat.request.read_tools import read_tool_choice, read_tools
from dragoman.dialects.chat.request.unnamed_calls import RESULT_ROLES, UnnamedCalls
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS, read_cache_mark
from dragoman.dialects.openai.request_settings import read_sampling
from dragoman.dialects.shared.json_fields import (
    arguments_text,
    drop_if_set,
    drop_unknown,
    kind_of,
    note_unknown,
    optional,
    reject_if_set,
    required,
    required_text,
    typed,
)
from dragoman.dialects.shared.odd_history import OddHistory
from dragoman.dialects.shared.placeholders import read_unread
from dragoman.errors import ClientRequestError, Path, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import dumps

# fmt: off
FIELDS = frozenset({
    "model", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "temperature", "top_p",
    "frequency_penalty", "presence_penalty", "logit_bias", "seed", "n", "stop", "logprobs", "top_logprobs", "tools",
    "tool_choice", "parallel_tool_calls", "functions", "function_call", "response_format", "reasoning_effort",
    "verbosity", "modalities", "audio", "prediction", "web_search_options", "metadata", "store", "service_tier",
    "user", "safety_identifier", "moderation", "thinking", *CACHE_KEYS,
})
_USUAL = frozenset({
    "model", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "temperature", "top_p",
    "tools",
})
"""The fields that most requests have. Those with others are searched for each group of the others."""
# fmt: on
_CAPS = ("max_completion_tokens", "max_tokens")  # the modern name wins (mapping §7.2)
_REJECTED = frozenset({"functions", "function_call", "audio", "n", "modalities"})
_STREAM_OPTIONS = frozenset({"include_usage", "include_obfuscation"})
_LEGACY = "functions have no call ids, which the upstream's dialect needs; use tools"


def read_request(body: Any, losses: Losses, knobs: Knobs, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Read a request body.

    Raises `ClientRequestError` for malformed fields, `Unsupported` for those that no other dialect supports, `TooMany`
    for too many messages.
    """
    request = Request(DIALECT, required(body, "model", str), [])
    usual = _USUAL.issuperset(body)
    if not usual and not _REJECTED.isdisjoint(body):
        _reject(body)
    messages = required(body, "messages", list)
    if not messages:
        raise ClientRequestError(("messages",), "must not be empty")
    if len(messages) > limits.messages:
        raise TooMany(("messages",), f"{len(messages)} messages", "messages", limits.messages)
    request.turns = read_messages(messages, losses)

    request.stream = bool(optional(body, "stream", bool))
    if "stream_options" in body:
        _read_stream_options(request, body, losses)
    if "tools" in body or not usual:
        request.tools = read_tools(body, losses)
    if usual:
        read_sampling(request, body, _CAPS, losses)
        return request
    request.tool_choice = read_tool_choice(body, losses)
    request.parallel = optional(body, "parallel_tool_calls", bool)
    read_sampling(request, body, _CAPS, losses)
    read_rare_settings(request, body, losses)
    if "prediction" in body:
        drop_if_set(body, "prediction", LossCode.PREDICTION, losses)
    drop_unknown(body, FIELDS, losses)
    return request


def _read_stream_options(request: Request, body: Json, losses: Losses) -> None:
    options = optional(body, "stream_options", dict)
    if options:
        request.include_usage = bool(optional(options, "include_usage", bool, ("stream_options",)))
        drop_unknown(options, _STREAM_OPTIONS, losses, ("stream_options",))


def _reject(body: Json) -> None:
    if body.get("functions") != []:
        reject_if_set(body, "functions", _LEGACY)
    reject_if_set(body, "function_call", _LEGACY)
    reject_if_set(body, "audio", "audio output is not supported with an upstream of another dialect")
    n = optional(body, "n", int)
    if n is not None and n != 1:
        raise Unsupported(("n",), "only one choice is supported with an upstream of another dialect")
    for i, modality in enumerate(optional(body, "modalities", list) or ()):
        if modality != "text":
            raise Unsupported(("modalities", i), "only text is supported with an upstream of another dialect")


# --- messages ---------------------------------------------------------------------------------------------------------

_INSTRUCTION_KEYS = frozenset({"role", "content", "name", "cache_control"})
_TOOL_KEYS = frozenset({"role", "content", "tool_call_id", "name", "cache_control"})  # `name` repeats the call's
# fmt: off
_ASSISTANT_KEYS = frozenset({
    "role", "content", "name", "refusal", "tool_calls", "audio", "function_call", "annotations", "cache_control",
    "reasoning_content", "reasoning", "reasoning_details", "thinking_blocks",
})
# fmt: on
_BARE_ASSISTANT = frozenset({"role", "content", "tool_calls"})
_MARKED = (Text, Image, Document, ToolCall)
_CALL_KEYS = frozenset({"id", "type", "function", "custom", "index", "cache_control"})
_BARE_CALL = frozenset({"id", "type", "function"})
_CALLED_KEYS = {"function": frozenset({"name", "arguments"}), "custom": frozenset({"name", "input"})}


def read_messages(messages: list[Any], losses: Losses) -> list[Turn]:
    """Return one turn for each message, in order. A message of the history that cannot be read is repaired."""
    turns: list[Turn] = []
    custom: set[str] = set()
    """Ids of the calls of custom tools."""
    unnamed = UnnamedCalls(messages, losses)
    odd: OddHistory | None = None
    numbered = enumerate(messages)  # shared, so that each run of compact turns starts after the last message read
    while (general := read_compact_turns(numbered, turns, custom)) is not None:
        i, message = general
        try:
            turns.append(_read_message(message, i, losses, custom, unnamed))
        except ClientRequestError as error:
            if odd is None:
                odd = OddHistory(messages, losses, repair)
            turn = odd.read(message, i, error, lambda other, n: _read_message(other, n, losses, custom, unnamed))
            if turn is not None:
                turns.append(turn)
    return turns


def _read_message(message: Any, number: int, losses: Losses, custom: set[str], unnamed: UnnamedCalls) -> Turn:
    at = ("messages", number)
    if type(message) is not dict:
        raise ClientRequestError(at, f"expected an object, got {kind_of(message)}")
    role = message.get("role")
    if role == "assistant":
        return _read_assistant(unnamed.complete(message, number), at, losses, custom)
    if role in RESULT_ROLES:
        if not message.get("tool_call_id"):
            message = unnamed.result(message, number)
        return _read_tool(message, at, losses, custom)
    if role == "user":
        note_unknown(message, _INSTRUCTION_KEYS, at, losses)
        return _read_turn("user", message, at, losses)
    if role == "system" or role == "developer":
        note_unknown(message, _INSTRUCTION_KEYS, at, losses)
        turn = _read_turn("instruction", message, at, losses)
        turn.original = role
        return turn
    unknown = required(message, "role", str, at)
    raise ClientRequestError((*at, "role"), f"unknown role {unknown!r}")


def _read_turn(role: Role, message: Json, at: Path, losses: Losses) -> Turn:
    content = message.get("content")
    where = (*at, "content")
    turn = Turn(role, [], at, name=optional(message, "name", str, at))
    if type(content) is str:
        turn.plain = True
        turn.parts = [Text(content, where)]
    elif type(content) is list:
        readers = USER_PARTS if role == "user" else INSTRUCTION_PARTS
        turn.parts = read_parts(content, readers, where, losses)
    else:
        raise ClientRequestError(where, f"expected a string or an array of parts, got {kind_of(content)}")
    _mark_last(turn, message, losses)
    return turn


def _mark_last(turn: Turn, message: Json, losses: Losses) -> None:
    """Move a cache mark of the message itself, which routers accept if the content is a string, to its last part."""
    mark = read_cache_mark(message, turn.at, losses) if "cache_control" in message else None
    if mark is None:
        return
    last = turn.parts[-1] if turn.parts else None
    if not isinstance(last, _MARKED):
        losses.add(LossCode.CACHE_HINT, (*turn.at, "cache_control"))
    elif last.cache is None:
        last.cache = mark


def _read_tool(message: Json, at: Path, losses: Losses, custom: set[str]) -> Turn:
    call_id, content = message.get("tool_call_id"), message.get("content")
    if type(call_id) is not str or not call_id:
        call_id = required_text(message, "tool_call_id", at)
    cache = None
    if len(message) != 3 or content is None:
        note_unknown(message, _TOOL_KEYS, at, losses)
        cache = read_cache_mark(message, at, losses)
    result: str | list[Part]
    if type(content) is str:
        result = content
    elif type(content) is list:
        result = read_parts(content, TOOL_PARTS, (*at, "content"), losses)
    elif content is None:
        result = ""
    else:  # old clients send the tool's JSON unencoded (mapping §6.4)
        result = dumps(content).decode()
    return Turn("user", [ToolResult(call_id, result, at, cache=cache, custom=call_id in custom)], at)


def _read_assistant(message: Json, at: Path, losses: Losses, custom: set[str]) -> Turn:
    parts: list[Part] = []
    bare = _BARE_ASSISTANT.issuperset(message)  # nearly all: saves a dozen look-ups
    if not bare:
        _read_signature(message, OF_MESSAGE, _ASSISTANT_KEYS, at, parts, losses)
        reject_if_set(message, "function_call", _LEGACY, at)
        reasoning = reasoning_text(message)
        if reasoning:
            parts.append(Reasoning(reasoning, at, DIALECT))
        record_dropped_proofs(message, at, losses)

    content = message.get("content")
    if type(content) is str:
        if content:
            parts.append(Text(content, (*at, "content")))
    elif type(content) is list:
        parts += read_parts(content, ASSISTANT_PARTS, (*at, "content"), losses)
    elif content is not None:
        raise ClientRequestError((*at, "content"), f"expected a string, parts or null, got {kind_of(content)}")
    turn = Turn("assistant", parts, at, "", type(content) is str)
    if not bare:
        turn.name = optional(message, "name", str, at)
        annotations = optional(message, "annotations", list, at)
        if annotations:
            _add_citations(parts, annotations, at, losses)
        refusal = optional(message, "refusal", str, at)
        if refusal:
            parts.append(Refusal(refusal, (*at, "refusal")))
        if message.get("audio") is not None:
            where = (*at, "audio")
            error = Unsupported(where, "audio of an earlier reply cannot be sent to another dialect")
            parts.append(read_unread(None, error, where, losses, assistant=True))
    calls = message.get("tool_calls")
    if calls is not None:
        where = (*at, "tool_calls")
        for k, call in enumerate(typed(calls, list, where)):
            parts.append(_read_call(call, (*where, k), parts, losses, custom))
    if not bare:
        _mark_last(turn, message, losses)
    return turn


def _add_citations(parts: list[Part], annotations: list[Any], at: Path, losses: Losses) -> None:
    last = parts[-1] if parts else None
    if type(last) is not Text:
        losses.add(LossCode.CITATIONS, (*at, "annotations"))
        return
    last.citations = read_citations(annotations, (*at, "annotations"), losses)


def _read_signature(
    holder: Json, call_id: str, keys: frozenset[str], at: Path, parts: list[Part], losses: Losses
) -> None:
    """Add a reasoning part for Gemini's signature of a message or a call, and record unknown keys."""
    if EXTRA_KEY in holder and (extra := read_signed(holder)) is not None:
        keys |= {EXTRA_KEY}
        where = (*at, EXTRA_KEY)
        parts.append(Reasoning("", where, DIALECT, signature_of(extra), native={EXTRA_KEY: {call_id: extra}}))
    note_unknown(holder, keys, at, losses)


def _read_call(call: Any, at: Path, parts: list[Part], losses: Losses, custom: set[str]) -> ToolCall:
    typed(call, dict, at)
    call_id, kind = call.get("id"), call.get("type") or "function"
    if type(call_id) is not str or not call_id:
        call_id = required_text(call, "id", at)
    if kind != "function" and kind != "custom":
        raise Unsupported((*at, "type"), f"unknown kind of tool call: {kind!r}")
    cache = None
    if not _BARE_CALL.issuperset(call):
        _read_signature(call, call_id, _CALL_KEYS, at, parts, losses)
        cache = read_cache_mark(call, at, losses)
    body = call.get(kind)
    if type(body) is not dict:
        required(call, kind, dict, at)
    name = body.get("name")
    if type(name) is not str or not name:
        name = required_text(body, "name", (*at, kind))
    note_unknown(body, _CALLED_KEYS[kind], (*at, kind), losses)
    if kind == "custom":
        custom.add(call_id)
        return ToolCall(call_id, name, arguments_text(body.get("input")), at, True, cache)
    return ToolCall(call_id, name, arguments_text(body.get("arguments")), at, False, cache)
