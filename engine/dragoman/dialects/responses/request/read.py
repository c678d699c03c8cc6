"""A Responses request body to the canonical request (mapping §3, §8.3)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, Request, Thinking
from dragoman.canonical.turn import compact_turn
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS
from dragoman.dialects.openai.request_settings import SERVICE_KEYS, read_sampling, read_service
from dragoman.dialects.responses.reply.echoed_settings import echoed_settings
from dragoman.dialects.responses.request.read_items import ItemsReader
from dragoman.dialects.responses.request.read_settings import read_reasoning, read_text
from dragoman.dialects.responses.request.read_tools import ToolList, read_tool_choice
from dragoman.dialects.responses.stop_and_usage import DIALECT
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
from dragoman.errors import ClientRequestError, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import LossCode, Losses

_INSTEAD: Final = (
    "send the whole conversation as `input`, or set state.kind in the gateway's configuration "
    '(several workers need a shared store: "sqlite", "redis" or "postgresql")'
)
_NOT_STORED: Final = f"no responses are stored here; {_INSTEAD}"
_NO_CONVERSATIONS: Final = f"no conversations are stored here; {_INSTEAD}"
_REJECTED: Final[dict[str, str]] = {
    "previous_response_id": _NOT_STORED,
    "conversation": _NO_CONVERSATIONS,
    "prompt": "prompt templates are stored at OpenAI; send their text as `instructions` and `input`",
}
_DROPPED: Final[dict[str, LossCode]] = {
    "context_management": LossCode.CONTEXT_MANAGEMENT,
    "image": LossCode.VENDOR_OPTION,
    "access_programs": LossCode.VENDOR_OPTION,
}
# fmt: off
FIELDS: Final = frozenset({
    "model", "input", "instructions", "stream", "stream_options", "max_output_tokens", "temperature", "top_p",
    "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "text", "reasoning", "include",
    "store", "background", "truncation", "metadata", "user", "safety_identifier", "service_tier", "moderation",
    # Codex's installation and session ids and the workspace's path. They must not be sent upstream.
    "client_metadata",
    *CACHE_KEYS, *_REJECTED, *_DROPPED,
})
_STREAM_OPTIONS: Final = frozenset({"include_obfuscation"})
_USUAL: Final = frozenset({
    "model", "input", "instructions", "stream", "max_output_tokens", "temperature", "top_p", "store",
})
"""The only fields of most requests of programs other than agents."""
_UNSUPPORTED: Final = frozenset({*_REJECTED, "background"})
_LIMITS: Final = frozenset({"max_tool_calls", "truncation", *_DROPPED})
# fmt: on
_CAPS: Final = ("max_output_tokens",)
_LOGPROBS: Final = "message.output_text.logprobs"
_INCLUDED: Final = frozenset({_LOGPROBS, "reasoning.encrypted_content"})
"""Values of `include` that are fulfilled, the second always. Others ask for data of the provider's own tools."""


def read_request(body: Any, losses: Losses, knobs: Knobs, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Read a request body.

    Raises `ClientRequestError` for a malformed field, `Unsupported` for a field that no other dialect can express or
    that needs stored state, `TooMany` for too many items. A field of no use to other dialects becomes a loss.
    """
    if type(body) is not dict:
        raise ClientRequestError("", f"expected a JSON object, got {kind_of(body)}")
    # A request with only the usual fields needs no readers of others.
    usual = _USUAL.issuperset(body)
    if not usual and not FIELDS.issuperset(body):
        drop_unknown(body, FIELDS, losses)
    request = Request(DIALECT, required(body, "model", str), [])
    if not usual and not _UNSUPPORTED.isdisjoint(body):
        _reject(body)
    request.stream = optional(body, "stream", bool) or False
    # A Responses stream always ends with its usage.
    request.include_usage = True
    tools = ToolList(losses)
    if not usual:
        tools.declare(optional(body, "tools", list) or [], ("tools",))
    items = _read_input(request, body, tools, losses, limits)
    request.tools = tools.tools
    if not usual:
        request.tool_choice = read_tool_choice(body, request.tools, knobs, losses)
        request.parallel = optional(body, "parallel_tool_calls", bool)
    read_sampling(request, body, _CAPS, losses)
    if "include" in body or "top_logprobs" in body:
        _read_logprobs(request, body, losses)
    if not usual:
        request.thinking = read_reasoning(body, losses)
        request.format, request.verbosity = read_text(body, losses)
    if items is not None:
        _apply_updates(request, items)
    if not usual and not _LIMITS.isdisjoint(body):
        _read_limits(body, losses)
    if not usual and not SERVICE_KEYS.isdisjoint(body):
        read_service(request, body, losses)
    request.store = optional(body, "store", bool)
    if not usual and (stream_options := optional(body, "stream_options", dict)):
        drop_unknown(stream_options, _STREAM_OPTIONS, losses, ("stream_options",))
    request.echo = echoed_settings(body)
    return request


def _reject(body: Json) -> None:
    for key, why in _REJECTED.items():
        reject_if_set(body, key, why)
    if optional(body, "background", bool):
        raise Unsupported(("background",), "responses are not run in the background here yet; use `stream` instead")


def _read_input(request: Request, body: Json, tools: ToolList, losses: Losses, limits: Limits) -> ItemsReader | None:
    """Read `instructions` and `input`. Returns the reader of the items, which has the settings that they changed."""
    instructions = optional(body, "instructions", str)
    if instructions:
        request.turns.append(compact_turn("instruction", instructions, ("instructions",), "top", True))
    content, where = body.get("input"), ("input",)
    if type(content) is str:
        request.turns.append(compact_turn("user", content, where, "", True))
        return None
    if instructions and (content is None or content == []):
        return None  # a conversation of instructions only
    if type(content) is not list:
        either = "a string or an array of items"
        problem = f"is required ({either})" if content is None else f"expected {either}, got {kind_of(content)}"
        raise ClientRequestError(where, problem)
    if len(content) > limits.messages:
        raise TooMany(where, f"{len(content)} items", "messages", limits.messages)
    if not content:
        raise ClientRequestError(where, "must not be empty")
    reader = ItemsReader(tools, losses, request.turns)
    reader.read(content)
    return reader


def _read_logprobs(request: Request, body: Json, losses: Losses) -> None:
    included = optional(body, "include", list) or ()
    for index, word in enumerate(included):
        if typed(word, str, ("include", index)) not in _INCLUDED:
            losses.add(LossCode.VENDOR_OPTION, ("include", index))
    request.top_logprobs = optional(body, "top_logprobs", int) or None
    # Either requests them. Chat accepts a count only together with `logprobs`.
    request.logprobs = _LOGPROBS in included or request.top_logprobs is not None


def _apply_updates(request: Request, items: ItemsReader) -> None:
    """Replace settings of the request by those of its last `configuration_update` items."""
    if items.effort is not None:
        summary = request.thinking.summary if request.thinking is not None else None
        request.thinking = Thinking(items.effort.effort, items.effort.at, summary=summary)
    if items.format:
        (request.format,) = items.format


def _read_limits(body: Json, losses: Losses) -> None:
    if optional(body, "max_tool_calls", int) is not None:
        losses.add(LossCode.MAX_TOOL_CALLS, ("max_tool_calls",))
    if one_of(body, "truncation", ("auto", "disabled")) == "auto":
        losses.add(LossCode.TRUNCATION, ("truncation",))
    for key, code in _DROPPED.items():
        drop_if_set(body, key, code, losses)
