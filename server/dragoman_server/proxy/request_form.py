"""The form of a request to a forwarded endpoint. It may hold long files, so it goes upstream while it arrives."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from aiohttp import web

from dragoman import ClientRequestError, Translation
from dragoman.aio import Upload
from dragoman.gateway import FormField, boundary_of
from dragoman_server.config.forwarded_endpoints import FORM_TYPE
from dragoman_server.proxy.limits import estimate_of_form

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")


class RequestForm:
    """A form that was read as far as its field `model`, and of which `rest` has not been read yet."""

    __slots__ = ("_boundary", "_field", "_held", "_length", "_rest")

    def __init__(
        self, field: FormField, boundary: str, held: bytes, rest: AsyncGenerator[bytes, None], length: int | None
    ) -> None:
        self._field = field
        self._boundary = boundary
        self._held = held
        self._rest = rest
        self._length = length

    @classmethod
    async def read(cls, request: web.Request, pieces: AsyncGenerator[bytes, None], most: int) -> RequestForm:
        """Read a form until its field `model` was found, or it has no more fields before its files.

        Raises DragomanError, also if the field is not within the first `most` bytes.
        """
        boundary = boundary_of(request.headers["content-type"])
        field = FormField(boundary, "model")
        held: list[bytes] = []
        size = 0
        async for piece in pieces:
            field.feed(piece)
            held.append(piece)
            size += len(piece)
            # By its place in the form, so that the result does not depend on how the form was split.
            if (field.end if field.value is not None or field.ended else size) > most:
                late = f"is not within the first {most} bytes of the form (limits.upload_held)"
                raise ClientRequestError(("model",), f"{late}: send it before the files")
            if field.value is not None or field.ended:
                break
        else:
            field.finish()
        length = None if "content-encoding" in request.headers else request.content_length
        return cls(field, boundary.decode(), b"".join(held), pieces, length)

    @property
    def model(self) -> str:
        """The model's name; empty if the form has none."""
        return self._field.value or ""

    @property
    def content_type(self) -> str:
        """The type of the form, with its boundary."""
        quoted = self._boundary if _TOKEN.match(self._boundary) else f'"{self._boundary}"'
        return f"{FORM_TYPE}; boundary={quoted}"

    def estimate(self, request: web.Request) -> int:
        """Return an estimate of its tokens."""
        return estimate_of_form(request.content_length or len(self._held))

    def upload(self, model: str, translation: Translation) -> Upload:
        """Return the form with the model's name at the upstream. Its tokens are estimated while it is sent."""
        field, body, length = self._field, self._held, self._length
        if field.value is not None:
            body = body[: field.start] + model.encode() + body[field.end :]
        if length is not None:
            length += len(body) - len(self._held)
        return Upload(_pieces(body, self._rest, field, translation), length)


async def _pieces(
    body: bytes, rest: AsyncGenerator[bytes, None], field: FormField, translation: Translation
) -> AsyncGenerator[bytes, None]:
    """Yield the form, and estimate its tokens. Raises ClientRequestError if the rest has a second field `model`."""
    yield body
    size = len(body)
    async for piece in rest:
        field.feed(piece)
        size += len(piece)
        translation.context.input_estimate = estimate_of_form(size)  # its length may not be known before
        yield piece
    field.finish()
