"""Reads Chat's content parts: text, images, files and refusals, with their cache marks (mapping §4.1, §8.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Document, FileRef, Image, Inline, Json, Part, Refusal, Text, Url
from dragoman.dialects.chat.citations import read_citation
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.data_urls import is_web, read_data_url, read_url
from dragoman.dialects.openai.prompt_cache_fields import MARK_KEYS, read_cache_mark
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, optional, required
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import Losses

_CITATION_KEYS = frozenset({"type", "url_citation"})
_URL_CITATION_KEYS = frozenset({"url", "title", "start_index", "end_index"})

PartReader = Callable[[Json, Path, Losses], Part]


def read_citations(annotations: list[Any], at: Path, losses: Losses) -> list[Citation]:
    """Returns the annotations of a replayed text. Unknown keys of a `url_citation` are recorded as lost."""
    citations: list[Citation] = []
    for index, annotation in enumerate(annotations):
        if type(annotation) is not dict:
            continue
        citations.append(read_citation(annotation))
        body, where = annotation.get("url_citation"), (*at, index)
        if type(body) is dict:
            note_unknown(annotation, _CITATION_KEYS, where, losses)
            note_unknown(body, _URL_CITATION_KEYS, (*where, "url_citation"), losses)
    return citations


_TEXT_KEYS = frozenset({"type", "text", "annotations", *MARK_KEYS})
_IMAGE_KEYS = frozenset({"type", "image_url", *MARK_KEYS})
_FILE_KEYS = frozenset({"type", "file", *MARK_KEYS})
_REFUSAL_KEYS = frozenset({"type", "refusal"})
_IMAGE_URL_KEYS = frozenset({"url", "detail"})
_FILE_BODY_KEYS = frozenset({"file_data", "file_id", "filename"})


def _read_text(part: Json, at: Path, losses: Losses) -> Text:
    value = part.get("text")
    text = Text(value if type(value) is str else required(part, "text", str, at), at)
    if len(part) > 2:
        note_unknown(part, _TEXT_KEYS, at, losses)
        text.cache = read_cache_mark(part, at, losses)
        text.citations = read_citations(optional(part, "annotations", list, at) or [], (*at, "annotations"), losses)
    return text


def _read_image(part: Json, at: Path, losses: Losses) -> Image:
    note_unknown(part, _IMAGE_KEYS, at, losses)
    body, where = required(part, "image_url", dict, at), (*at, "image_url")
    note_unknown(body, _IMAGE_URL_KEYS, where, losses)
    url, detail = required(body, "url", str, where), optional(body, "detail", str, where)
    cache = read_cache_mark(part, at, losses) if len(part) > 2 else None
    return Image(read_url(url, (*where, "url")), at, detail, cache)


def _read_file(part: Json, at: Path, losses: Losses) -> Document:
    note_unknown(part, _FILE_KEYS, at, losses)
    body, where = required(part, "file", dict, at), (*at, "file")
    note_unknown(body, _FILE_BODY_KEYS, where, losses)
    data, file_id = optional(body, "file_data", str, where), optional(body, "file_id", str, where)
    source: Inline | Url | FileRef
    if data:
        path = (*where, "file_data")
        # Routers accept a URL here, and other dialects have documents by URL.
        source = Url(data) if is_web(data) else read_data_url(data if data[:5].lower() == "data:" else "", path)
    elif file_id:
        source = FileRef(file_id, DIALECT)
    else:
        raise ClientRequestError(where, "needs file_data or file_id")
    return Document(source, at, optional(body, "filename", str, where), cache=read_cache_mark(part, at, losses))


def _read_refusal(part: Json, at: Path, losses: Losses) -> Refusal:
    note_unknown(part, _REFUSAL_KEYS, at, losses)
    return Refusal(required(part, "refusal", str, at), at)


def _reject_audio(part: Json, at: Path, losses: Losses) -> Part:
    raise Unsupported(at, "audio input cannot be sent to an upstream of another dialect")


INSTRUCTION_PARTS: Mapping[str, PartReader] = {"text": _read_text}
ASSISTANT_PARTS: Mapping[str, PartReader] = {"text": _read_text, "refusal": _read_refusal}
USER_PARTS: Mapping[str, PartReader] = {
    "text": _read_text,
    "image_url": _read_image,
    "file": _read_file,
    "input_audio": _reject_audio,
}
# The API allows text only, but clients of compatible servers send images here, and other dialects support them.
TOOL_PARTS: Mapping[str, PartReader] = {"text": _read_text, "image_url": _read_image, "file": _read_file}


def read_parts(content: list[Any], readers: Mapping[str, PartReader], at: Path, losses: Losses) -> list[Part]:
    """Returns the parts of the content array at `at`.

    Raises `Unsupported` for a part whose type the role does not have: parts are never skipped (mapping §4.1).
    """
    parts: list[Part] = []
    for j, part in enumerate(content):
        where = (*at, j)
        if type(part) is not dict:
            raise ClientRequestError(where, f"expected an object, got {kind_of(part)}")
        kind = part.get("type")
        reader = readers.get(kind) if type(kind) is str else None
        if reader is None:
            kind = required(part, "type", str, where)
            raise Unsupported(
                where, f"content part of type {kind!r} is not supported here; known: {', '.join(readers)}"
            )
        parts.append(reader(part, where, losses))
    return parts
