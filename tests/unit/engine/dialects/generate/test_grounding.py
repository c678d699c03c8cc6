from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.generate.grounding import Grounding
from dragoman.losses import LossCode, Losses

Json = dict[str, Any]
PAGES = [{"web": {"uri": "U", "title": "W"}}, {"web": {"uri": "V"}}, {"retrievedContext": {"uri": "gs://x"}}]


def cite(text: str, *supports: Json, chunks: Any = PAGES) -> tuple[list[tuple[Any, ...]], list[LossCode]]:
    losses = Losses()
    grounding = Grounding(losses)
    grounding.read({"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": list(supports)}})
    found = grounding.citations(text)
    return [(each.url, each.title, each.start, each.end) for each in found], [loss.code for loss in losses]


def support(segment: Json, *indexes: int) -> Json:
    return {"segment": segment, "groundingChunkIndices": list(indexes)}


def test_offsets_are_bytes() -> None:
    found, losses = cite("Regn på Å.", support({"endIndex": 12, "text": "Regn på Å."}, 0))
    assert found == [("U", "W", 0, 10)]
    assert losses == []


def test_offsets_without_a_text() -> None:
    assert cite("åb c", support({"startIndex": 3, "endIndex": 5}, 0, 1))[0] == [("U", "W", 2, 4), ("V", "", 2, 4)]


def test_a_segment_of_another_part_is_found_by_its_text() -> None:
    found, _ = cite("One. Two.", support({"partIndex": 2, "startIndex": 0, "endIndex": 4, "text": "Two."}, 0))
    assert found == [("U", "W", 5, 9)]


@pytest.mark.parametrize(
    "segment",
    [
        {"endIndex": 4, "text": "no such text"},
        {"startIndex": 1, "endIndex": 2, "text": "Two"},  # twice in the text
        {"startIndex": 4, "endIndex": 99},
        {"startIndex": 5, "endIndex": 1},
        {"endIndex": "4"},
        {},
    ],
)
def test_a_segment_that_is_not_found(segment: Json) -> None:
    assert cite("Two. Two.", support(segment, 0)) == ([], [LossCode.CITATIONS])


def test_an_offset_within_a_character() -> None:
    assert cite("åå", support({"startIndex": 1, "endIndex": 2}, 0)) == ([], [LossCode.CITATIONS])


@pytest.mark.parametrize("indexes", [[2], [9], [-1], ["0"]])
def test_a_source_that_is_no_web_page(indexes: list[Any]) -> None:
    assert cite("abc", support({"endIndex": 3}, *indexes)) == ([], [LossCode.CITATIONS])


def test_the_last_sources_count() -> None:
    grounding = Grounding(Losses())
    grounding.read({"groundingMetadata": {}})
    assert not grounding
    grounding.read({"groundingMetadata": {"groundingChunks": PAGES}})
    grounding.read({"groundingMetadata": {"groundingSupports": [support({"endIndex": 1}, 0)]}})
    grounding.read({"groundingMetadata": {}})
    assert [each.url for each in grounding.citations("abc")] == ["U"]


def test_other_sources_are_recorded() -> None:
    losses = Losses()
    grounding = Grounding(losses)
    grounding.read(
        {
            "groundingMetadata": {"searchEntryPoint": {"renderedContent": "<b>"}, "webSearchQueries": ["q"]},
            "citationMetadata": {"citations": [{"uri": "u"}]},
            "urlContextMetadata": {},
        }
    )
    assert [loss.path for loss in losses] == [
        "candidates[0].groundingMetadata.searchEntryPoint",
        "candidates[0].citationMetadata",
    ]
