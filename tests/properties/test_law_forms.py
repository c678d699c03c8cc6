"""Whatever form is accepted, other parsers find the same single field in it: damaged and hostile forms included."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from email.parser import BytesParser
from email.policy import HTTP

from aiohttp import BodyPartReader, MultipartReader, StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.multipart import BadContentDispositionHeader
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from dragoman.errors import ClientRequestError
from dragoman.wire.multipart import FormField
from support.forms import BOUNDARY, FORM_TYPE, form, part

PARTS = st.sampled_from(
    [
        part("model", b"good"),
        part("file", b"\r\n\0\xff--x\r\n", filename="a.wav", extra="Content-Type: audio/wav\r\n"),
        part("prompt", b'name="model"\r\n\r\nevil'),
        part("language", b""),
    ]
)
INSERTS = st.sampled_from(
    [
        *(b"\r\n", b"\n", b"\r", b"--", b'"', b"\\", b";", b" ", b":", b"\0", b"%65", b"\xff", b"\t"),
        *(f"--{BOUNDARY}".encode(), f"\r\n--{BOUNDARY}\r\n".encode(), f"\n--{BOUNDARY}\n".encode()),
        *(part("model", b"evil"), part("model", b"evil").replace(b"\r\n", b"\n"), b'; name="model"', b"name=model;"),
        *(b"Content-Transfer-Encoding: base64\r\n", b"; filename=x", b"name*=utf-8''model;"),
    ]
)


def by_email(data: bytes) -> list[bytes]:
    """The values of all fields `model`, as the standard library reads them."""
    message = BytesParser(policy=HTTP).parsebytes(f"content-type: {FORM_TYPE}\r\n\r\n".encode() + data)
    named = [each for each in message.iter_parts() if each.get_param("name", header="content-disposition") == "model"]
    return [content for each in named if isinstance(content := each.get_payload(decode=True), bytes)]


async def by_aiohttp(data: bytes) -> list[bytes]:
    """Return the same, as aiohttp's server reads them."""
    stream = StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**16)
    stream.feed_data(data)
    stream.feed_eof()
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": FORM_TYPE}))
    return [
        bytes(await each.read(decode=True))
        async for each in MultipartReader(headers, stream)
        if isinstance(each, BodyPartReader) and each.name == "model"
    ]


@given(
    parts=st.lists(PARTS, min_size=1, max_size=4),
    damage=st.lists(st.tuples(st.integers(0, 10_000), INSERTS), max_size=3),
)
@example(parts=[part("model", b"good")], damage=[])
def test_other_parsers_find_the_same_field(parts: list[bytes], damage: list[tuple[int, bytes]]) -> None:
    data = form(*parts)
    for at, inserted in damage:
        at %= len(data) + 1
        data = data[:at] + inserted + data[at:]
    field = FormField(BOUNDARY.encode(), "model")
    try:
        field.feed(data)
        field.finish()
    except ClientRequestError:
        return
    expected = [] if field.value is None else [field.value.encode()]
    assert by_email(data) == expected
    # It rejects some forms that are accepted here, such as unusual names of files; that is no other value.
    with suppress(HttpProcessingError, BadContentDispositionHeader, ValueError):
        assert asyncio.run(by_aiohttp(data)) == expected
