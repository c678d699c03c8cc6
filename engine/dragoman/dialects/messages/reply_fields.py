"""The keys of Messages replies that are read, at every level (messages §8, mapping §9.1).

Every other key with a value is recorded, once for each path. A key that is read here but has no effect holds no
information for a client: constants, or the region, which the request sets.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects.messages.stop_and_usage import METRICS, read_usage, stated_usage
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.dialects.shared.service_report import (
    STATED,
    ReportHolder,
    note_billing,
    note_tier,
    record_stated,
    report_of,
)
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext

# fmt: off
EVENT: Final = frozenset(("type", "index", "delta", "content_block", "message", "usage", METRICS))
EVENTS: Final = frozenset((
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "ping",
))
MESSAGE: Final = frozenset((
    "id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "usage", METRICS,
))
_USAGE: Final = frozenset((
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation",
    "output_tokens_details", "service_tier", "inference_geo",
    "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details",
))
_CITATION: Final = frozenset((
    "type", "cited_text", "url", "title", "encrypted_index", "document_index", "document_title", "file_id", "source",
    "search_result_index", "start_char_index", "end_char_index", "start_page_number", "end_page_number",
    "start_block_index", "end_block_index",
))
# fmt: on
_CHANGES: Final = frozenset(("context_management", "input_transformations"))
_READ_USAGE: Final = _USAGE | STATED | {"speed"}
_ONLY_STATED: Final = (STATED | {"speed"}) - {"server_tool_use"}
_USAGE_DETAILS: Final = (
    ("output_tokens_details", frozenset(("thinking_tokens",))),
    ("cache_creation", frozenset(("ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens"))),
)
_CALLER: Final = frozenset(("type",))
_TOOL_USE: Final = frozenset(("web_search_requests", "web_fetch_requests"))
_STOP_DETAILS: Final = frozenset(("type", "category", "explanation"))
STOP: Final = frozenset(("stop_reason", "stop_sequence", "stop_details"))
"""The keys of the delta of a `message_delta`."""
TEXT_KEYS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Type of a delta → the key of its text."""
BLOCKS: Final = {
    "text": frozenset(("type", "text", "citations")),
    "thinking": frozenset(("type", "thinking", "signature")),
    "tool_use": frozenset(("type", "id", "name", "input", "caller")),
}
DELTAS: Final = {
    "text_delta": frozenset(("type", "text")),
    "thinking_delta": frozenset(("type", "thinking")),
    "input_json_delta": frozenset(("type", "partial_json")),
    "signature_delta": frozenset(("type", "signature")),
    "citations_delta": frozenset(("type", "citation")),
}
ARGUMENTS: Final = "the input of a call was in its arguments"
_EDIT_MAX: Final = 32
"""Most edits and transformations that are noted of each kind."""


def read_extras(body: Json, known: frozenset[str], at: Path, context: ReplyContext) -> None:
    """Read the keys of a message, or of an event, that are not in `known`, and record those without a use."""
    note_changes(body, context)
    record_stated(body, _CHANGES, at, context.losses)
    record_unknown(body, known | _CHANGES, at, context.losses)


def note_changes(body: Json, holder: ReportHolder) -> None:
    """Note the edits of context management, and what the upstream removed from the request."""
    edits = body.get("context_management")
    if type(edits) is dict and (applied := _facts(edits.get("applied_edits"))):
        report_of(holder).applied_edits = applied
    if removed := _facts(body.get("input_transformations")):
        report_of(holder).input_transformations = removed


def _facts(entries: Any) -> list[Json]:
    """Return the entries with their counts and words; texts that may be long are left out."""
    return [
        {key[:64]: value for key, value in entry.items() if _is_fact(value)}
        for entry in (entries[:_EDIT_MAX] if type(entries) is list else ())
        if type(entry) is dict
    ]


def _is_fact(value: Any) -> bool:
    return type(value) is int or type(value) is bool or (type(value) is str and len(value) <= 64)


def note_usage(usage: Any, at: Path, context: ReplyContext) -> None:
    """Note what a usage states in addition to the token counts, and record its other keys."""
    if type(usage) is not dict:
        return
    losses = context.losses
    if tier := usage.get("service_tier"):
        note_tier(context, tier)
    if not _USAGE.issuperset(usage):
        _note_extras(usage, context)
        record_stated(usage, _ONLY_STATED, at, losses)
        if type(used := usage.get("server_tool_use")) is dict:
            record_unknown(used, _TOOL_USE, (*at, "server_tool_use"), losses)
        record_unknown(usage, _READ_USAGE, at, losses)
    for key, known in _USAGE_DETAILS:
        details = usage.get(key)
        if type(details) is dict and not known.issuperset(details):
            record_unknown(details, known, (*at, key), losses)


def _note_extras(usage: Json, holder: ReportHolder) -> None:
    """Note the speed (`BetaUsage.speed`), the price and the searches of a usage."""
    if (speed := usage.get("speed")) == "fast" or speed == "standard":
        report_of(holder).speed = speed
    note_billing(holder, usage)


def note_service(message: Json, holder: ReportHolder) -> Usage | None:
    """Note tier, price, searches and changes of a forwarded message, and return its token counts."""
    note_message(message, holder)
    return read_usage(stated_usage(message))


def note_message(message: Json, holder: ReportHolder) -> None:
    """Note tier, price, searches and changes of a forwarded message or `message_delta`."""
    note_changes(message, holder)
    if type(usage := message.get("usage")) is dict:
        if tier := usage.get("service_tier"):
            note_tier(holder, tier)
        if not _USAGE.issuperset(usage):
            _note_extras(usage, holder)


def record_unknown_details(details: Any, at: Path, losses: Losses) -> None:
    """Record the unknown keys of `stop_details`."""
    if type(details) is dict and not _STOP_DETAILS.issuperset(details):
        record_unknown(details, _STOP_DETAILS, at, losses)


def record_unknown_citation(citation: Any, at: Path, context: ReplyContext) -> None:
    """Record the unknown keys of a citation, which is passed on as it is between two sides of this dialect."""
    if type(citation) is dict and not context.same_dialect:
        record_unknown(citation, _CITATION, at, context.losses)


def record_unknown_block(block: Json, at: Path, context: ReplyContext) -> None:
    """Record the unknown keys of a block of text, thinking or a call, and a caller that is not the model.

    A thinking block is passed on with all of its keys between two sides of this dialect. Its stream has no place for
    them (`MessagesWriter`).
    """
    kind = block.get("type")
    known = BLOCKS.get(kind) if type(kind) is str else None
    if known is None:
        return
    if kind == "tool_use" and block.get("input") is None:
        known |= {"arguments"}
    if not known.issuperset(block) and not (kind == "thinking" and context.same_dialect):
        record_unknown(block, known, at, context.losses)
    if type(caller := block.get("caller")) is dict:
        if caller.get("type") != "direct":
            context.losses.add(LossCode.CALL_META, (*at, "caller"))
        elif len(caller) > 1:
            record_unknown(caller, _CALLER, (*at, "caller"), context.losses)
