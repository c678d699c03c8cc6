from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from dragoman.errors import ClientRequestError, Unsupported
from support.generate import GEMINI, OLDER, send

Json = dict[str, Any]
PNG = "iVBORw0KGgo="


MEMBER = {"chat": "messages", "messages": "messages", "responses": "input"}


def user(client: str, *parts: Json, profile: Any = GEMINI) -> tuple[list[Json], list[str]]:
    sent = send(client, {MEMBER[client]: [{"role": "user", "content": list(parts)}]}, profile)
    [content] = sent.contents
    return content["parts"], sent.codes


def image(url: str, **fields: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def file(kind: str, data: bytes | str, name: str = "f") -> Json:
    encoded = data if isinstance(data, str) else b64encode(data).decode()
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{encoded}"}}


def test_an_image() -> None:
    parts, codes = user("chat", {"type": "text", "text": "See"}, image(f"data:image/png;base64,{PNG}", detail="high"))
    picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert parts == [{"text": "See"}, {**picture, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}}]
    assert codes == []


@pytest.mark.parametrize(("detail", "codes"), [("low", ["image_detail"]), ("auto", []), (None, [])])
def test_the_detail_of_an_image_for_older_models(detail: str | None, codes: list[str]) -> None:
    parts, found = user("chat", image("https://h/a.png", **({"detail": detail} if detail else {})), profile=OLDER)
    assert parts == [{"fileData": {"mimeType": "image/png", "fileUri": "https://h/a.png"}}]
    assert found == codes


def test_the_detail_of_an_image_in_a_result() -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"}
    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": [picture]}
    [response] = send("responses", {"input": [call, result]}).contents[-1]["parts"]
    [part] = response["functionResponse"]["parts"]
    assert part["mediaResolution"] == {"level": "MEDIA_RESOLUTION_LOW"}


def test_an_image_by_its_url() -> None:
    parts, _ = user("chat", image("https://h/a.webp?x=1"), image("https://h/b"))
    assert parts == [
        {"fileData": {"mimeType": "image/webp", "fileUri": "https://h/a.webp?x=1"}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://h/b"}},
    ]
    with pytest.raises(Unsupported, match=r"messages\[0\].content\[0\]"):
        user("chat", image("https://h/b"), profile=GEMINI.replace({"url_sources": False}))


@pytest.mark.parametrize("kind", ["image/gif", "image/tiff"])
def test_an_image_of_another_type(kind: str) -> None:
    with pytest.raises(Unsupported, match=kind):
        user("chat", image(f"data:{kind};base64,AAAA"))


@pytest.mark.parametrize("kind", ["application/pdf", "audio/wav", "video/mp4"])
def test_a_file(kind: str) -> None:
    data = "JVBERi0x" if kind.endswith("pdf") else "AAAA"
    parts, _ = user("chat", file(kind, data, "a.bin"))
    assert parts == [{"text": "a.bin"}, {"inlineData": {"mimeType": kind, "data": data}}]


def test_a_text_file() -> None:
    parts, _ = user("chat", file("text/csv", "a;å".encode(), "a.csv"))
    assert parts == [{"text": "a.csv"}, {"text": "a;å"}]
    with pytest.raises(ClientRequestError, match="UTF-8"):
        user("chat", file("text/csv", b"\xff"))


def test_files_that_cannot_be_sent() -> None:
    with pytest.raises(Unsupported, match="application/zip"):
        user("chat", file("application/zip", b"PK"))
    with pytest.raises(Unsupported, match="PDF"):
        user("chat", file("application/pdf", "JVBERi0x"), profile=GEMINI.replace({"pdf": False}))
    with pytest.raises(Unsupported, match="images"):
        user("chat", image(f"data:image/png;base64,{PNG}"), profile=GEMINI.replace({"images": False}))
    with pytest.raises(Unsupported, match="another provider"):
        user("chat", {"type": "file", "file": {"file_id": "file-1"}})
    with pytest.raises(Unsupported, match="fetch"):
        user(
            "chat",
            {"type": "video_url", "video_url": "https://a.com/a.mp4"},
            profile=GEMINI.replace({"url_sources": False}),
        )


@pytest.mark.parametrize("client", ["chat", "responses"])
def test_sounds(client: str) -> None:
    parts, codes = user(client, {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})
    assert parts == [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}]
    assert codes == []


def test_films() -> None:
    inline = {"type": "video_url", "video_url": {"url": "data:video/webm;base64,AAAA"}}
    assert user("chat", inline)[0] == [{"inlineData": {"mimeType": "video/webm", "data": "AAAA"}}]
    linked = {"type": "video_url", "video_url": "https://youtu.be/x"}
    parts, _ = user("chat", linked, profile=GEMINI.replace({"url_sources": True}))
    assert parts == [{"fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/x"}}]


def test_a_document_and_a_search_result() -> None:
    parts, codes = user(
        "messages",
        {
            "type": "document",
            "title": "T",
            "context": "C",
            "citations": {"enabled": True},
            "cache_control": {"type": "ephemeral"},
            "source": {
                "type": "content",
                "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            },
        },
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "b"}]},
    )
    assert parts == [
        {"text": "T"},
        {"text": "C"},
        {"text": "x"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"text": "t\ns\nb"},
    ]
    assert sorted(codes) == ["cache_hint", "citations_request", "search_result_shape"]
