"""The end of a reply that could not be stored."""

from __future__ import annotations

from typing import Final

from dragoman.wire.json_codec import dumps, loads

_DATA: Final = b"\ndata: "
_END: Final = b"\n\n"


def unstored(data: bytes) -> bytes:
    """Return a Response object, or the end of a stream with its terminal event, with `store: false`.

    A line break within JSON is always escaped, so the last `data:` line is that of the terminal event.
    """
    start = data.rfind(_DATA)
    if start < 0:
        return dumps({**loads(data), "store": False})
    start += len(_DATA)
    event = loads(data[start:])
    event["response"]["store"] = False
    return data[:start] + dumps(event) + _END
