"""Images, documents and search results as Chat's content parts (mapping §4.1)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence

from dragoman.canonical.request import Document, FileRef, Image, Inline, Json, SearchResult, Text, Url
from dragoman.dialects import Dialect
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

_PDF = "application/pdf"
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_OPENAI = frozenset({"chat", "responses"})  # the dialects that share one file store


def text_part(text: str) -> Json:
    """A text part."""
    return {"type": "text", "text": text}


def write_image(image: Image, profile: Profile) -> Json:
    """An `image_url` part.

    Raises `Unsupported` if the upstream takes no images or does not fetch, and for another provider's file: an image
    left out would be a wrong answer.
    """
    if not profile.images:
        raise Unsupported(image.at, "the upstream takes no images")
    source = image.source
    if type(source) is Inline:
        url = _data_url(source)
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


def write_document(document: Document, profile: Profile, losses: Losses, origin: str) -> list[Json]:
    """A document as parts: a `file` part where Chat has one, text where it has not.

    Raises `Unsupported` for what the upstream cannot read.
    """
    if document.cite:
        losses.add(LossCode.CITATIONS_REQUEST, (*document.at, "citations"))
    source = document.source
    if type(source) is Text:
        return _as_text(document, source.text, losses)
    if type(source) is list:
        losses.add(LossCode.DOCUMENT_SHAPE, document.at, "its parts were put in its place")
        _drop_marks(source, losses)
        parts = _lead(document, with_title=True)
        for child in source:
            if type(child) is Image:
                parts.append(write_image(child, profile))
            elif type(child) is Text and child.text:
                parts.append(text_part(child.text))
        return parts
    if type(source) is Inline:
        if not profile.pdf:
            if not _is_textual(source.media_type):
                raise Unsupported(document.at, f"the upstream takes no files of type {source.media_type}")
            return _as_text(document, _decode(source, document.at), losses)
        # OpenAI refuses file data without a name.
        name = document.name or ("document.pdf" if source.media_type == _PDF else "document")
        return [*_lead(document), {"type": "file", "file": {"filename": name, "file_data": _data_url(source)}}]
    if type(source) is FileRef:
        if source.origin not in _OPENAI:
            raise Unsupported(document.at, "a file in another provider's store cannot be given to this upstream")
        body = {"file_id": source.id}
        if document.name is not None:
            body["filename"] = document.name
        return [*_lead(document), {"type": "file", "file": body}]
    assert type(source) is Url
    if origin != Dialect.CHAT:
        raise Unsupported(document.at, "the upstream does not take documents by URL")
    file: Json = {"file_data": source.url}
    if document.name is not None:
        file["filename"] = document.name
    return [{"type": "file", "file": file}]


def search_text(result: SearchResult, losses: Losses) -> str:
    """A search result as text: title, source, body."""
    losses.add(LossCode.SEARCH_RESULT_SHAPE, result.at, "became text")
    _drop_marks(result.body, losses)
    if result.cite:
        losses.add(LossCode.CITATIONS_REQUEST, (*result.at, "citations"))
    return "\n".join(text for text in (result.title, result.source, *(t.text for t in result.body)) if text)


def _drop_marks(parts: Sequence[Text | Image], losses: Losses) -> None:
    """The mark of the whole stands on what is written of it last; those within have no place."""
    for part in parts:
        if part.cache is not None:
            losses.add(LossCode.CACHE_HINT, part.at)


def _data_url(source: Inline) -> str:
    return f"data:{source.media_type};base64,{source.data}"


def _lead(document: Document, *, with_title: bool = False) -> list[Json]:
    """Title and context as a text part before the document: Chat has no fields for them."""
    lines = (document.name if with_title else None, document.context)
    text = "\n".join(line for line in lines if line)
    return [text_part(text)] if text else []


def _as_text(document: Document, text: str, losses: Losses) -> list[Json]:
    losses.add(LossCode.DOCUMENT_SHAPE, document.at, "became text")
    whole = "\n".join(line for line in (document.name, document.context, text) if line)
    return [text_part(whole)] if whole else []


def _is_textual(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type in _TEXTUAL


def _decode(source: Inline, at: Path) -> str:
    try:
        return b64decode(source.data, validate=True).decode()
    except ValueError as error:
        raise ClientRequestError(at, f"is not base64 of UTF-8 text: {error}") from None
