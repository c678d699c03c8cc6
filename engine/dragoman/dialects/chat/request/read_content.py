"""Reads Chat's content parts: text, images, files and refusals, with their cache marks (mapping §4.1, §8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.events import Citation
from dragoman.canonical.parts import Document, Image, Json, Part, Reasoning, Refusal, Text
from dragoman.dialects.chat.citations import read_citation
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.content_parts import PartReader, read_audio, read_file, read_part, read_video
from dragoman.dialects.openai.data_urls import read_file_url, read_image_url
from dragoman.dialects.openai.prompt_cache_fields import MARK_KEYS, read_cache_mark
from dragoman.dialects.shared.json_fields import note_unknown, optional, required
from dragoman.dialects.shared.placeholders import read_unread
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import Losses

_CITATION_KEYS = frozenset({"type", "url_citation"})
_URL_CITATION_KEYS = frozenset({"url", "title", "start_index", "end_index"})


def read_citations(annotations: list[Any], at: Path, losses: Losses) -> list[Citation]:
    """Return the annotations of a replayed text. Unknown keys of a `url_citation` are recorded as lost."""
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
_IMAGE_KEYS = frozenset({"type", "image_url", "detail", *MARK_KEYS})
_FILE_KEYS = frozenset({"type", "file", *MARK_KEYS})
_INPUT_FILE_KEYS = frozenset({"type", "file_data", "file_id", "file_url", "filename", *MARK_KEYS})
_LINK_KEYS = frozenset({"type", "document_url", "document_name", "file_url", *MARK_KEYS})
_THINKING_KEYS = frozenset({"type", "thinking", "closed"})
_REFUSAL_KEYS = frozenset({"type", "refusal"})
_IMAGE_URL_KEYS = frozenset({"url", "detail"})
_FILE_BODY_KEYS = frozenset({"file_data", "file_id", "file_url", "filename"})


def _read_text(part: Json, at: Path, losses: Losses) -> Text:
    value = part.get("text")
    if value is None and "text" in part:
        value = ""
    text = Text(value if type(value) is str else required(part, "text", str, at), at)
    if len(part) > 2:
        note_unknown(part, _TEXT_KEYS, at, losses)
        text.cache = read_cache_mark(part, at, losses)
        text.citations = read_citations(optional(part, "annotations", list, at) or [], (*at, "annotations"), losses)
    return text


def _read_image(part: Json, at: Path, losses: Losses) -> Image:
    note_unknown(part, _IMAGE_KEYS, at, losses)
    url, where, detail = _linked(part, "image_url", _IMAGE_URL_KEYS, at, losses)
    cache = None
    if len(part) > 2:
        cache = read_cache_mark(part, at, losses)
        detail = detail or optional(part, "detail", str, at)
    return Image(read_image_url(url, where), at, detail, cache)


def _linked(part: Json, key: str, known: frozenset[str], at: Path, losses: Losses) -> tuple[str, Path, str | None]:
    """Return the URL of a part, its path, and its `detail`.

    OpenAI has the URL in an object; other vendors take, and clients send, the string alone.
    """
    body, where = part.get(key), (*at, key)
    if type(body) is str:
        return body, where, None
    body = required(part, key, dict, at)
    note_unknown(body, known, where, losses)
    return required(body, "url", str, where), (*where, "url"), optional(body, "detail", str, where)


def _read_file(part: Json, at: Path, losses: Losses) -> Document:
    note_unknown(part, _FILE_KEYS, at, losses)
    body, where = required(part, "file", dict, at), (*at, "file")
    note_unknown(body, _FILE_BODY_KEYS, where, losses)
    return read_file(part, body, at, where, DIALECT, losses)


def _read_input_file(part: Json, at: Path, losses: Losses) -> Document:
    note_unknown(part, _INPUT_FILE_KEYS, at, losses)
    return read_file(part, part, at, at, DIALECT, losses)


def _read_link(part: Json, at: Path, losses: Losses) -> Document:
    """Return a document by its URL, as Mistral (`document_url`) and GLM (`file_url`) have it."""
    note_unknown(part, _LINK_KEYS, at, losses)
    url, where, _ = _linked(part, part["type"], _IMAGE_URL_KEYS, at, losses)
    name = optional(part, "document_name", str, at)
    return Document(read_file_url(url, where, name), at, name, cache=read_cache_mark(part, at, losses))


def _read_thinking(part: Json, at: Path, losses: Losses) -> Reasoning:
    """Return reasoning as Mistral replies with it: a string, or an array of text parts."""
    note_unknown(part, _THINKING_KEYS, at, losses)
    thinking = part.get("thinking")
    if type(thinking) is not str:
        pieces = required(part, "thinking", list, at)
        thinking = "".join(text for p in pieces if type(p) is dict and type(text := p.get("text")) is str)
    return Reasoning(thinking, at, DIALECT)


def _read_refusal(part: Json, at: Path, losses: Losses) -> Refusal:
    note_unknown(part, _REFUSAL_KEYS, at, losses)
    return Refusal(required(part, "refusal", str, at), at)


INSTRUCTION_PARTS: Mapping[str, PartReader] = {"text": _read_text}
ASSISTANT_PARTS: Mapping[str, PartReader] = {"text": _read_text, "refusal": _read_refusal}
USER_PARTS: Mapping[str, PartReader] = {
    "text": _read_text,
    "image_url": _read_image,
    "file": _read_file,
    "input_audio": read_audio,
}
# The API allows text only, but clients of compatible servers send images here, and other dialects support them.
TOOL_PARTS: Mapping[str, PartReader] = {"text": _read_text, "image_url": _read_image, "file": _read_file}
_OTHERS: Mapping[str, tuple[str, PartReader]] = {
    "input_text": ("text", _read_text),
    "output_text": ("text", _read_text),
    "input_image": ("image_url", _read_image),
    "input_file": ("file", _read_input_file),
    "document_url": ("file", _read_link),
    "file_url": ("file", _read_link),
    "video_url": ("input_audio", read_video),
    "thinking": ("refusal", _read_thinking),
}
"""Part types of Responses and of vendors → Chat's type that stands in the same places, and the reader."""


def read_parts(content: list[Any], readers: Mapping[str, PartReader], at: Path, losses: Losses) -> list[Part]:
    """Return the parts of the content array at `at`.

    Parts are never skipped (mapping §4.1). One that cannot be read, or that the role does not have, is rejected in
    instructions, becomes a placeholder in the assistant's turns, and elsewhere an `Unread`.
    """
    parts: list[Part] = []
    for j, part in enumerate(content):
        where = (*at, j)
        try:
            parts.append(read_part(part, readers, _OTHERS, where, losses))
        except ClientRequestError as error:
            if readers is INSTRUCTION_PARTS:
                raise
            parts.append(read_unread(part, error, where, losses, assistant=readers is ASSISTANT_PARTS))
    return parts
