"""A field of a form is found whatever the split, and a form that servers may read differently is rejected."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ClientRequestError
from dragoman.wire.multipart import HEAD_MAX, PARTS_MAX, VALUE_MAX, FormField, boundary_of
from support.forms import BOUNDARY, form, part

FILE = part("file", b"RIFF\r\n--not the boundary\r\n\0\xff" * 50, filename="a.wav", extra="Content-Type: audio/wav\r\n")
MODEL = part("model", "wëb-1".encode())


def scan(*pieces: bytes) -> FormField:
    field = FormField(BOUNDARY.encode(), "model")
    for piece in pieces:
        field.feed(piece)
    field.finish()
    return field


@pytest.mark.parametrize(
    "data",
    [
        form(FILE, MODEL),
        form(MODEL, FILE),
        form(part("prompt", b""), MODEL, part("language", b"en")),
        form(part("model", "wëb-1".encode(), extra="Content-Type: text/plain; charset=utf-8\r\n")),
        form(part("model", "wëb-1".encode(), extra="content-transfer-encoding: 8bit\r\nX-A:\r\n")),
    ],
)
@given(cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_the_field_is_found_whatever_the_split(data: bytes, cuts: list[int]) -> None:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    field = scan(*(data[start:end] for start, end in pairwise(ends)))
    assert field.value == "wëb-1"
    assert data[field.start : field.end] == "wëb-1".encode()


def test_every_split_in_two_finds_the_field() -> None:
    data = form(FILE, MODEL)
    for at in range(len(data)):
        field = scan(data[:at], data[at:])
        assert (field.value, data[field.start : field.end]) == ("wëb-1", "wëb-1".encode())


def test_the_field_is_known_before_the_file_after_it_arrives() -> None:
    field = FormField(BOUNDARY.encode(), "model")
    field.feed(MODEL + part("file", b"")[:20])
    assert field.value == "wëb-1"
    assert not field.ended


def test_a_form_without_the_field_has_no_value() -> None:
    assert scan(form(FILE)).value is None
    assert scan(form(part("Model", b"x"), part("model[]", b"x"))).value is None


def test_a_long_file_is_not_held() -> None:
    field = FormField(BOUNDARY.encode(), "model")
    field.feed(part("file", b"", filename="a")[:-2])
    for _ in range(1000):
        field.feed(b"x" * 10_000)
    assert len(field._waiting) <= len(BOUNDARY) + 4


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(form(MODEL, MODEL), id="twice"),
        pytest.param(form(MODEL, FILE, part("model", b"other")), id="twice, after the file"),
        pytest.param(form(part("model", b"x", filename="m")), id="a file"),
        pytest.param(form(part("model", b"eA==", extra="Content-Transfer-Encoding: base64\r\n")), id="encoded"),
        pytest.param(form(part("model", b"x", extra="Content-Type: text/plain; charset=utf-16\r\n")), id="charset"),
        pytest.param(form(part("model", b"\xff")), id="not UTF-8"),
        pytest.param(form(part("model", b"x" * (VALUE_MAX + 1))), id="too long"),
        pytest.param(form(part("mod\\el", b"x")), id="an escaped name"),
        pytest.param(form(part("mod%65l", b"x")), id="an encoded name"),
        pytest.param(form(part('a"; name="model', b"x")), id="two names"),
        pytest.param(form(part(";;model", b"x")), id="a separator in a name"),
        pytest.param(form(part("a", b"x", filename="x; name=model")), id="a name in the name of a file"),
        pytest.param(form(part("a", b"x", extra='"Content-Type: text/plain\r\n')), id="no name of a header"),
        pytest.param(form(part("a", b"x", extra="X-A: \0\r\n")), id="a control character in a header"),
        pytest.param(form(part("a", b"x").replace(b'name="a"', b"name*=utf-8''model")), id="an extended name"),
        pytest.param(form(part("a", b"x").replace(b'name="a"', b"name=model")), id="a name without quotes"),
        pytest.param(form(part("a", b"x").replace(b"form-data", b"attachment")), id="no form-data"),
        pytest.param(form(part("a", b"x", extra='Content-Disposition: form-data; name="model"\r\n')), id="two headers"),
        pytest.param(form(part("a", b"x", extra=" folded\r\n")), id="a folded header"),
        pytest.param(form(part("a", b"x", extra="no colon\r\n")), id="no header"),
        pytest.param(form(part("a", b"x", extra="X-A: b\n\r\n")), id="a line end in a header"),
        pytest.param(form(part("a", b"x", extra=f"X-A: {'b' * HEAD_MAX}\r\n")), id="a long header"),
        pytest.param(form(part("a", b"x\n" + MODEL[:-2].replace(b"\r\n", b"\n"))), id="line ends without CR"),
        pytest.param(form(part("a", f"--{BOUNDARY} ".encode())), id="the boundary in a part"),
        pytest.param(form(MODEL).replace(b"\r\nContent", b" \r\nContent", 1), id="a space after the boundary"),
        pytest.param(b"preamble\r\n" + form(MODEL), id="a preamble"),
        pytest.param(form(MODEL) + form(part("model", b"other")), id="a second form"),
        pytest.param(form(MODEL)[:-4], id="cut off"),
        pytest.param(b"", id="empty"),
        pytest.param(form(*[part("a", b"")] * (PARTS_MAX + 1)), id="many parts"),
    ],
)
def test_a_form_that_servers_may_read_differently_is_rejected(data: bytes) -> None:
    with pytest.raises(ClientRequestError):
        scan(data)
    with pytest.raises(ClientRequestError):
        scan(*(data[at : at + 1] for at in range(len(data))))


def test_names_of_files_may_have_any_form() -> None:
    for name in ('filename="a\\"b.wav"', "filename*=utf-8''%C3%A4.wav", "filename=a.wav", 'filename="C:\\\\a.wav"'):
        data = form(part("file", b"x").replace(b'name="file"', f'name="file"; {name}'.encode()), MODEL)
        assert scan(data).value == "wëb-1"


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('multipart/form-data; charset=utf-8; Boundary="a b:c"', b"a b:c"),
        ("multipart/form-data;boundary=----WebKitFormBoundary7MA4YWxk", b"----WebKitFormBoundary7MA4YWxk"),
    ],
)
def test_the_boundary_is_read(content_type: str, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "parameters",
    ["", "; boundary=", '; boundary=""', "; boundary=a; boundary=b", '; boundary="a "', f"; boundary={'a' * 71}"],
)
def test_a_missing_or_doubtful_boundary_is_rejected(parameters: str) -> None:
    with pytest.raises(ClientRequestError):
        boundary_of(f"multipart/form-data{parameters}")
