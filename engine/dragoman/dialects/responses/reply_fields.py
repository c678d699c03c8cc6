"""The keys of Responses replies that are read, at every level (responses §7, mapping §9.1).

Every other key with a value is recorded, once for each path. A key that is read here but has no effect holds no
information for a client: constants, ids that are replaced, settings of the request that are repeated.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects.openai.logprobs import record_unknown_tokens
from dragoman.dialects.openai.moderation import read_response_moderation
from dragoman.dialects.responses.stop_and_usage import read_usage
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.dialects.shared.service_report import (
    STATED,
    WEB_SEARCH,
    ReportHolder,
    note_billing,
    note_calls,
    note_tier,
    record_stated,
    report_of,
)
from dragoman.errors import Path
from dragoman.losses import Losses
from dragoman.reply_context import ReplyContext

# fmt: off
EVENT: Final = frozenset((
    "type", "sequence_number", "response", "output_index", "item", "item_id", "content_index", "summary_index", "part",
    "delta", "text", "refusal", "arguments", "input", "name", "logprobs", "annotation", "annotation_index",
    "obfuscation",
))
RESPONSE: Final = frozenset((
    "id", "object", "created_at", "completed_at", "model", "status", "output", "output_text", "error",
    "incomplete_details", "usage", "instructions", "metadata", "parallel_tool_calls", "temperature", "tool_choice",
    "tools", "top_p", "presence_penalty", "frequency_penalty", "background", "conversation", "max_output_tokens",
    "max_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "text", "top_logprobs",
    "truncation", "user", "image",
))
ITEMS: Final = {
    "message": frozenset(("type", "id", "status", "role", "content", "phase")),
    "reasoning": frozenset(("type", "id", "status", "summary", "content", "encrypted_content")),
    "function_call": frozenset((
        "type", "id", "status", "call_id", "name", "arguments", "namespace", "caller", "async",
    )),
    "custom_tool_call": frozenset((
        "type", "id", "status", "call_id", "name", "input", "namespace", "caller", "async",
    )),
    "tool_search_call": frozenset(("type", "id", "status", "call_id", "execution", "arguments")),
    "shell_call": frozenset(("type", "id", "status", "call_id", "action", "environment", "caller", "created_by")),
    "local_shell_call": frozenset(("type", "id", "status", "call_id", "action")),
    "apply_patch_call": frozenset(("type", "id", "status", "call_id", "operation", "caller", "created_by")),
}
# fmt: on
_PARTS: Final = frozenset(("type", "text", "refusal", "annotations", "logprobs"))
_USAGE: Final = frozenset(
    (
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "input_tokens_details",
        "output_tokens_details",
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
    )
)
_USAGE_DETAILS: Final = (
    ("input_tokens_details", frozenset(("cached_tokens", "cache_write_tokens", "text_tokens"))),
    ("output_tokens_details", frozenset(("reasoning_tokens", "text_tokens"))),
)
_CALLER: Final = frozenset(("type",))
_URL_CITATION: Final = frozenset(("type", "url", "title", "start_index", "end_index"))
_REASON: Final = frozenset(("reason",))
_TRANSFORMATIONS: Final = frozenset(("input_transformations",))
_USED: Final = RESPONSE | _TRANSFORMATIONS | STATED
_FACT_MAX: Final = 32
_TOOL_CALLS: Final = {
    f"{tool}_call": tool for tool in (WEB_SEARCH, "file_search", "code_interpreter", "image_generation", "mcp")
}
"""Type of an item that is a call of one of the upstream's own tools → the tool."""
_TOOL_ITEMS: Final = tuple(_TOOL_CALLS)  # not a set: a type may be anything
_SEARCHES: Final = ("search", None)
"""The actions of a `web_search_call` that are paid (`ToolUsageWebSearch` of OpenAI's SDK); older ones have none."""


def read_response(response: Json, at: Path, context: ReplyContext) -> None:
    """Read what a Response object states in addition to its output, and record its other keys."""
    losses = context.losses
    if tier := response.get("service_tier"):
        note_tier(context, tier)
    if output := response.get("output"):
        note_output(output, context)
    if not RESPONSE.issuperset(response):
        used = _USED
        if context.moderation_requested and (moderation := response.get("moderation")):
            context.moderation, used = read_response_moderation(moderation), used | {"moderation"}
        note_billing(context, response)
        note_changes(response, context)
        record_stated(response, STATED | _TRANSFORMATIONS, at, losses)
        record_unknown(response, used, at, losses)
    if type(details := response.get("incomplete_details")) is dict and not _REASON.issuperset(details):
        record_unknown(details, _REASON, (*at, "incomplete_details"), losses)
    usage = response.get("usage")
    if type(usage) is not dict:
        return
    if not _USAGE.issuperset(usage):
        note_billing(context, usage)
        record_stated(usage, STATED, (*at, "usage"), losses)
        record_unknown(usage, _USAGE | STATED, (*at, "usage"), losses)
    for key, known in _USAGE_DETAILS:
        inner = usage.get(key)
        if type(inner) is dict and not known.issuperset(inner):
            record_unknown(inner, known, (*at, "usage", key), losses)


def note_changes(response: Json, holder: ReportHolder) -> None:
    """Note what the upstream removed from the request: type, action and reason of each."""
    entries = response.get("input_transformations")
    if type(entries) is list and entries:
        report_of(holder).input_transformations = [
            {key[:64]: value for key, value in entry.items() if type(value) is str and len(value) <= 64}
            for entry in entries[:_FACT_MAX]
            if type(entry) is dict
        ]


def note_output(output: Any, holder: ReportHolder) -> None:
    """Note the calls of the upstream's own tools in an output. The upstream's counts of them, if any, come after it.

    The calls of a code interpreter count as the containers that they ran in, which is what the vendor charges.
    """
    if type(output) is not list:
        return
    calls = [item for item in output if type(item) is dict and item.get("type") in _TOOL_ITEMS]
    if calls:
        # Calls in the same container are one.
        paid = {
            _container(item, number): _TOOL_CALLS[item["type"]] for number, item in enumerate(calls) if _is_paid(item)
        }
        note_calls(holder, Counter(paid.values()))


def _container(call: Json, number: int) -> str | int:
    """Return the container of a call, or else its number."""
    container = call.get("container_id")
    return container if type(container) is str else number


def _is_paid(call: Json) -> bool:
    """Return False for actions of a web search that are no search."""
    action = call.get("action")
    return type(action) is not dict or call["type"] != "web_search_call" or action.get("type") in _SEARCHES


def note_service(response: Json, holder: ReportHolder) -> Usage | None:
    """Note tier, price, searches and changes of a forwarded response, and return its token counts."""
    if tier := response.get("service_tier"):
        note_tier(holder, tier)
    if output := response.get("output"):
        note_output(output, holder)
    if not RESPONSE.issuperset(response):
        note_billing(holder, response)
        note_changes(response, holder)
    if type(usage := response.get("usage")) is dict and not _USAGE.issuperset(usage):
        note_billing(holder, usage)
    return read_usage(response.get("usage"))


def record_unknown_item(item: Json, at: Path, context: ReplyContext) -> None:
    """Record the unknown keys of an item that is read, and of its parts."""
    kind, losses = item.get("type"), context.losses
    known = ITEMS.get(kind) if type(kind) is str else None
    if known is None or item.get("execution") == "server":  # that one is passed on or dropped as a whole
        return
    if not known.issuperset(item):
        record_unknown(item, known, at, losses)
    if type(caller := item.get("caller")) is dict and caller.get("type") == "direct":
        record_unknown(caller, _CALLER, (*at, "caller"), losses)
    if kind == "message" or kind == "reasoning":
        for key in ("content", "summary"):
            parts = item.get(key)
            for number, part in enumerate(parts if type(parts) is list else ()):
                if type(part) is dict:
                    record_unknown_part(part, (*at, key, number), context)


def record_unknown_part(part: Json, at: Path, context: ReplyContext) -> None:
    """Record the unknown keys of a part, and of the web pages that it cites."""
    if not _PARTS.issuperset(part):
        record_unknown(part, _PARTS, at, context.losses)
    if context.logprobs and (tokens := part.get("logprobs")):
        record_unknown_tokens(tokens, ("logprobs",), context.losses)
    if type(annotations := part.get("annotations")) is list:
        for annotation in annotations:
            record_unknown_annotation(annotation, (*at, "annotations"), context)


def record_unknown_annotation(annotation: Any, at: Path, context: ReplyContext) -> None:
    """Record the unknown keys of a `url_citation`. Other annotations are dropped as a whole, or passed on as they are.

    Between two sides of this dialect every annotation is passed on.
    """
    if type(annotation) is dict and annotation.get("type") == "url_citation" and not context.same_dialect:
        record_unknown(annotation, _URL_CITATION, at, context.losses)


def unknown_of_event(event: Json, name: str, losses: Losses) -> None:
    """Record the unknown keys of an event that is read."""
    record_unknown(event, EVENT, (name,), losses)
