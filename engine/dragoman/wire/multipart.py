"""Multipart forms (RFC 7578): one text field is found while the form arrives, so that it can be replaced.

The field decides what a client may use, so all servers must read the same value. Servers differ in what they accept
beyond the RFC: line ends without CR, fields that are repeated, escaped names. A form with any of these is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from dragoman.errors import ClientRequestError

HEAD_MAX: Final = 16 * 1024
"""Most bytes of the headers of one part."""
VALUE_MAX: Final = 4096
"""Most bytes of the field that is searched for."""
PARTS_MAX: Final = 1000
"""Most parts of a form."""

_BOUNDARY: Final = re.compile(r';\s*boundary\s*=\s*(?:"([^"\\]*)"|([^\s";,]+))', re.IGNORECASE)
_BOUNDARY_CHARACTERS: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]\Z")
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER: Final = re.compile(rf"({_TOKEN}):([^\0-\x08\n-\x1f\x7f]*)\Z")
_PARAMETER: Final = re.compile(rf';\s*({_TOKEN})=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))\s*')
_NAME: Final = re.compile(r"[A-Za-z0-9_.:\[\]-]+\Z")
_NAMED: Final = re.compile(r";\s*name\b|name\s*\*?\s*=", re.IGNORECASE)
_DISPOSITION: Final = re.compile(rf"form-data\s*((?:{_PARAMETER.pattern})*);?\Z", re.IGNORECASE)
_TEXT: Final = re.compile(r"text/plain(?:\s*;\s*charset\s*=\s*\"?(?:utf-8|us-ascii)\"?)?\s*\Z", re.IGNORECASE)
_UNENCODED: Final = frozenset(("7bit", "8bit", "binary"))


class _Phase(Enum):
    """The part of the form that comes next."""

    OPENING = auto()
    """The first boundary, before which nothing may be."""
    LINE_END = auto()
    """The rest of a boundary's line."""
    HEAD = auto()
    """The headers of a part."""
    CONTENT = auto()
    """The content of a part, and the next boundary."""
    ENDED = auto()
    """Nothing: the last boundary was read."""


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a form with this `content-type`. Raises ClientRequestError."""
    found = [match[1] if match[1] is not None else match[2] for match in _BOUNDARY.finditer(content_type)]
    if len(found) != 1 or not _BOUNDARY_CHARACTERS.match(found[0]):
        raise ClientRequestError("content-type", "expected multipart/form-data with one boundary of 1 to 70 characters")
    return found[0].encode()


class FormField:
    """Finds the text field `name` in a form whose parts are separated by `boundary`.

    Feed the form in pieces, cut anywhere, and call `finish` at its end; both raise ClientRequestError for a form that
    servers may read differently. `value` is the field's text once it was found, and `start` and `end` are the positions
    of its bytes in the form.
    """

    def __init__(self, boundary: bytes, name: str) -> None:
        self.name = name
        self.value: str | None = None
        self.start = self.end = 0
        self._mark = b"--" + boundary
        self._waiting = bytearray()
        """Bytes that are not scanned yet."""
        self._at = 0
        """Position of the first of them in the form."""
        self._searched = 0
        """Number of them in which there is no boundary."""
        self._phase = _Phase.OPENING
        self._wanted = False
        """True in the part of the field."""
        self._parts = 0

    @property
    def ended(self) -> bool:
        """True once the last boundary was read."""
        return self._phase is _Phase.ENDED

    def feed(self, data: bytes) -> None:
        """Scan the next bytes of the form."""
        self._waiting += data
        while self._step():
            pass

    def finish(self) -> None:
        """Check that the form is complete."""
        if not self.ended:
            raise _invalid("the form ends before its last boundary")

    def _step(self) -> bool:
        """Scan what comes next. Return False if more bytes are needed."""
        match self._phase:
            case _Phase.OPENING:
                return self._opening()
            case _Phase.LINE_END:
                return self._line_end()
            case _Phase.HEAD:
                return self._head()
            case _Phase.CONTENT:
                return self._content()
            case _Phase.ENDED:
                if self._waiting.strip():
                    raise _invalid("there is something after the form's last boundary")
                self._take(len(self._waiting))
                return False

    def _take(self, count: int) -> bytes:
        """Remove and return the next bytes."""
        taken = bytes(self._waiting[:count])
        del self._waiting[:count]
        self._at += count
        self._searched = 0
        return taken

    def _opening(self) -> bool:
        if len(self._waiting) < len(self._mark):
            return False
        if self._take(len(self._mark)) != self._mark:
            raise _invalid("the form does not begin with the boundary of its content-type")
        self._phase = _Phase.LINE_END
        return True

    def _line_end(self) -> bool:
        if len(self._waiting) < 2:
            return False
        end = self._take(2)
        if end == b"--":
            self._phase = _Phase.ENDED
        elif end == b"\r\n":
            self._phase = _Phase.HEAD
            self._parts += 1
            if self._parts > PARTS_MAX:
                raise _invalid(f"the form has more than {PARTS_MAX} parts")
        else:
            raise _invalid("a boundary of the form does not end its line")
        return True

    def _head(self) -> bool:
        size = self._waiting.find(b"\r\n\r\n", 0, HEAD_MAX)
        if size < 0:
            if len(self._waiting) >= HEAD_MAX:
                raise _invalid(f"the headers of a part exceed {HEAD_MAX} bytes")
            return False
        headers = _headers(self._take(size + 4)[:size])
        parameters = _parameters(headers.get("content-disposition", ""))
        self._wanted = parameters["name"] == self.name
        if self._wanted:
            if self.value is not None:
                raise ClientRequestError((self.name,), "is given more than once; send it once")
            self._check_field(headers, parameters)
        self._phase = _Phase.CONTENT
        return True

    def _check_field(self, headers: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        """Raise ClientRequestError if the part is a file, or its text is encoded."""
        encoding = headers.get("content-transfer-encoding", "binary").strip().lower()
        plain = _TEXT.match(headers.get("content-type", "text/plain"))
        if "filename" in parameters or encoding not in _UNENCODED or not plain:
            raise ClientRequestError((self.name,), "expected a plain text field of the form, in UTF-8")

    def _content(self) -> bool:
        waiting, mark = self._waiting, self._mark
        found = waiting.find(mark, max(0, self._searched - len(mark)))
        if found < 0:
            if not self._wanted:
                # The boundary may have begun in the last bytes, after a line end.
                self._take(max(0, len(waiting) - len(mark) - 1))
            elif len(waiting) > VALUE_MAX + len(mark) + 1:
                raise ClientRequestError((self.name,), f"is longer than {VALUE_MAX} bytes")
            self._searched = len(waiting)
            return False
        if found < 2 or waiting[found - 2 : found] != b"\r\n":
            raise _invalid("the boundary of the form occurs within a part")
        if self._wanted:
            self._found(bytes(waiting[: found - 2]))
        self._take(found + len(mark))
        self._phase = _Phase.LINE_END
        return True

    def _found(self, value: bytes) -> None:
        if len(value) > VALUE_MAX:
            raise ClientRequestError((self.name,), f"is longer than {VALUE_MAX} bytes")
        try:
            self.value = value.decode()
        except UnicodeDecodeError:
            raise ClientRequestError((self.name,), "expected a plain text field of the form, in UTF-8") from None
        self.start, self.end = self._at, self._at + len(value)


def _headers(head: bytes) -> dict[str, str]:
    """Return the headers of a part by lower-case name. Raises ClientRequestError."""
    headers: dict[str, str] = {}
    for line in head.decode("utf-8", "surrogateescape").split("\r\n"):
        match = _HEADER.match(line)
        if match is None:
            raise _invalid("a header of a part cannot be read")
        name, value = match[1].lower(), match[2]
        if name in headers:
            raise _invalid("a header of a part is repeated")
        headers[name] = value.strip()
    return headers


def _parameters(disposition: str) -> dict[str, str]:
    """Return the parameters of a part's `content-disposition`; there is a `name`. Raises ClientRequestError."""
    match = _DISPOSITION.match(disposition)
    found = _PARAMETER.findall(match[1]) if match else []
    parameters = {name.lower(): quoted or token for name, quoted, token in found}
    # Servers differ in how they read an escaped name, which of two names counts, and where a quoted text ends.
    plain = _NAME.match(parameters.get("name", "")) and "name*" not in parameters and len(parameters) == len(found)
    if not plain or any((name.lower() == "name" and token) or _NAMED.search(quoted) for name, quoted, token in found):
        raise _invalid('each part needs a content-disposition such as form-data; name="file"')
    return parameters


def _invalid(message: str) -> ClientRequestError:
    return ClientRequestError("", f"the body is not a form that can be read: {message}")
