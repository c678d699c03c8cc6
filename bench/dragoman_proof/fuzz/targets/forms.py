"""Multipart forms. The first line of an input is the `content-type`, the rest is the form."""

from __future__ import annotations

from collections.abc import Sequence
from email.parser import BytesParser
from email.policy import HTTP

from dragoman.errors import ClientRequestError
from dragoman.wire.multipart import FormField, boundary_of
from dragoman_proof.fuzz.target import Target, pieces, require

_BOUNDARY = b"----a"
_TYPE = b"multipart/form-data; boundary=" + _BOUNDARY
_WORDS = (
    b'------a\r\n|------a--|\r\n|\n|Content-Disposition: form-data; name="model"|; filename="a"|name*=utf-8\'\'model|'
    b'Content-Type: text/plain; charset=utf-8|Content-Transfer-Encoding: base64|\0|;|"|%22|multipart/form-data; a='
).split(b"|")


def target(_: str) -> Target:
    """Return the target."""
    model, file, other = _part(b'name="model"', b"m"), _part(b'name="file"; filename="a.wav"', b"\0\r\n--"), b""
    other = _part(b"name=language; x=y", b"\xc3\xa9", b"Content-Type: text/plain; charset=utf-8\r\n")
    forms = [(), (model,), (file, model), (other, model, file), (model, model), (other,)]
    inputs = [_TYPE + b"\n" + b"".join(parts) + b"--" + _BOUNDARY + b"--\r\n" for parts in forms]
    return Target(_check, inputs, _WORDS, longest=1500)


def _part(named: bytes, content: bytes, extra: bytes = b"") -> bytes:
    head = b"--" + _BOUNDARY + b"\r\nContent-Disposition: form-data; " + named + b"\r\n" + extra
    return head + b"\r\n" + content + b"\r\n"


def _check(data: bytes) -> None:
    kind, _, form = data.partition(b"\n")
    content_type = kind.decode("latin-1")
    if "\r" in content_type or "\0" in content_type:
        return  # HTTP has no such header
    try:
        boundary = boundary_of(content_type)
    except ClientRequestError as error:
        require(bool(error.failure.param), "an error names its field")
        return
    whole = _read(boundary, [form])
    for split in pieces(form):
        require(_read(boundary, split) == whole, "any split of a form is read alike")
    if isinstance(whole, str):
        return
    value, start, end = whole
    require(value is None or form[start:end] == value.encode(), "the place of a field is that of its text")
    require(_by_email(boundary, form) == ([] if value is None else [value.encode()]), "others read the same field")


def _read(boundary: bytes, split: Sequence[bytes]) -> tuple[str | None, int, int] | str:
    """Return the field and its place, or the reason of a refusal."""
    field = FormField(boundary, "model")
    try:
        for piece in split:
            field.feed(piece)
        field.finish()
    except ClientRequestError as error:
        return error.failure.message
    return field.value, field.start, field.end


def _by_email(boundary: bytes, form: bytes) -> list[bytes]:
    """Return all fields `model`, as the standard library reads them."""
    head = b'content-type: multipart/form-data; boundary="%b"\r\n\r\n' % boundary
    message = BytesParser(policy=HTTP).parsebytes(head + form)
    if not message.is_multipart():
        return []
    named = [part for part in message.iter_parts() if part.get_param("name", header="content-disposition") == "model"]
    return [content for part in named if isinstance(content := part.get_payload(decode=True), bytes)]
