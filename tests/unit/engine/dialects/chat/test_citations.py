"""Annotations of a Chat reply and the extent of their text."""

from __future__ import annotations

from dragoman.canonical.events import Citation
from dragoman.dialects.chat.citations import write_citation


def test_citation_offsets_count_in_the_whole_content() -> None:
    citation = Citation("messages", {}, "https://a.test", None)
    assert write_citation(citation, 10, 14) == {
        "type": "url_citation",
        "url_citation": {"start_index": 10, "end_index": 14, "title": "", "url": "https://a.test"},
    }
    own = Citation("chat", {}, "https://a.test", "A", 2, 4)
    written = write_citation(own, 10, 20)
    assert written is not None
    assert (written["url_citation"]["start_index"], written["url_citation"]["end_index"]) == (12, 14)
    assert write_citation(Citation("messages", {}), 0, 1) is None


def test_a_citation_that_starts_behind_its_end_is_empty() -> None:
    for citation in (Citation("responses", {}, "u", None, 5), Citation("responses", {}, "u", None, 5, 2)):
        written = write_citation(citation, 10, 12)
        assert written is not None
        assert (written["url_citation"]["start_index"], written["url_citation"]["end_index"]) == (15, 15)
