"""The two events that start a Responses stream: `response.in_progress` repeats the response of `response.created`.

Servers echo the settings of the request in it, perhaps with all instructions and tools, so it is not parsed again.
"""

from __future__ import annotations

from typing import Final

_CREATED: Final = b'{"type":"response.created","sequence_number":0,"response":{'
_REPEATED: Final = b'{"type":"response.in_progress","sequence_number":1,"response":{'


def response_of(created: bytes) -> bytes | None:
    """Return the end of a `response.created` that was read, from within its response on. None if it has another form.

    The form is that of most servers: type, number, response.
    """
    return created[len(_CREATED) :] if created.startswith(_CREATED) else None


def is_repeated(data: bytes, response: bytes) -> bool:
    """True if `data` is a `response.in_progress` of the same form, with sequence number 1 and this `response`."""
    return len(data) == len(_REPEATED) + len(response) and data.startswith(_REPEATED) and data.endswith(response)
