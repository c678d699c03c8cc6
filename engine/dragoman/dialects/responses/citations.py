"""Citations: the annotations of output text in Responses (mapping §4.2)."""

from __future__ import annotations

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Json
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import read_count


def read_citation(annotation: Json) -> Citation:
    """Return an annotation as a citation. Only a `url_citation` has fields that other dialects have too."""
    if annotation.get("type") != "url_citation":
        return Citation(DIALECT, annotation)
    url, title = annotation.get("url"), annotation.get("title")
    return Citation(
        DIALECT,
        annotation,
        url if type(url) is str else None,
        title if type(title) is str else None,
        read_count(annotation, "start_index"),
        read_count(annotation, "end_index"),
    )


def write_citation(citation: Citation, length: int) -> Json | None:
    """Return a citation of a text of `length` characters as an annotation, or None if the dialect has no such one."""
    if citation.origin == DIALECT and citation.native:
        return citation.native
    if citation.url is None:
        return None
    start = citation.start or 0
    return {
        "type": "url_citation",
        "start_index": start,
        "end_index": max(start, length if citation.end is None else citation.end),
        "url": citation.url,
        "title": citation.title or "",
    }
