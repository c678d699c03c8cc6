"""Writes images, files and search results as parts."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from dragoman.canonical.parts import Document, FileRef, Image, Inline, Json, Recording, SearchResult, Text, Url
from dragoman.dialects.generate.stop_and_usage import DIALECT
from dragoman.dialects.shared.inline_data import decoded_text
from dragoman.errors import Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

_PDF: Final = "application/pdf"
_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_TEXTUAL: Final = frozenset(("application/json", "application/xml", "application/yaml", "application/javascript"))
_RESOLUTIONS: Final = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}
"""`detail` of an image → the level of its `mediaResolution`."""
_BY_EXTENSION: Final = {
    "png": "image/png",
    "webp": "image/webp",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "pdf": _PDF,
    "txt": "text/plain",
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "mp4": "video/mp4",
}


class MediaWriter:
    """Writes the media of one request.

    Each method returns parts. It raises `Unsupported` for what the upstream does not take: nothing is left out, as the
    answer would be wrong.
    """

    def __init__(self, profile: Profile, losses: Losses) -> None:
        self._profile, self._losses = profile, losses

    def image(self, image: Image) -> list[Json]:
        """Return an image."""
        if not self._profile.images:
            raise Unsupported(image.at, "the upstream takes no images")
        resolution = _RESOLUTIONS.get(image.detail or "") if self._profile.media_resolution else None
        if resolution is None and image.detail not in (None, "auto"):
            self._losses.add(LossCode.IMAGE_DETAIL, image.at)
        self.drop_mark(image.cache, image.at)
        source = image.source
        if isinstance(source, Inline):
            if source.media_type not in _IMAGES:
                raise Unsupported(
                    image.at, f"a Gemini upstream takes PNG, JPEG, WebP and HEIC; got {source.media_type!r}"
                )
            written = _inline(source)
        else:
            written = self._linked(source, image.at, "image/jpeg")
        if resolution is not None:
            written["mediaResolution"] = {"level": resolution}
        return [written]

    def document(self, document: Document) -> list[Json]:
        """Return a document, after its name and context as text."""
        self.drop_mark(document.cache, document.at)
        if document.cite:
            self._losses.add(LossCode.CITATIONS_REQUEST, (*document.at, "citations"))
        source, at = document.source, document.at
        head = [{"text": text} for text in (document.name, document.context) if text]
        if isinstance(source, Text):
            return [*head, *_texts(source.text)]
        if isinstance(source, list):
            parts = list(head)
            for child in source:
                parts += self.image(child) if isinstance(child, Image) else _texts(child.text)
            return parts
        if not isinstance(source, Inline):
            return [*head, self._linked(source, at, _PDF)]
        kind = source.media_type
        if kind.startswith("image/"):
            return [*head, *self.image(Image(source, at))]
        if kind.startswith("text/") or kind in _TEXTUAL:
            return [*head, *_texts(decoded_text(source.data, at))]
        if kind == _PDF and not self._profile.pdf:
            raise Unsupported(at, "the upstream takes no PDF files")
        if kind == _PDF or kind.startswith(("audio/", "video/")):
            return [*head, _inline(source)]
        raise Unsupported(at, f"a Gemini upstream takes no files of type {kind!r}")

    def recording(self, recording: Recording) -> Json:
        """Return a sound or a film."""
        source = recording.source
        if isinstance(source, Inline):
            return _inline(source)
        return self._linked(source, recording.at, f"{recording.kind}/mp4")

    def search_result(self, result: SearchResult) -> list[Json]:
        """Return a search result as text: title, source, body."""
        self.drop_mark(result.cache, result.at)
        self._losses.add(LossCode.SEARCH_RESULT_SHAPE, result.at, "became text")
        if result.cite:
            self._losses.add(LossCode.CITATIONS_REQUEST, (*result.at, "citations"))
        lines = [result.title, result.source, *(text.text for text in result.body)]
        return _texts("\n".join(line for line in lines if line))

    def drop_mark(self, mark: Json | None, at: Path) -> None:
        """Record a cache mark: Gemini caches by itself."""
        if mark is not None:
            self._losses.add(LossCode.CACHE_HINT, at)

    def _linked(self, source: Url | FileRef, at: Path, default: str) -> Json:
        if isinstance(source, FileRef):
            if source.origin != DIALECT:
                raise Unsupported(at, "a file in another provider's store cannot be given to this upstream")
            return {"fileData": {"fileUri": source.id}}
        if not self._profile.url_sources:
            raise Unsupported(at, "the upstream does not fetch URLs; send the data inline")
        extension = urlsplit(source.url).path.rpartition(".")[2].lower()
        return {"fileData": {"mimeType": _BY_EXTENSION.get(extension, default), "fileUri": source.url}}


def _inline(source: Inline) -> Json:
    return {"inlineData": {"mimeType": source.media_type, "data": source.data}}


def _texts(text: str) -> list[Json]:
    return [{"text": text}] if text else []
