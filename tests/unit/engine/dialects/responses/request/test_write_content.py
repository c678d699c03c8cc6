"""Images, documents and results of tools as content of a Responses request."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from dragoman.canonical.parts import (
    Document,
    FileRef,
    Image,
    Inline,
    Json,
    Part,
    SearchResult,
    Text,
    ToolReference,
    Url,
)
from dragoman.losses import LossCode
from support.responses_written import (
    HI,
    ask,
    assistant,
    call,
    flags,
    refused,
    result,
    state,
    texts,
    user,
)

PNG = Inline("image/png", "QUJD")
IMAGE: Json = {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}
CALLED: Json = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def output(content: Any, kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": "c1", "output": content}


@pytest.mark.parametrize(
    ("image", "written"),
    [
        (Image(PNG), IMAGE),
        (Image(Url("https://a.test/i"), detail="low"), {"image_url": "https://a.test/i", "detail": "low"}),
        (Image(FileRef("file-1", "chat")), {"file_id": "file-1"}),
    ],
)
def test_images(image: Image, written: Json) -> None:
    items, losses = state(user(Text("a"), image))
    assert items[0]["content"] == [*texts("a"), {"type": "input_image", **written}]
    assert losses == []


PDF = Inline("application/pdf", "QUJD")


@pytest.mark.parametrize(
    ("document", "parts", "codes"),
    [
        (Document(PDF), [{"filename": "document.pdf", "file_data": "data:application/pdf;base64,QUJD"}], []),
        (Document(Url("https://a.test/f"), name="f"), [{"file_url": "https://a.test/f", "filename": "f"}], []),
        (
            Document(Url("https://a.test/f"), context="About", cite=True),
            ["About", {"file_url": "https://a.test/f"}],
            [LossCode.CITATIONS_REQUEST],
        ),
        (Document(FileRef("file-1", "chat")), [{"file_id": "file-1"}], []),
        (Document(Text("body"), name="T", context="C"), ["T\nC\nbody"], [LossCode.DOCUMENT_SHAPE]),
        (Document([Text("a"), Image(PNG)], name="T"), ["T", "a", IMAGE], [LossCode.DOCUMENT_SHAPE]),
        (SearchResult("src", "T", [Text("a"), Text("b")]), ["T\nsrc\na\nb"], [LossCode.SEARCH_RESULT_SHAPE]),
    ],
)
def test_documents(document: Document | SearchResult, parts: list[Any], codes: list[LossCode]) -> None:
    items, losses = state(user(document))
    expected: list[Json] = []
    for part in parts:
        if isinstance(part, str):
            expected += texts(part)
        else:
            expected.append(part if part is IMAGE else {"type": "input_file", **part})
    assert items[0]["content"] == expected
    assert losses == codes


def test_text_files_are_text_where_files_are_not_taken() -> None:
    data = b64encode(b"a: 1").decode()
    document = Document(Inline("application/yaml", data), name="f.yaml")
    items, losses = state(user(document), profile=flags(pdf=False))
    assert items[0]["content"] == texts("f.yaml\na: 1")
    assert losses == [LossCode.DOCUMENT_SHAPE]


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        (Image(PNG, ("p",)), {"images": False}),
        (Image(Url("https://a.test"), ("p",)), {"url_sources": False}),
        (Image(FileRef("file-1", "messages"), ("p",)), {}),
        (Document(PDF, ("p",)), {"pdf": False}),
        (Document(Url("https://a.test"), ("p",)), {"url_sources": False}),
        (Document(Url("https://a.test"), ("p",)), {"pdf": False}),
        (Document(FileRef("file-1", "messages"), ("p",)), {}),
        (call(), {}),
    ],
)
def test_what_cannot_be_given_to_the_upstream_is_refused(part: Part, changed: Json) -> None:
    assert refused(user(part), profile=flags(**changed)) == ("call" if part.at == ("call",) else "p")


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ("out", "out"),
        ("", ""),
        ([], ""),
        ([Text("")], ""),
        ([Text("a")], texts("a")),
        ([Text("a"), Text("b")], texts("a", "b")),
        ([Image(PNG)], [IMAGE]),
    ],
)
def test_results(content: str | list[Part], written: Any) -> None:
    items, losses = state(HI, assistant(call()), user(result(content)))
    assert items[1:] == [CALLED, output(written)]
    assert losses == []


def test_servers_without_parts_get_strings() -> None:
    items, _ = state(HI, assistant(call()), user(result([Text("a"), Text("b")])), profile=flags(text_parts=False))
    assert items[2] == output("a\nb")


def test_a_failed_call_has_only_its_content() -> None:
    items, losses = ask(HI, assistant(call()), user(result("boom", is_error=True)))
    assert items["input"][2] == output("boom")
    assert losses == [(LossCode.IS_ERROR, "result.is_error")]
    empty: tuple[str | list[Part], ...] = ("", [])
    for nothing in empty:
        failed, _ = state(HI, assistant(call()), user(result(nothing, is_error=True)))
        assert "failed" in failed[2]["output"]


def test_references_to_tools_become_text() -> None:
    found: list[Part] = [ToolReference("Web", ("r",)), ToolReference("Cron", ("r",))]
    items, losses = state(HI, assistant(call()), user(result(found)))
    assert items[2] == output(texts("Tool loaded: Web", "Tool loaded: Cron"))
    assert losses == [LossCode.RESULT_SHAPE] * 2
