"""Sources of a reply's text: `groundingMetadata` as citations of the text.

Google counts offsets in UTF-8 bytes of a part's text, clients of the other dialects in characters
(`Segment` in ai.google.dev/api/generate-content).
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Json
from dragoman.dialects.generate.reply_fields import CANDIDATE_AT, record_unknown_members
from dragoman.dialects.generate.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import is_empty, record_unknown
from dragoman.losses import LossCode, Losses

_MOST: Final = 4096
"""Most citations that are read of one reply."""
_AT: Final = (*CANDIDATE_AT, "groundingMetadata")
_READ: Final = frozenset(("groundingChunks", "groundingSupports", "webSearchQueries"))
_CHUNK: Final = frozenset(("web", "retrievedContext", "maps", "image"))
_PAGE: Final = frozenset(("uri", "title", "domain"))
_SUPPORT: Final = frozenset(("segment", "groundingChunkIndices", "confidenceScores", "renderedParts"))
_SEGMENT: Final = frozenset(("partIndex", "startIndex", "endIndex", "text"))


class Grounding:
    """The sources of one reply. Each chunk of a stream may have some; the last ones of each kind are used."""

    __slots__ = ("_chunks", "_losses", "_supports")

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._chunks: list[Any] = []
        self._supports: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def read(self, candidate: Json) -> None:
        """Read the sources in a candidate, and record those that are no citations of its text."""
        grounding = candidate.get("groundingMetadata")
        if type(grounding) is dict and grounding:
            if type(chunks := grounding.get("groundingChunks")) is list and chunks:
                self._chunks = chunks
                self._record_unknown("groundingChunks", chunks, _CHUNK, "web", _PAGE)
            if type(supports := grounding.get("groundingSupports")) is list and supports:
                self._supports = supports
                self._record_unknown("groundingSupports", supports, _SUPPORT, "segment", _SEGMENT)
            for key, value in grounding.items():
                if key not in _READ and value:
                    self._losses.add_once(LossCode.CITATIONS, (*_AT, key), f"{key} was left out")
        for key in ("citationMetadata", "urlContextMetadata"):
            if not is_empty(candidate.get(key)):
                self._losses.add_once(LossCode.CITATIONS, (*CANDIDATE_AT, key), f"{key} was left out")

    def _record_unknown(
        self, key: str, values: list[Any], known: frozenset[str], inner: str, known_inside: frozenset[str]
    ) -> None:
        """Record the fields that are not known of the objects in a list, and of the object `inner` in each."""
        values = values[:_MOST]
        record_unknown_members(values, known, (*_AT, key), self._losses)
        for index, value in enumerate(values):
            held = value.get(inner) if type(value) is dict else None
            if type(held) is dict and not known_inside.issuperset(held):
                record_unknown(held, known_inside, (*_AT, key, index, inner), self._losses)

    def citations(self, text: str) -> list[Citation]:
        """Return the citations of `text`, the last text of the reply. A source that is no web page is left out."""
        found: list[Citation] = []
        data = text.encode("utf-8", "surrogatepass")
        for support in self._supports[:_MOST]:
            segment = support.get("segment") if type(support) is dict else None
            span = _span(segment, data) if type(segment) is dict else None
            indexes = support.get("groundingChunkIndices") if type(support) is dict else None
            if span is None or type(indexes) is not list:
                self._losses.add_once(LossCode.CITATIONS, (*_AT, "groundingSupports"), "of another text")
                continue
            for index in indexes:
                page = self._page(index)
                if page is None or len(found) >= _MOST:
                    self._losses.add_once(LossCode.CITATIONS, (*_AT, "groundingChunks"), "not a web page")
                else:
                    found.append(_citation(page, *span))
        return found

    def _page(self, index: Any) -> tuple[str, str] | None:
        """Return the URL and the title of a web page."""
        chunk = self._chunks[index] if type(index) is int and 0 <= index < len(self._chunks) else None
        page = chunk.get("web") if type(chunk) is dict else None
        url = page.get("uri") if type(page) is dict else None
        if type(page) is not dict or type(url) is not str or not url:
            return None
        title = page.get("title")
        return url, title if type(title) is str else ""


def _citation(page: tuple[str, str], start: int, end: int) -> Citation:
    url, title = page
    native: Json = {"type": "url_citation", "url": url, "title": title, "start_index": start, "end_index": end}
    return Citation(DIALECT, native, url, title, start, end)


def _span(segment: Json, data: bytes) -> tuple[int, int] | None:
    """Return the characters that a segment stands for in the text `data`, or None if it is of another text.

    Without its own text, a segment is taken by its offsets. In a stream, parts are not numbered as in a complete reply,
    so a segment whose text is elsewhere is searched for; it counts if it is there once.
    """
    start, end, quoted = segment.get("startIndex", 0), segment.get("endIndex"), segment.get("text")
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        return None
    if type(quoted) is str and quoted:
        wanted = quoted.encode("utf-8", "surrogatepass")
        if data[start:end] != wanted:
            if data.count(wanted) != 1:
                return None
            start = data.index(wanted)
            end = start + len(wanted)
    elif end > len(data):
        return None
    try:
        before = len(data[:start].decode("utf-8", "surrogatepass"))
        return before, before + len(data[start:end].decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:  # within a character
        return None
