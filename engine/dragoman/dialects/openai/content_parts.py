"""Content parts of Chat and Responses requests: their readers, files, and parts that become texts (mapping §4.1).

Both dialects accept the part types of the other, as clients mix them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.canonical.parts import (
    Document,
    FileRef,
    Inline,
    Json,
    Part,
    Recording,
    SearchResult,
    ToolReference,
    Unread,
    Url,
)
from dragoman.dialects.openai.data_urls import read_file_url
from dragoman.dialects.openai.media import search_text
from dragoman.dialects.openai.prompt_cache_fields import read_cache_mark
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, optional, required
from dragoman.dialects.shared.placeholders import no_recording
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.tools.names import NameTable

PartReader = Callable[[Json, Path, Losses], Part]


def read_part(
    part: Any,
    readers: Mapping[str, PartReader],
    others: Mapping[str, tuple[str, PartReader]],
    at: Path,
    losses: Losses,
) -> Part:
    """Return the part at `at`. `readers` has the types of its place, `others` has foreign types.

    A foreign type has the own type that stands in the same places, and a reader. Raises `ClientRequestError`, for a
    type that is not in the place `Unsupported`.
    """
    if type(part) is not dict:
        raise ClientRequestError(at, f"expected an object, got {kind_of(part)}")
    kind = part.get("type")
    reader = readers.get(kind) if type(kind) is str else None
    if reader is None and type(kind) is str and kind in others:
        place, other = others[kind]
        reader = other if place in readers else None
    if reader is None:
        kind = required(part, "type", str, at)
        raise Unsupported(at, f"content part of type {kind!r} is not supported here; known: {', '.join(readers)}")
    return reader(part, at, losses)


def read_file(part: Json, body: Json, at: Path, where: Path, dialect: str, losses: Losses) -> Document:
    """Return the file of a part at `at`. `body` is the object at `where` that has its fields."""
    file_id, name = optional(body, "file_id", str, where), optional(body, "filename", str, where)
    source: Inline | Url | FileRef
    if data := optional(body, "file_data", str, where):
        # Routers accept a URL here, and other dialects have documents by URL.
        source = read_file_url(data, (*where, "file_data"), name)
    elif url := optional(body, "file_url", str, where):
        source = read_file_url(url, (*where, "file_url"), name)
    elif file_id:
        source = FileRef(file_id, dialect)
    else:
        raise ClientRequestError(where, "needs file_data or file_id")
    return Document(source, at, name, cache=read_cache_mark(part, at, losses))


_AUDIO = frozenset({"data", "format"})
_LINK = frozenset({"url"})


def read_audio(part: Json, at: Path, losses: Losses) -> Recording:
    """Return an `input_audio` part, as both OpenAI dialects have it."""
    note_unknown(part, frozenset({"type", "input_audio"}), at, losses)
    body, where = required(part, "input_audio", dict, at), (*at, "input_audio")
    note_unknown(body, _AUDIO, where, losses)
    form = required(body, "format", str, where)
    return Recording("audio", Inline(f"audio/{form}", required(body, "data", str, where)), at)


def read_video(part: Json, at: Path, losses: Losses) -> Recording:
    """Return a `video_url` part, as OpenRouter, vLLM and Qwen's servers have it in Chat."""
    note_unknown(part, frozenset({"type", "video_url"}), at, losses)
    body, where = part.get("video_url"), (*at, "video_url")
    if type(body) is not str:
        given = required(part, "video_url", dict, at)
        note_unknown(given, _LINK, where, losses)
        body, where = required(given, "url", str, where), (*where, "url")
    return Recording("video", read_file_url(body, where), at)


def text_of(part: Part, losses: Losses, names: NameTable) -> str:
    """Return the text that is sent for a search result or a tool reference.

    Raises the error of an `Unread`, and `Unsupported` for any other part.
    """
    if type(part) is SearchResult:
        return search_text(part, losses)
    if type(part) is ToolReference:  # must not be dropped: a result can hold nothing else
        losses.add(LossCode.RESULT_SHAPE, part.at, "named as text")
        return f"Tool loaded: {names.fit(part.name, part.at)}"
    if type(part) is Unread:
        raise part.error
    if type(part) is Recording:
        raise no_recording(part)
    raise Unsupported(part.at, f"{type(part).__name__} cannot stand in this message")
