"""Content parts of Responses items to canonical parts (mapping §4.1, §4.2, §6.4).

There is one table of part types per place. A type that is not in the table is rejected, never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dragoman.canonical.parts import Document, FileRef, Image, Inline, Json, Part, Refusal, Text, Url
from dragoman.dialects.openai.content_parts import PartReader, read_audio, read_file, read_part
from dragoman.dialects.openai.data_urls import read_image_url
from dragoman.dialects.openai.prompt_cache_fields import read_cache_mark
from dragoman.dialects.responses.citations import read_citation
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, optional, required, typed
from dragoman.dialects.shared.placeholders import read_unread
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import dumps

_MARKS: Final = ("prompt_cache_breakpoint", "cache_control")
_INPUT_TEXT_KEYS: Final = frozenset({"type", "text", *_MARKS})
# Log probabilities belong to the reply; in a later request they are ignored.
_OUTPUT_TEXT_KEYS: Final = frozenset({"type", "text", "annotations", "logprobs", *_MARKS})
_BARE_OUTPUT_KEYS: Final = frozenset({"type", "text", "annotations", "logprobs"})
_REFUSAL_KEYS: Final = frozenset({"type", "refusal"})
_IMAGE_KEYS: Final = frozenset({"type", "image_url", "file_id", "detail", *_MARKS})
_IMAGE_URL_KEYS: Final = frozenset({"url", "detail"})
_CHAT_FILE_KEYS: Final = frozenset({"type", "file", *_MARKS})
_FILE_KEYS: Final = frozenset({"type", "file_data", "file_url", "file_id", "filename", "detail", *_MARKS})


def _input_text(part: Json, at: Path, losses: Losses) -> Text:
    note_unknown(part, _INPUT_TEXT_KEYS, at, losses)
    return Text(required(part, "text", str, at), at, read_cache_mark(part, at, losses))


def _output_text(part: Json, at: Path, losses: Losses) -> Text:
    content = part.get("text")
    if _BARE_OUTPUT_KEYS.issuperset(part) and part.get("annotations") in (None, []) and type(content) is str:
        return Text(content, at)
    note_unknown(part, _OUTPUT_TEXT_KEYS, at, losses)
    text = Text(required(part, "text", str, at), at, read_cache_mark(part, at, losses))
    for index, annotation in enumerate(optional(part, "annotations", list, at) or ()):
        text.citations.append(read_citation(typed(annotation, dict, (*at, "annotations", index))))
    return text


def _refusal(part: Json, at: Path, losses: Losses) -> Refusal:
    note_unknown(part, _REFUSAL_KEYS, at, losses)
    return Refusal(required(part, "refusal", str, at), at)


def _image(part: Json, at: Path, losses: Losses) -> Image:
    note_unknown(part, _IMAGE_KEYS, at, losses)
    url, where = part.get("image_url"), (*at, "image_url")
    detail, file_id = optional(part, "detail", str, at), optional(part, "file_id", str, at)
    if type(url) is dict:  # as in Chat
        note_unknown(url, _IMAGE_URL_KEYS, where, losses)
        detail = detail or optional(url, "detail", str, where)
        url, where = required(url, "url", str, where), (*where, "url")
    source: Inline | Url | FileRef
    if url:
        source = read_image_url(typed(url, str, where), where)
    elif file_id:
        source = FileRef(file_id, DIALECT)
    else:
        raise ClientRequestError(at, "an image needs image_url or file_id")
    return Image(source, at, detail, read_cache_mark(part, at, losses))


def _file(part: Json, at: Path, losses: Losses) -> Document:
    note_unknown(part, _FILE_KEYS, at, losses)
    if optional(part, "detail", str, at) not in (None, "auto"):
        losses.add(LossCode.IMAGE_DETAIL, (*at, "detail"))
    return read_file(part, part, at, at, DIALECT, losses)


def _chat_file(part: Json, at: Path, losses: Losses) -> Document:
    note_unknown(part, _CHAT_FILE_KEYS, at, losses)
    return read_file(part, required(part, "file", dict, at), at, (*at, "file"), DIALECT, losses)


_MEDIA: Final[dict[str, PartReader]] = {"input_image": _image, "input_file": _file, "input_audio": read_audio}

INSTRUCTION: Final[Mapping[str, PartReader]] = {"input_text": _input_text}
USER: Final[Mapping[str, PartReader]] = {"input_text": _input_text, **_MEDIA}
# Clients send assistant messages with input parts if they wrote them, with output parts if they replay them.
ASSISTANT: Final[Mapping[str, PartReader]] = {
    "output_text": _output_text,
    "refusal": _refusal,
    "input_text": _input_text,
}
_OTHERS: Final[Mapping[str, tuple[str, PartReader]]] = {
    "text": ("input_text", _input_text),
    "output_text": ("input_text", _output_text),
    "image_url": ("input_image", _image),
    "file": ("input_file", _chat_file),
}
"""Chat's part types → the type that stands in the same places, and the reader. In outputs they are a tool's JSON."""


def read_content(content: Any, table: Mapping[str, PartReader], at: Path, losses: Losses) -> list[Part]:
    """Return the parts of a message's `content`, a string or an array. `table` has the part types of its role.

    A part that cannot be read, or whose type is not in the table, is rejected in instructions, becomes a placeholder in
    the assistant's turns, and elsewhere an `Unread`. Raises `ClientRequestError` for any other type of content.
    """
    if type(content) is str:
        return [Text(content, at)]
    if type(content) is not list:
        raise ClientRequestError(at, f"expected a string or an array of parts, got {kind_of(content)}")
    parts: list[Part] = []
    index = 0
    for part in content:
        path = (*at, index)
        index += 1
        # Most parts of a history are plain texts; reading them here saves a call.
        if type(part) is dict and len(part) == 2 and part.get("type") == "input_text" and type(part.get("text")) is str:
            parts.append(Text(part["text"], path))
            continue
        try:
            parts.append(read_part(part, table, _OTHERS, path, losses))
        except ClientRequestError as error:
            if table is INSTRUCTION:
                raise
            parts.append(read_unread(part, error, path, losses, assistant=table is ASSISTANT))
    return parts


def read_output(output: Any, at: Path, losses: Losses) -> str | list[Part]:
    """Return the output of a tool: a string, or parts.

    Old clients send the tool's JSON itself, which is serialized to text (mapping §6.4). Raises as `read_content`.
    """
    if type(output) is str:
        return output
    if output is None or output == []:
        return ""
    if type(output) is list and _are_parts(output):
        return read_content(output, RESULT, at, losses)
    return dumps(output).decode()


RESULT: Final[Mapping[str, PartReader]] = {**USER, "output_text": _output_text}


def _are_parts(entries: list[Any]) -> bool:
    """True if these are content parts. A part named `text`, without a prefix, is a tool's own JSON (of MCP)."""
    for entry in entries:
        kind = entry.get("type") if type(entry) is dict else None
        if type(kind) is not str or (kind not in RESULT and not kind.startswith("input_")):
            return False
    return True
