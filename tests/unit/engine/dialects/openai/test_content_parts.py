"""Content parts: own and foreign types, files by their fields, and the texts of parts that have no other form."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.parts import (
    Document,
    FileRef,
    Json,
    Part,
    Reasoning,
    SearchResult,
    Text,
    ToolReference,
    Unread,
    Url,
)
from dragoman.dialects.openai.content_parts import read_file, read_part, text_of
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.tools.names import NameTable

AT: Path = ("messages", 0, "content", 1)


def text(part: Json, at: Path, losses: Losses) -> Part:
    return Text(part["text"], at)


OWN = {"text": text}
OTHERS = {"input_text": ("text", text), "file": ("image", text)}


@pytest.mark.parametrize("kind", ["text", "input_text"])
def test_own_and_foreign_types_are_read(kind: str) -> None:
    assert read_part({"type": kind, "text": "a"}, OWN, OTHERS, AT, Losses()) == Text("a", AT)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("a", "expected an object, got a string"),
        ({}, "is required (a string)"),
        ({"type": 3}, "expected a string, got an integer"),
        ({"type": "file"}, "content part of type 'file' is not supported here; known: text"),
        ({"type": "hologram"}, "content part of type 'hologram' is not supported here; known: text"),
    ],
    ids=str,
)
def test_any_other_part_is_rejected(part: Any, problem: str) -> None:
    with pytest.raises(ClientRequestError) as error:
        read_part(part, OWN, OTHERS, AT, Losses())
    assert error.value.problem == problem


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ({"file_id": "f"}, FileRef("f", "chat")),
        ({"file_url": "https://a.test/b"}, Url("https://a.test/b")),
        ({"file_data": "https://a.test/c", "file_url": "https://a.test/b", "file_id": "f"}, Url("https://a.test/c")),
    ],
    ids=str,
)
def test_the_first_field_is_the_source(body: Json, source: Any) -> None:
    found = read_file({}, {**body, "filename": "n"}, AT, (*AT, "file"), "chat", Losses())
    assert found == Document(source, AT, "n")


def test_a_file_needs_a_source() -> None:
    with pytest.raises(ClientRequestError) as error:
        read_file({}, {"file_data": "", "file_id": ""}, AT, (*AT, "file"), "chat", Losses())
    assert error.value.failure.param == "messages[0].content[1].file"


def test_texts_of_parts() -> None:
    losses = Losses()
    names = NameTable(64)
    assert "found" in text_of(SearchResult("https://a.test", "title", [Text("found")], AT), losses, names)
    assert text_of(ToolReference("look", AT), losses, names) == "Tool loaded: look"
    assert [code for code, _, _ in losses.rows] == [LossCode.SEARCH_RESULT_SHAPE, LossCode.RESULT_SHAPE]


def test_parts_without_a_text_are_rejected() -> None:
    losses = Losses()
    unread = Unread(ClientRequestError(AT, "broken"), AT)
    with pytest.raises(ClientRequestError, match="broken"):
        text_of(unread, losses, NameTable(64))
    with pytest.raises(Unsupported, match="Reasoning cannot stand in this message"):
        text_of(Reasoning("", AT), losses, NameTable(64))
