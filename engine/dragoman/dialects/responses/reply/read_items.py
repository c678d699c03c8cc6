"""Reads the fields of output items, for streams and for whole replies.

A stream contains an item several times: in its own `.done` events, in `response.output_item.done` and in the last
snapshot. All of them are read here, so that a stream and a whole reply cannot differ (mapping §1.6).
"""

from __future__ import annotations

from typing import Any, Final, Literal

from dragoman.canonical.events import BlockKind, Citation
from dragoman.canonical.request import Json
from dragoman.dialects.openai.logprobs import known_tokens, record_unknown_tokens
from dragoman.dialects.responses.built_in_items import BUILT_IN_CALLS
from dragoman.dialects.responses.citations import read_citation
from dragoman.dialects.responses.stop_and_usage import TOOL_SEARCH
from dragoman.dialects.shared.json_fields import is_others_role
from dragoman.errors import Path, UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps

ItemKind = Literal["unknown", "message", "reasoning", "call", "native"]
"""Kind of an output item, by what it is translated to."""

NATIVE_ITEMS: Final[dict[str, LossCode]] = {
    "web_search_call": LossCode.HOSTED_HISTORY,
    "file_search_call": LossCode.HOSTED_HISTORY,
    "code_interpreter_call": LossCode.HOSTED_HISTORY,
    "image_generation_call": LossCode.HOSTED_HISTORY,
    "mcp_call": LossCode.HOSTED_HISTORY,
    "mcp_list_tools": LossCode.HOSTED_HISTORY,
    "function_call_output": LossCode.HOSTED_HISTORY,
    "custom_tool_call_output": LossCode.HOSTED_HISTORY,
    "computer_call_output": LossCode.HOSTED_HISTORY,
    "shell_call_output": LossCode.HOSTED_HISTORY,
    "local_shell_call_output": LossCode.HOSTED_HISTORY,
    "apply_patch_call_output": LossCode.HOSTED_HISTORY,
    "tool_search_call": LossCode.TOOL_SEARCH,
    "tool_search_output": LossCode.TOOL_SEARCH,
    "additional_tools": LossCode.VENDOR_BLOCK,
    "compaction": LossCode.VENDOR_BLOCK,
    "mcp_approval_response": LossCode.VENDOR_BLOCK,
    "program": LossCode.VENDOR_BLOCK,
    "program_output": LossCode.VENDOR_BLOCK,
}
"""Items that no other dialect has, with the loss of dropping them (mapping §6.5, §8.4). Among them are the outputs and
the searches of tools that the provider ran."""

CALLS: Final[dict[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "tool_search_call": "arguments",
}
"""Items that the client is to run → the field with their arguments."""
ARGUMENTS: Final[dict[str, str]] = {**CALLS, **{kind: call.key for kind, call in BUILT_IN_CALLS.items()}}
"""Also the calls of built-in tools, which are read for clients that declared them."""

_NEVER_DECLARED: Final = frozenset({*BUILT_IN_CALLS, "computer_call", "mcp_approval_request"})
"""Calls of tools that the client would run, but that no request of another dialect declares (mapping §6.1)."""

PARTS: Final[dict[str, tuple[BlockKind, str]]] = {
    "output_text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
}
"""Parts of a message → the kind of their block and the field with their text."""

_SORTS: Final[dict[str, ItemKind]] = {
    **dict.fromkeys(NATIVE_ITEMS, "native"),
    **dict.fromkeys(CALLS, "call"),
    "message": "message",
    "reasoning": "reasoning",
}
_REASONING_KEYS: Final = ("type", "id", "summary", "content", "encrypted_content", "format", "signature")
"""Fields of a reasoning item that a later request must contain; the last two are OpenRouter's."""


def item_kind(item: Json, context: ReplyContext) -> ItemKind:
    """Return the kind of an item. Raises UpstreamProtocolError for a call of a tool that the client cannot run."""
    kind = item.get("type")
    if type(kind) is not str:
        return "unknown"
    if kind == "tool_search_call" and item.get("execution") == "server":
        return "native"
    known = _SORTS.get(kind)
    if known is not None:
        return known
    if kind in BUILT_IN_CALLS and BUILT_IN_CALLS[kind].tool in context.built_in:
        return "call"
    if kind in _NEVER_DECLARED:
        raise UpstreamProtocolError(f"upstream sent a {kind}, which the client did not declare and could not answer")
    return "unknown"


def is_cut(item: Json, *, cut: bool) -> bool:
    """True if the item was cut off: it is incomplete, or still in progress in a reply that was `cut`."""
    status = item.get("status")
    return bool(status == "incomplete" or (cut and status == "in_progress"))


# --- messages ---------------------------------------------------------------------------------------------------------


def check_role(item: Json) -> None:
    """Raise UpstreamProtocolError unless the message is the assistant's."""
    if (role := item.get("role")) != "assistant" and is_others_role(role):
        raise UpstreamProtocolError(f"upstream spoke as {role!r}, not as the assistant")


def part_kind(raw: Any) -> tuple[BlockKind, str] | None:
    """Return the block kind and text field of a part, or None if its type is unknown."""
    kind = raw.get("type") if type(raw) is dict else None
    return PARTS.get(kind) if type(kind) is str else None


def read_citations(part: Json, at: Path, losses: Losses, after: int = 0) -> list[Citation]:
    """Return the citations of a text part, without the first `after` ones, which were read before."""
    annotations = part.get("annotations")
    if type(annotations) is not list:
        if annotations:
            losses.add(LossCode.CITATIONS, at)
        return []
    found = []
    for annotation in annotations[after:]:
        if type(annotation) is dict:
            found.append(read_citation(annotation))
        else:
            losses.add(LossCode.CITATIONS, at)
    return found


def read_logprobs(holder: Json, context: ReplyContext) -> list[Json]:
    """Return the log probabilities of a text, if the client requested them."""
    if not (logprobs := holder.get("logprobs")):
        return []
    tokens = known_tokens(logprobs, "output.content.logprobs", context)
    record_unknown_tokens(tokens, ("logprobs",), context.losses)
    return tokens


# --- reasoning --------------------------------------------------------------------------------------------------------


def reasoning_texts(item: Json) -> tuple[list[str], list[str]]:
    """Return the texts of a reasoning item's `content` and of its `summary`, one per part."""
    return _texts(item.get("content")), _texts(item.get("summary"))


def _texts(parts: Any) -> list[str]:
    """Return the text of each part; some servers send a string in place of the parts, or of a part."""
    if type(parts) is str:
        return [parts]
    if type(parts) is not list:
        return []
    texts = (part.get("text") if type(part) is dict else part for part in parts)
    return [text if type(text) is str else "" for text in texts]


def join_paragraphs(texts: list[str]) -> str:
    """Return the parts of one reasoning item as one text, separated by blank lines.

    Empty parts at either end are left out, as they are in a stream.
    """
    filled = [number for number, text in enumerate(texts) if text]
    return "\n\n".join(texts[filled[0] : filled[-1] + 1]) if filled else ""


def read_encrypted_content(item: Json, context: ReplyContext) -> tuple[str | None, Json | None]:
    """Return the `encrypted_content` of a finished reasoning item, and the item as a later request must contain it.

    There is no item if the client cannot keep it. A server without encrypted reasoning expects the plain item
    (mapping §5.2). `summary` is required there even when empty; `status` and nulls are rejected (responses §4).
    """
    value = item.get("encrypted_content")
    content = value if type(value) is str and value else None
    if context.envelope is None or (content is None and context.profile.encrypted_reasoning):
        return content, None
    native = {key: item[key] for key in _REASONING_KEYS if item.get(key) is not None}
    if type(native.get("summary")) is not list:
        native["summary"] = []
    return content, native


# --- calls ------------------------------------------------------------------------------------------------------------


def call_name(item: Json) -> str:
    """Return the upstream's name of the called tool, "" if it is missing."""
    kind = item.get("type")
    if kind == "tool_search_call":
        return TOOL_SEARCH
    if kind in BUILT_IN_CALLS:
        return BUILT_IN_CALLS[kind].tool
    name = item.get("name")
    return name if type(name) is str else ""


def namespace_of(item: Json) -> str | None:
    """Return the namespace of the called tool."""
    namespace = item.get("namespace")
    return namespace if type(namespace) is str and namespace else None


def call_text(holder: Json, key: str) -> str:
    """Return the arguments of a call as text, "" if they are missing.

    The arguments of tool searches and built-in tools are an object, and some servers send those of functions as an
    object too. Raises UpstreamProtocolError for any other type.
    """
    value = holder.get(key)
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is dict and key != "input":
        return dumps(value).decode()
    raise UpstreamProtocolError(f"upstream called a tool with {key} that is neither text nor an object")


def record_call_losses(item: Json, at: Path, losses: Losses) -> None:
    """Record the losses of a call's fields that other dialects do not have."""
    caller = item.get("caller")
    if type(caller) is dict and caller.get("type") != "direct":
        losses.add(LossCode.CALL_META, (*at, "caller"))
    if item.get("async"):
        losses.add(LossCode.CALL_META, (*at, "async"))
