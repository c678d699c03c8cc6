"""URL citations: Chat's `annotations` (mapping §4.2)."""

from __future__ import annotations

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Json
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import read_count


def read_citation(annotation: Json) -> Citation:
    """Return an annotation as a citation. Only a `url_citation` has fields that other dialects share."""
    body = annotation.get("url_citation")
    if annotation.get("type") != "url_citation" or type(body) is not dict:
        return Citation(DIALECT, annotation)
    url, title = body.get("url"), body.get("title")
    return Citation(
        DIALECT,
        annotation,
        url if type(url) is str else None,
        title if type(title) is str else None,
        read_count(body, "start_index"),
        read_count(body, "end_index"),
    )


def write_citation(citation: Citation, start: int, end: int) -> Json | None:
    """Return a citation of the text at `start:end` of the content as a `url_citation`, or None if it has no URL.

    One that an upstream ends before its start is empty.
    """
    if citation.url is None:
        return None
    begin = start if citation.start is None else start + citation.start
    span = {
        "start_index": begin,
        "end_index": max(begin, end if citation.end is None else start + citation.end),
        "title": citation.title or "",
        "url": citation.url,
    }
    return {"type": "url_citation", "url_citation": span}
