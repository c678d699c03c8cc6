"""Annotations of output text (mapping §4.2)."""

from __future__ import annotations

from dragoman.canonical.events import Citation
from dragoman.dialects.responses.citations import read_citation, write_citation

WEB = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 2, "end_index": 5}


def test_an_annotation_of_the_dialect_is_kept_as_it_is() -> None:
    for annotation in (WEB, {"type": "file_citation", "file_id": "f", "index": 1}):
        read = read_citation(annotation)
        assert write_citation(read, 9) == annotation
    assert read_citation(WEB) == Citation("responses", WEB, "https://a.test", "A", 2, 5)
    assert read_citation({**WEB, "url": 3, "start_index": -1}).url is None


def test_a_page_of_another_dialect_gets_the_extent_of_its_text() -> None:
    written = write_citation(Citation("messages", {"x": 1}, "https://a.test"), 9)
    assert written == {"type": "url_citation", "start_index": 0, "end_index": 9, "url": "https://a.test", "title": ""}
    assert write_citation(Citation("messages", {"x": 1}), 9) is None
