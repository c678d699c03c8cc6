"""Limits on the number of parts and stop sequences of a request.

Translating takes some microseconds for each part and blocks the event loop, so their number is limited. The parts of a
usual request are not counted, as its body is too short for that many.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json, Request
from dragoman.errors import TooMany
from dragoman.limits import Limits

_SHORTEST = 16
"""The size of the shortest part that a reader accepts, in bytes: `{"type":"text"}`, with its comma."""


def check_parts(size: int, payload: Json, conversation: str, limits: Limits) -> None:
    """Raise TooMany for a request with more parts than `limits.parts`.

    `size` is the bytes of the body, `conversation` the field that holds its messages. A part is an entry of an array
    in a message, such as a content block or a tool call, or of an array in such an entry, as tool results have them.
    """
    messages = payload.get(conversation)
    if size <= limits.parts * _SHORTEST or type(messages) is not list:
        return
    left = limits.parts
    for number, message in enumerate(messages):
        if type(message) is dict:
            left -= _count_parts(message, left)
        if left < 0:
            held = f"more than {limits.parts} parts in the messages before and in this one"
            raise TooMany((conversation, number), held, "parts", limits.parts)


def _count_parts(message: Json, most: int) -> int:
    """Return the number of a message's parts. Once there are more than `most`, those in other parts are left out."""
    count = 0
    for parts in _arrays(message):
        count += len(parts)
        if count <= most:
            count += sum([len(inner) for part in parts if type(part) is dict for inner in _arrays(part)])
    return count


def _arrays(entry: Json) -> list[list[Any]]:
    return [value for value in entry.values() if type(value) is list]


def check_stops(request: Request, limits: Limits) -> None:
    """Raise TooMany for stop sequences that are together longer than `limits.stops`.

    Each is searched for in every piece of the reply's text.
    """
    size = sum(map(len, request.stop)) + len(request.stop)
    if size > limits.stops:
        held = f"{len(request.stop)} stop sequences of {size - len(request.stop)} characters"
        raise TooMany(request.stop_at, held, "stops", limits.stops)
