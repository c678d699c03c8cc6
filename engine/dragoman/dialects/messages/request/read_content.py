"""Reads the content blocks of a Messages request into canonical parts (mapping §4, §5.1, §6.4, §8.4).

There is a table of block types for each role. A type that is not in the role's table is rejected, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.canonical.parts import (
    Document,
    FileRef,
    Image,
    Inline,
    Json,
    Native,
    Part,
    Reasoning,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.turn import ReasoningFields
from dragoman.dialects.messages.block_types import DIRECT, NATIVE_BLOCKS
from dragoman.dialects.messages.citations import read_request_citation
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.inline_data import read_file_data, read_image_data
from dragoman.dialects.shared.json_fields import arguments_text, drop_unknown, kind_of, optional, required, typed
from dragoman.dialects.shared.placeholders import read_unread
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.reasoning.envelope import unwrap
from dragoman.wire.json_codec import dumps, has_float

_BlockReader = Callable[[Json, Path, Losses], Part]

_TEXT_KEYS: Final = frozenset({"type", "text", "cache_control", "citations"})
_IMAGE_KEYS: Final = frozenset({"type", "source", "cache_control", "transformations"})
_DOCUMENT_KEYS: Final = frozenset({"type", "source", "title", "context", "citations", "cache_control"})
_SEARCH_KEYS: Final = frozenset({"type", "source", "title", "content", "citations", "cache_control"})
_CALL_KEYS: Final = frozenset({"type", "id", "name", "input", "caller", "toolset_name", "cache_control"})
_RESULT_KEYS: Final = frozenset({"type", "tool_use_id", "content", "is_error", "toolset_name", "cache_control"})
_REFERENCE_KEYS: Final = frozenset({"type", "tool_name", "cache_control"})
_COMPACTION_KEYS: Final = frozenset(
    {"type", "content", "cache_control", "encrypted_content", "signature", "tool_changes"}
)
_CACHE_KEYS: Final = frozenset({"type", "ttl"})
_CITATIONS_KEYS: Final = frozenset({"enabled"})
_SOURCE_KEYS: Final[dict[str, frozenset[str]]] = {
    "base64": frozenset({"type", "media_type", "data"}),
    "text": frozenset({"type", "media_type", "data"}),
    "url": frozenset({"type", "url"}),
    "file": frozenset({"type", "file_id"}),
    "content": frozenset({"type", "content"}),
}


def read_cache(block: Json, at: Path, losses: Losses) -> Json | None:
    """Return the cache mark of a block, a tool or the body, `{"ttl": …}`, or None."""
    mark = block.get("cache_control")
    if mark is None:
        return None
    path = (*at, "cache_control")
    drop_unknown(typed(mark, dict, path), _CACHE_KEYS, losses, path)
    ttl = optional(mark, "ttl", str, path)
    if ttl is not None and ttl not in ("5m", "1h"):
        raise ClientRequestError((*path, "ttl"), f"expected 5m or 1h; got {ttl!r}")
    return {"ttl": ttl}


def read_blocks(
    content: list[Any],
    table: dict[str, _BlockReader],
    role: str,
    at: Path,
    losses: Losses,
    summaries: list[Part] | None = None,
) -> list[Part]:
    """Return the parts of a content array.

    A block that cannot be read or translated becomes a placeholder in the assistant's turns, and an `Unread` in user's
    turns and results. Elsewhere it is rejected: raises `ClientRequestError` for a malformed block, `Unsupported` for
    one that cannot be translated.

    Args:
        content: the blocks.
        table: the readers of the types that are allowed here.
        role: the place of the blocks, for error messages.
        at: the path of the array.
        losses: where dropped fields are recorded.
        summaries: receives the parts of `compaction` blocks; None if they are not allowed here.
    """
    parts: list[Part] = []
    index = -1
    for block in content:
        index += 1
        path = (*at, index)
        try:
            if type(block) is not dict:
                raise ClientRequestError(path, f"expected a content block (an object), got {kind_of(block)}")
            kind = block.get("type")
            # Plain texts are the most frequent blocks; reading them here saves a call.
            if kind == "text" and len(block) == 2 and type(text := block.get("text")) is str:
                parts.append(Text(text, path))
            elif type(kind) is str and (reader := table.get(kind)) is not None:
                parts.append(reader(block, path, losses))
            elif kind == "compaction" and summaries is not None:
                summaries.append(_compaction(block, path, losses))
            else:
                _reject_block(kind, path, role)
        except ClientRequestError as error:
            if not (table is USER or table is RESULT or table is ASSISTANT):
                raise
            parts.append(read_unread(block, error, path, losses, assistant=table is ASSISTANT))
    return parts


def _reject_block(kind: Any, path: Path, role: str) -> None:
    if type(kind) is not str:
        raise ClientRequestError((*path, "type"), "a content block needs a type")
    if kind == "container_upload":
        raise Unsupported(path, "files of a code execution container cannot be sent to this upstream")
    if kind in USER or kind in ASSISTANT or kind in RESULT:
        raise Unsupported(path, f"a {kind} block in {role} cannot be sent to this upstream")
    raise Unsupported(path, f"content blocks of type {kind!r} cannot be sent to this upstream")


def _text(block: Json, at: Path, losses: Losses) -> Text:
    part = Text(required(block, "text", str, at), at)
    if len(block) > 2:
        if not _TEXT_KEYS.issuperset(block):
            drop_unknown(block, _TEXT_KEYS, losses, at)
        part.cache = read_cache(block, at, losses)
        if "citations" in block:
            for index, citation in enumerate(optional(block, "citations", list, at) or ()):
                part.citations.append(read_request_citation(typed(citation, dict, (*at, "citations", index))))
    return part


def _source(block: Json, at: Path, losses: Losses) -> tuple[Json, str, Path]:
    source, path = required(block, "source", dict, at), (*at, "source")
    kind = required(source, "type", str, path)
    known = _SOURCE_KEYS.get(kind)
    if known is not None:  # the caller rejects any other kind
        drop_unknown(source, known, losses, path)
    return source, kind, path


def _media(source: Json, kind: str, path: Path, *, image: bool) -> Inline | Url | FileRef:
    if kind == "base64":
        media_type, data = required(source, "media_type", str, path), required(source, "data", str, path)
        return read_image_data(media_type, data, (*path, "data")) if image else read_file_data(media_type, data)
    if kind == "url":
        return Url(required(source, "url", str, path))
    if kind == "file":
        return FileRef(required(source, "file_id", str, path), DIALECT)
    raise Unsupported((*path, "type"), f"sources of type {kind!r} cannot be sent to this upstream")


def _image(block: Json, at: Path, losses: Losses) -> Image:
    part = Image(_media(*_source(block, at, losses), image=True), at)
    if len(block) > 2:
        drop_unknown(block, _IMAGE_KEYS, losses, at)
        part.cache = read_cache(block, at, losses)
        if block.get("transformations") is not None:
            losses.add(LossCode.VENDOR_OPTION, (*at, "transformations"))
    return part


def _citations_enabled(block: Json, at: Path, losses: Losses) -> bool:
    asked = optional(block, "citations", dict, at)
    if asked is None:
        return False
    drop_unknown(asked, _CITATIONS_KEYS, losses, (*at, "citations"))
    return asked.get("enabled") is True


def _document(block: Json, at: Path, losses: Losses) -> Document:
    source, kind, path = _source(block, at, losses)
    given: Inline | Url | FileRef | Text | list[Text | Image]
    if kind == "text":
        given = Text(required(source, "data", str, path), path)
    elif kind == "content":
        content = source.get("content")
        inside = (*path, "content")
        if type(content) is str:
            given = [Text(content, inside)]
        else:
            # This table has readers of texts and images only.
            given = read_blocks(typed(content, list, inside), _NESTED, "a document", inside, losses)  # type: ignore[assignment]
    else:
        given = _media(source, kind, path, image=False)
    drop_unknown(block, _DOCUMENT_KEYS, losses, at)
    return Document(
        given,
        at,
        name=optional(block, "title", str, at),
        context=optional(block, "context", str, at),
        cite=_citations_enabled(block, at, losses),
        cache=read_cache(block, at, losses),
    )


def _search_result(block: Json, at: Path, losses: Losses) -> SearchResult:
    drop_unknown(block, _SEARCH_KEYS, losses, at)
    inside = (*at, "content")
    body = read_blocks(required(block, "content", list, at), _TEXTS, "a search result", inside, losses)
    return SearchResult(
        required(block, "source", str, at),
        required(block, "title", str, at),
        body,  # type: ignore[arg-type]
        at,
        cite=_citations_enabled(block, at, losses),
        cache=read_cache(block, at, losses),
    )


def _thinking(block: Json, at: Path, losses: Losses) -> Reasoning:
    signature = optional(block, "signature", str, at)
    return Reasoning(*reasoning_fields(required(block, "thinking", str, at), signature or None, block, at))


def _redacted_thinking(block: Json, at: Path, losses: Losses) -> Reasoning:
    return Reasoning(*reasoning_fields("", required(block, "data", str, at), block, at, redacted=True))


def reasoning_fields(text: str, proof: str | None, block: Json, at: Path, redacted: bool = False) -> ReasoningFields:
    """Return the fields of a `Reasoning` part for a block of an earlier turn, opened if `proof` is an envelope.

    Args:
        text: the thinking, "" for a redacted block.
        proof: the block's signature or data.
        block: the block itself.
        at: its path.
        redacted: True for a redacted block.
    """
    # Envelopes begin with a tag that ends with a dot; a vendor's signature has no dot.
    if proof and "." in proof and (envelope := unwrap(proof)) is not None:
        dialect, family, _, original = envelope
        return text, at, dialect, proof, redacted, original, family
    return text, at, DIALECT, proof, redacted, block, None


def _call_meta(block: Json, at: Path, losses: Losses) -> None:
    caller = block.get("caller")
    if caller is not None and caller != DIRECT:
        losses.add(LossCode.CALL_META, (*at, "caller"))
    if block.get("toolset_name") is not None:
        losses.add(LossCode.CALL_META, (*at, "toolset_name"))


def _tool_use(block: Json, at: Path, losses: Losses) -> ToolCall:
    given, call_id, name = block.get("input"), block.get("id"), block.get("name")
    if type(call_id) is not str or type(name) is not str:
        call_id = required(block, "id", str, at)
        name = required(block, "name", str, at)
    if type(given) is dict and has_float(given):
        losses.may_be_rounded = True
    call = ToolCall(call_id, name, arguments_text(given), at)
    if len(block) > 4:
        if not _CALL_KEYS.issuperset(block):
            drop_unknown(block, _CALL_KEYS, losses, at)
        call.cache = read_cache(block, at, losses)
        _call_meta(block, at, losses)
    return call


def _tool_result(block: Json, at: Path, losses: Losses) -> ToolResult:
    content = block.get("content")
    given: str | list[Part]
    if type(content) is str:
        given = content
    elif content is None:
        given = ""
    elif type(content) is list and all(type(item) is dict and "type" in item for item in content):
        given = read_blocks(content, RESULT, "a tool result", (*at, "content"), losses)
    else:
        # Old clients send any JSON as content (mapping §6.4).
        given = dumps(content).decode()
    call_id = block.get("tool_use_id")
    if type(call_id) is not str:
        call_id = required(block, "tool_use_id", str, at)
    result = ToolResult(call_id, given, at)
    if len(block) > 3 or "content" not in block:
        if "is_error" in block:
            result.is_error = optional(block, "is_error", bool, at) or False
        if not _RESULT_KEYS.issuperset(block):
            drop_unknown(block, _RESULT_KEYS, losses, at)
        if "cache_control" in block:
            result.cache = read_cache(block, at, losses)
        if "toolset_name" in block:
            _call_meta(block, at, losses)
    return result


def _tool_reference(block: Json, at: Path, losses: Losses) -> ToolReference:
    drop_unknown(block, _REFERENCE_KEYS, losses, at)
    if block.get("cache_control") is not None:
        losses.add(LossCode.CACHE_HINT, (*at, "cache_control"))
    return ToolReference(required(block, "tool_name", str, at), at)


def _browser_state(block: Json, at: Path, losses: Losses) -> Text:
    losses.add(LossCode.RESULT_SHAPE, at, "became its JSON as text")
    return Text(dumps(block).decode(), at)


def _native(block: Json, at: Path, losses: Losses) -> Native:
    kind: str = block["type"]
    return Native(DIALECT, kind, block, NATIVE_BLOCKS[kind], at)


def _compaction(block: Json, at: Path, losses: Losses) -> Text:
    drop_unknown(block, _COMPACTION_KEYS, losses, at)
    content = block.get("content")
    if content is None:
        raise Unsupported(
            (*at, "content"), "a compaction block without a readable summary means nothing to this upstream"
        )
    losses.add(LossCode.COMPACTION_SHAPE, at, "the summary became user text")
    return Text(typed(content, str, (*at, "content")), at, read_cache(block, at, losses))


_TEXTS: Final[dict[str, _BlockReader]] = {"text": _text}

_NESTED: Final[dict[str, _BlockReader]] = {"text": _text, "image": _image}

RESULT: Final[dict[str, _BlockReader]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
    "browser_state": _browser_state,
}

USER: Final[dict[str, _BlockReader]] = {
    "text": _text,
    "tool_result": _tool_result,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "compaction": _compaction,
}

ASSISTANT: Final[dict[str, _BlockReader]] = {
    "text": _text,
    "tool_use": _tool_use,
    "thinking": _thinking,
    "redacted_thinking": _redacted_thinking,
    **dict.fromkeys(NATIVE_BLOCKS, _native),
}

INSTRUCTION: Final = _TEXTS
