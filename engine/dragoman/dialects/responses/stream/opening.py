"""The two events that start a Responses stream: `response.in_progress` repeats the response of `response.created`.

Servers echo the settings of the request in it, perhaps with all instructions and tools, so it is not parsed again.
"""

from __future__ import annotations

import re
from typing import Final

_CREATED: Final = re.compile(rb'\{"type":"response\.created","sequence_number":(?:0|[1-9][0-9]{0,17}),"response":\{')
_REPEATED: Final = re.compile(rb'\{"type":"response\.in_progress","sequence_number":(0|[1-9][0-9]{0,17}),"response":\{')


def response_of(created: bytes) -> bytes | None:
    """Returns the end of a `response.created` that was read, from within its response on. None if it has another form.

    The form is that of most servers: type, number, response.
    """
    found = _CREATED.match(created)
    return created[found.end() :] if found is not None else None


def repeated_number(data: bytes, response: bytes) -> int | None:
    """Returns the sequence number of a `response.in_progress` with this `response`. None for any other event."""
    if not data.endswith(response):
        return None
    found = _REPEATED.match(data)
    return int(found[1]) if found is not None and found.end() + len(response) == len(data) else None
