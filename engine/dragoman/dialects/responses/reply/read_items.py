"""What an output item of a Responses reply holds, in canonical words: the same for a stream and a whole reply.

An item is told several times over, in its own `.done` events, in `response.output_item.done` and in the last snapshot.
Everything here reads one such telling, so that a stream and a whole reply cannot disagree (mapping §1.6).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from dragoman.canonical.events import BlockKind, Citation
from dragoman.canonical.request import Json
from dragoman.dialects.openai.logprobs import check_tokens
from dragoman.dialects.responses.wire import TOOL_SEARCH, read_citation
from dragoman.errors import Path, UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import dumps

_LONGEST_MINTED_ID: Final = 40


class ItemKind(IntEnum):
    """What becomes of an item."""

    UNKNOWN = 0
    MESSAGE = 1
    REASONING = 2
    CALL = 3
    NATIVE = 4


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
"""Items that no other dialect has, with the loss of leaving them out (mapping §6.5, §8.4). What a tool gave is among
them where the provider ran it; so is a tool search that the provider ran."""

CALLS: Final[dict[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "tool_search_call": "arguments",
}
"""Items that the client is to run, and where each has what it was called with."""

_NEVER_DECLARED: Final = frozenset(
    {"shell_call", "local_shell_call", "apply_patch_call", "computer_call", "mcp_approval_request"}
)
"""The client would have to act on these, but no request of another dialect declares them (mapping §6.1)."""

PARTS: Final[dict[str, tuple[BlockKind, str]]] = {
    "output_text": (BlockKind.TEXT, "text"),
    "refusal": (BlockKind.REFUSAL, "refusal"),
}
"""Parts of a message, and where each has its text."""

_SORTS: Final[dict[str, ItemKind]] = {
    **dict.fromkeys(NATIVE_ITEMS, ItemKind.NATIVE),
    **dict.fromkeys(CALLS, ItemKind.CALL),
    "message": ItemKind.MESSAGE,
    "reasoning": ItemKind.REASONING,
}
_REASONING_KEYS: Final = ("type", "id", "summary", "content", "encrypted_content")


def item_kind(item: Json) -> ItemKind:
    """What becomes of the item. Raises UpstreamProtocolError for one that waits for what the client cannot do."""
    kind = item.get("type")
    if type(kind) is not str:
        return ItemKind.UNKNOWN
    if kind in _NEVER_DECLARED:
        raise UpstreamProtocolError(f"upstream sent a {kind}, which the client did not declare and could not answer")
    if kind == "tool_search_call" and item.get("execution") == "server":
        return ItemKind.NATIVE
    return _SORTS.get(kind) or ItemKind.UNKNOWN


def is_cut(item: Json, *, cut: bool) -> bool:
    """Did the item stay unfinished? In the snapshot of a reply that was `cut`, what is in progress did."""
    status = item.get("status")
    return bool(status == "incomplete" or (cut and status == "in_progress"))


# --- messages ---------------------------------------------------------------------------------------------------------


def check_role(item: Json) -> None:
    """Raise UpstreamProtocolError unless the assistant speaks."""
    if item.get("role") not in (None, "assistant"):
        raise UpstreamProtocolError(f"upstream spoke as {item['role']!r}, not as the assistant")


def part_kind(raw: Any) -> tuple[BlockKind, str] | None:
    """Kind and text field of a part, or None if it is none that is known."""
    kind = raw.get("type") if type(raw) is dict else None
    return PARTS.get(kind) if type(kind) is str else None


def read_citations(part: Json, at: Path, losses: Losses, after: int = 0) -> list[Citation]:
    """The citations of a text part, without the first `after`, which are known already."""
    notes = part.get("annotations")
    if type(notes) is not list:
        if notes:
            losses.add(LossCode.CITATIONS, at)
        return []
    found = []
    for note in notes[after:]:
        if type(note) is dict:
            found.append(read_citation(note))
        else:
            losses.add(LossCode.CITATIONS, at)
    return found


def read_logprobs(holder: Json, context: ReplyContext) -> list[Json]:
    """The log probabilities beside a text, if the client asked for them.

    Raises UpstreamProtocolError for what are no tokens with their probabilities.
    """
    return check_tokens(holder.get("logprobs")) if context.logprobs else []


# --- reasoning --------------------------------------------------------------------------------------------------------


def reasoning_texts(item: Json) -> tuple[list[str], list[str]]:
    """The texts of a reasoning item's `content` and of its `summary`, part by part."""
    return _texts(item.get("content")), _texts(item.get("summary"))


def _texts(parts: Any) -> list[str]:
    if type(parts) is not list:
        return []
    texts = (part.get("text") if type(part) is dict else None for part in parts)
    return [text if type(text) is str else "" for text in texts]


def join_paragraphs(texts: list[str]) -> str:
    """Parts of one reasoning as one text: a blank line stands between them."""
    last = max((number for number, text in enumerate(texts) if text), default=-1)
    return "\n\n".join(texts[: last + 1])


def read_encrypted_content(item: Json, context: ReplyContext) -> tuple[str | None, Json | None]:
    """The `encrypted_content` of a finished reasoning item, and the item as this server wants it back in a later
    request if the client can keep it. A server without encrypted reasoning wants the plain item (mapping §5.2).

    `summary` is required there even when empty; `status` and nulls are refused (responses §4).
    """
    given = item.get("encrypted_content")
    proof = given if type(given) is str and given else None
    if context.envelope is None or (proof is None and context.profile.encrypted_reasoning):
        return proof, None
    native = {key: item[key] for key in _REASONING_KEYS if item.get(key) is not None}
    if type(native.get("summary")) is not list:
        native["summary"] = []
    return proof, native


# --- calls ------------------------------------------------------------------------------------------------------------


def call_name(item: Json) -> str:
    """The name of the called tool as the upstream knows it; "" if it is not told."""
    if item.get("type") == "tool_search_call":
        return TOOL_SEARCH
    name = item.get("name")
    return name if type(name) is str else ""


def minted_call_id(response_id: str, position: int) -> str:
    """The id that the result of a call will name which has none of its own (mapping §11)."""
    return sanitize_call_id(f"{reply_id(response_id, 'call_')}_{position}", _LONGEST_MINTED_ID)


def namespace_of(item: Json) -> str | None:
    """The namespace of the called tool."""
    namespace = item.get("namespace")
    return namespace if type(namespace) is str and namespace else None


def call_text(holder: Json, key: str) -> str:
    """What a tool was called with, as text; "" if nothing is told.

    The arguments of a search are an object, and some servers forget to encode those of functions. Raises
    UpstreamProtocolError for anything else.
    """
    given = holder.get(key)
    if type(given) is str:
        return given
    if given is None:
        return ""
    if type(given) is dict and key == "arguments":
        return dumps(given).decode()
    raise UpstreamProtocolError(f"upstream called a tool with {key} that is neither text nor an object")


def record_call_losses(item: Json, at: Path, losses: Losses) -> None:
    """Rows for what other dialects cannot say of a call."""
    caller = item.get("caller")
    if type(caller) is dict and caller.get("type") != "direct":
        losses.add(LossCode.CALL_META, (*at, "caller"))
    if item.get("async"):
        losses.add(LossCode.CALL_META, (*at, "async"))
