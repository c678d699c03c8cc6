"""Reading the content of Responses messages: text, media, refusals, citations, cache marks."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Citation
from dragoman.canonical.parts import Document, FileRef, Image, Inline, Part, Refusal, Text, Unread, Url
from dragoman.canonical.request import Json, Request
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses


def read(item: Json) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = read_request({"model": "m", "input": [item]}, losses, Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


def param(item: Json) -> str | None:
    with pytest.raises(ClientRequestError) as caught:
        read(item)
    return caught.value.failure.param


AT = ("input", 0, "content", 0)
PNG = "data:image/png;base64,AAAA"


def content(given: Json, role: str = "user") -> Any:
    request, rows = read({"role": role, "content": [given]})
    assert rows == []
    (turn,) = request.turns
    (only,) = turn.parts
    return only


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "input_image", "image_url": PNG}, Image(Inline("image/png", "AAAA"), AT)),
        (
            {"type": "input_image", "image_url": "https://x/y.png", "detail": "high", "file_id": None},
            Image(Url("https://x/y.png"), AT, "high"),
        ),
        (
            {"type": "input_image", "image_url": None, "file_id": "file-1", "detail": "original"},
            Image(FileRef("file-1", "responses"), AT, "original"),
        ),
        (
            {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
            Document(Inline("application/pdf", "AA=="), AT, "a.pdf"),
        ),
        ({"type": "input_file", "file_url": "https://x/y.pdf"}, Document(Url("https://x/y.pdf"), AT)),
        ({"type": "input_image", "image_url": {"url": PNG}}, Image(Inline("image/png", "AAAA"), AT)),
        (
            {"type": "input_file", "file_url": "data:application/pdf;base64,AA=="},
            Document(Inline("application/pdf", "AA=="), AT),
        ),
        ({"type": "input_file", "file_id": "file-1"}, Document(FileRef("file-1", "responses"), AT)),
    ],
)
def test_media(given: Json, wanted: Part) -> None:
    assert content(given) == wanted


def test_cache_marks() -> None:
    mark = {"mode": "explicit", "ttl": "12h"}
    assert content({"type": "input_text", "text": "x", "prompt_cache_breakpoint": mark}).cache == {"ttl": "12h"}
    for given in ({"type": "input_image", "image_url": PNG}, {"type": "input_file", "file_id": "f"}):
        assert content({**given, "prompt_cache_breakpoint": {"mode": "explicit"}}).cache == {"ttl": None}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"type": "input_image"}, ""),
        ({"type": "input_image", "image_url": "ftp://x"}, ".image_url"),
        ({"type": "input_image", "image_url": "data:image/png,AAAA"}, ".image_url"),
        ({"type": "input_file"}, ""),
        ({"type": "input_file", "file_data": "AAAA"}, ".file_data"),
        ({"type": "input_audio", "input_audio": {}}, ".input_audio.format"),
        ({"text": "x"}, ".type"),
        ({"type": "input_text"}, ".text"),
    ],
)
def test_parts_that_cannot_be_read(given: Json, path: str) -> None:
    unread = read({"role": "user", "content": [given]})[0].turns[0].parts[0]
    assert type(unread) is Unread
    assert unread.error.failure.param == f"input[0].content[0]{path}"


@pytest.mark.parametrize("kind", ["text", "output_text"])
def test_texts_of_other_places(kind: str) -> None:
    assert content({"type": kind, "text": "x"}) == Text("x", AT)


def test_instructions_are_text() -> None:
    assert param({"role": "developer", "content": [{"type": "input_image", "image_url": PNG}]}) == "input[0].content[0]"


def test_file_detail_has_a_row() -> None:
    given = {"type": "input_file", "file_id": "f", "detail": "low"}
    assert read({"role": "user", "content": [given]})[1] == [(LossCode.IMAGE_DETAIL, "input[0].content[0].detail")]


def test_refusals_and_citations_of_the_assistant() -> None:
    assert content({"type": "refusal", "refusal": "no"}, "assistant") == Refusal("no", AT)
    url = {"type": "url_citation", "url": "https://x", "title": "t", "start_index": 0, "end_index": 1}
    file = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    text = content({"type": "output_text", "text": "x", "annotations": [url, file]}, "assistant")
    assert text.citations == [
        Citation("responses", url, "https://x", "t", 0, 1),
        Citation("responses", file),
    ]
