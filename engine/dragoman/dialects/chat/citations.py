"""URL citations of Chat's annotations."""

from __future__ import annotations

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Json
from dragoman.dialects.chat.wire import DIALECT, read_count


def read_citation(annotation: Json) -> Citation:
    """An annotation as a citation; only `url_citation` has common ground with the other dialects."""
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
    """A citation of the text at `start:end` of the content as `url_citation`, or None if it cites no URL."""
    if citation.url is None:
        return None
    span = {
        "start_index": start if citation.start is None else start + citation.start,
        "end_index": end if citation.end is None else start + citation.end,
        "title": citation.title or "",
        "url": citation.url,
    }
    return {"type": "url_citation", "url_citation": span}
