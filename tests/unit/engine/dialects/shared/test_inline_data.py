"""Base64 in one form, and media types by the first bytes, in every direction."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import ClientRequestError
from dragoman.dialects.shared.inline_data import (
    decoded_text,
    plain_base64,
    read_file_data,
    read_image_data,
    type_of_data,
)
from support.canonical_turns import translated

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBP",
}
CLAIMS = ("image/png", "image/jpg", "application/octet-stream", "image/*", "IMAGE/GIF")
DIALECTS = ("chat", "messages", "responses")


def image(client: str, claim: str, data: str) -> dict[str, Any]:
    """A request with one image."""
    url = f"data:{claim};base64,{data}"
    if client == "messages":
        block = {"type": "image", "source": {"type": "base64", "media_type": claim, "data": data}}
        return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
    if client == "chat":
        part = {"type": "image_url", "image_url": {"url": url}}
        return {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    return {"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}


def sent_image(upstream: str, body: Any) -> tuple[str, str]:
    """The media type and the data of the image that is sent."""
    if upstream == "messages":
        source = body["messages"][0]["content"][0]["source"]
        return source["media_type"], source["data"]
    if upstream == "chat":
        url = body["messages"][0]["content"][0]["image_url"]["url"]
    else:
        url = body["input"][0]["content"][0]["image_url"]
    head, data = url.split(";base64,")
    return head.removeprefix("data:"), data


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(("client", "upstream"), list(product(DIALECTS, DIALECTS)))
def test_the_first_bytes_decide_what_an_image_is(client: str, upstream: str, kind: str, claim: str) -> None:
    data = b64encode(HEADS[kind] + b"rest").decode()
    body, _ = translated(client, upstream, image(client, claim, data), flags={"rewrite": True})
    assert sent_image(upstream, body) == (kind, data)


@pytest.mark.parametrize("form", ["lines", "url-safe", "unpadded", "spaces", "data URL"])
@pytest.mark.parametrize(("client", "upstream"), list(product(DIALECTS, DIALECTS)))
def test_base64_is_sent_in_one_form(client: str, upstream: str, form: str) -> None:
    raw = HEADS["image/jpeg"] + bytes(range(200, 256)) * 2
    data = b64encode(raw).decode()
    assert {"+", "/", "="} < set(data)
    odd = {
        "lines": "\r\n".join(data[at : at + 76] for at in range(0, len(data), 76)),
        "url-safe": urlsafe_b64encode(raw).decode(),
        "unpadded": data.rstrip("="),
        "spaces": f" {data[:20]} {data[20:]}\t",
        "data URL": f"data:image/png;base64,{data}" if client == "messages" else data,
    }[form]
    body, _ = translated(client, upstream, image(client, "image/png", odd), flags={"rewrite": True})
    assert sent_image(upstream, body) == ("image/jpeg", data)


@given(raw=st.binary(min_size=1, max_size=200), width=st.integers(1, 80), safe=st.booleans(), padded=st.booleans())
def test_every_form_holds_the_same_bytes(raw: bytes, width: int, safe: bool, padded: bool) -> None:
    data = (urlsafe_b64encode if safe else b64encode)(raw).decode()
    data = data if padded else data.rstrip("=")
    broken = "\n".join(data[at : at + width] for at in range(0, len(data), width))
    assert b64decode(plain_base64(broken), validate=True) == raw


def test_base64_in_its_form_is_the_same_object() -> None:
    data = b64encode(b"abc" * 100).decode()
    assert plain_base64(data) is data


def test_percent_signs_of_a_url() -> None:
    assert plain_base64("%2B%2f%2B%3D") == "+/+="


def test_an_unknown_image_keeps_its_label() -> None:
    assert read_image_data("image/BMP", "Qk0AAAAA", ()).media_type == "image/bmp"


def test_a_pdf_file_is_recognised() -> None:
    assert read_file_data("application/octet-stream", "JVBERi0xLjcK").media_type == "application/pdf"
    assert read_file_data("text/plain", "aGkh").media_type == "text/plain"


def test_a_sound_file_is_no_image() -> None:
    assert read_file_data("audio/wav", "UklGRgAA").media_type == "audio/wav"


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [("JVBERi0x", "a.txt", "application/pdf"), ("aGkh", "a.MD", "text/markdown"), ("aGkh", None, None)],
)
def test_the_type_of_data_without_a_label(data: str, name: str | None, kind: str | None) -> None:
    assert type_of_data(data, name) == kind


@pytest.mark.parametrize(("client", "upstream"), list(product(("chat", "responses"), ("messages", "chat"))))
def test_an_image_as_a_file_is_an_image_where_files_are_not_taken(client: str, upstream: str) -> None:
    url = f"data:image/png;base64,{b64encode(HEADS['image/png']).decode()}"
    part: dict[str, Any] = {"type": "file", "file": {"filename": "a.png", "file_data": url}}
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    if client == "responses":
        part = {"type": "input_file", "filename": "a.png", "file_data": url}
        body = {"model": "m", "input": [{"role": "user", "content": [part]}]}
    sent, _ = translated(client, upstream, body, flags={"rewrite": True, "pdf": False})
    assert '"image' in json.dumps(sent["messages"])
    assert sent_image(upstream, sent)[0] == "image/png"


@pytest.mark.parametrize("data", ["a*==", "/w=="])
def test_what_is_no_text_names_its_field(data: str) -> None:
    assert decoded_text("aMO8", ("file",)) == "hü"
    with pytest.raises(ClientRequestError, match=r"^file: expected base64 of UTF-8 text"):
        decoded_text(data, ("file",))


@pytest.mark.parametrize("data", ["[omitted]", "<image>", "@@@", "data:image/png;base64,…", "AAAAA"])
def test_a_text_in_the_place_of_an_image_is_refused(data: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        read_image_data("image/png", data, ("here",))
    assert caught.value.failure.param == "here"
