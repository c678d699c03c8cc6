"""Token counts in the replies of OpenAI's other endpoints, which are not translated: embeddings, images, audio, rerank.

Their forms differ: Images and Audio count as Responses does, Embeddings and Completions as Chat does, servers of rerank
as one of the two or as Cohere does (`meta`).
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Usage
from dragoman.dialects.shared.json_fields import read_count
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import Parser

_INPUT = ("input_tokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "completion_tokens")


def read_endpoint_usage(payload: Any) -> Usage | None:
    """Returns the token counts of a reply or of an event, None without any."""
    if type(payload) is not dict:
        return None
    found = _counts(payload.get("usage"))
    if found is None and type(meta := payload.get("meta")) is dict:
        found = _counts(meta.get("tokens")) or _counts(meta.get("billed_units"))
    return found


def _counts(counts: Any) -> Usage | None:
    if type(counts) is not dict:
        return None
    given, made = _first(counts, _INPUT), _first(counts, _OUTPUT)
    if given is None and made is None:
        given = read_count(counts, "total_tokens")
        return None if given is None else Usage(input_total=given)
    cached = None
    for name in _INPUT:
        if type(details := counts.get(f"{name}_details")) is dict:
            cached = read_count(details, "cached_tokens")
    return Usage(input_total=given, cache_read=cached, output_total=made)


def _first(counts: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := read_count(counts, name)) is not None), None)


class StreamedUsage:
    """Reads the token counts in an event stream that is forwarded. `usage` are those of the last event with any.

    `done` is True once the stream has sent `[DONE]`, after which clients read nothing.
    """

    __slots__ = ("_parser", "done", "usage")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._parser: Parser | None = Parser(limits)
        self.usage: Usage | None = None
        self.done = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the stream. A stream that is not well-formed is not read further."""
        if self._parser is None:
            return
        for frame in self._parser.parse(data):
            if frame.fault is not None:
                self._parser = None
                return
            if frame.data == b"[DONE]":
                self.done = True
            elif frame.data and b'"usage"' in frame.data:
                self._read(frame.data)

    def _read(self, data: bytes) -> None:
        try:
            found = read_endpoint_usage(loads(data))
        except ValueError:
            return
        if found is not None:
            self.usage = found
