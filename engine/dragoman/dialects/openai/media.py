"""Images, documents and search results as Chat's content parts (mapping §4.1)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence

from dragoman.canonical.parts import Document, FileRef, Image, Inline, Json, Recording, SearchResult, Text, Url
from dragoman.dialects import Dialect
from dragoman.dialects.openai.data_urls import write_data_url
from dragoman.dialects.shared.placeholders import Placeholders, no_recording
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

_PDF = "application/pdf"
_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
"""Media type of a sound → OpenAI's word, where they differ."""
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_OPENAI = frozenset({Dialect.CHAT, Dialect.RESPONSES})  # the dialects that share one file store


def text_part(text: str) -> Json:
    """Return a text part."""
    return {"type": "text", "text": text}


def write_image(image: Image, profile: Profile) -> Json:
    """Return an `image_url` part.

    Raises `Unsupported` if the upstream accepts no images or fetches no URLs, and for a file in another provider's
    store. An image is never dropped: the answer would be wrong.
    """
    if not profile.images:
        raise Unsupported(image.at, "the upstream takes no images")
    source = image.source
    if type(source) is Inline:
        url = write_data_url(source)
    elif type(source) is Url:
        if not profile.url_sources:
            raise Unsupported(image.at, "the upstream does not fetch images by URL")
        url = source.url
    else:
        raise Unsupported(image.at, "an image in a provider's file store cannot be given to this upstream")
    body: Json = {"url": url}
    if image.detail is not None:
        body["detail"] = image.detail
    return {"type": "image_url", "image_url": body}


def write_recording(recording: Recording) -> Json:
    """Return an `input_audio` or a `video_url` part. Raises `Unsupported` for a sound that is not in the body."""
    source = recording.source
    if recording.kind == "video":
        url = write_data_url(source) if isinstance(source, Inline) else source.url
        return {"type": "video_url", "video_url": {"url": url}}
    if not isinstance(source, Inline):
        raise no_recording(recording)
    form = source.media_type.partition("/")[2]
    return {"type": "input_audio", "input_audio": {"data": source.data, "format": _FORMATS.get(form, form)}}


def write_document(
    document: Document, profile: Profile, losses: Losses, origin: str, placeholders: Placeholders, *, result: bool
) -> list[Json]:
    """Return a document as parts: a `file` part if the upstream accepts it, else text.

    `origin` is the dialect of the request that holds it; `result` is true in a tool result. Raises `Unsupported` for
    documents that the upstream cannot read.
    """
    if document.cite:
        losses.add(LossCode.CITATIONS_REQUEST, (*document.at, "citations"))
    source = document.source
    if type(source) is Text:
        return _as_text(document, source.text, losses)
    if type(source) is list:
        losses.add(LossCode.DOCUMENT_SHAPE, document.at, "its parts were put in its place")
        _drop_marks(source, losses)
        parts = _leading_text(document, with_title=True)
        for child in source:
            if type(child) is Image:
                try:
                    parts.append(write_image(child, profile))
                except Unsupported as error:
                    parts.append(text_part(placeholders.text(child, error, result=result)))
            elif type(child) is Text and child.text:
                parts.append(text_part(child.text))
                if child.citations:
                    losses.add(LossCode.CITATIONS, child.at)
        return parts
    if type(source) is Inline:
        if not profile.pdf:
            if source.media_type.startswith("image/"):
                return [*_leading_text(document), write_image(Image(source, document.at), profile)]
            if not source.media_type.startswith("text/") and source.media_type not in _TEXTUAL:
                raise Unsupported(document.at, f"the upstream takes no files of type {source.media_type}")
            return _as_text(document, _decode(source, document.at), losses)
        # OpenAI refuses file data without a name.
        name = document.name or ("document.pdf" if source.media_type == _PDF else "document")
        return [
            *_leading_text(document),
            {"type": "file", "file": {"filename": name, "file_data": write_data_url(source)}},
        ]
    if type(source) is FileRef:
        if source.origin not in _OPENAI:
            raise Unsupported(document.at, "a file in another provider's store cannot be given to this upstream")
        body = {"file_id": source.id}
        if document.name is not None:
            body["filename"] = document.name
        return [*_leading_text(document), {"type": "file", "file": body}]
    assert type(source) is Url
    if origin != Dialect.CHAT:
        raise Unsupported(document.at, "the upstream does not take documents by URL")
    file: Json = {"file_data": source.url}
    if document.name is not None:
        file["filename"] = document.name
    return [{"type": "file", "file": file}]


def search_text(result: SearchResult, losses: Losses) -> str:
    """Return a search result as text: title, source, body."""
    losses.add(LossCode.SEARCH_RESULT_SHAPE, result.at, "became text")
    for text in result.body:
        if text.citations:
            losses.add(LossCode.CITATIONS, text.at)
    _drop_marks(result.body, losses)
    if result.cite:
        losses.add(LossCode.CITATIONS_REQUEST, (*result.at, "citations"))
    return "\n".join(text for text in (result.title, result.source, *(t.text for t in result.body)) if text)


def _drop_marks(parts: Sequence[Text | Image], losses: Losses) -> None:
    """Record the cache marks of inner parts as lost: only the container's own mark is written."""
    for part in parts:
        if part.cache is not None:
            losses.add(LossCode.CACHE_HINT, part.at)


def _leading_text(document: Document, *, with_title: bool = False) -> list[Json]:
    """Return title and context as a text part before the document: Chat has no fields for them."""
    lines = (document.name if with_title else None, document.context)
    text = "\n".join(line for line in lines if line)
    return [text_part(text)] if text else []


def _as_text(document: Document, text: str, losses: Losses) -> list[Json]:
    losses.add(LossCode.DOCUMENT_SHAPE, document.at, "became text")
    joined = "\n".join(line for line in (document.name, document.context, text) if line)
    return [text_part(joined)] if joined else []


def _decode(source: Inline, at: Path) -> str:
    try:
        return b64decode(source.data, validate=True).decode()
    except ValueError as error:
        raise ClientRequestError(at, f"is not base64 of UTF-8 text: {error}") from None
