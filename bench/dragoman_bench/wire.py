"""What upstream and load client agree on: model names that say what to send, marks in the text, how a reply ends.

A delta's text is a mark, `[ssssnnnnnn@tttttttttttt]`, and filler: four digits of the stream, six of the delta within
it, the send time (CLOCK_MONOTONIC nanoseconds, the last twelve digits). It holds nothing that JSON escapes, so it
passes every translation and is found in any dialect's bytes by one expression. The last delta has `!` for `@`, so
that a client needs no count to know that all came. All marks have one length: a delta is one formatting of ready bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

DIALECTS = ("chat", "messages", "responses")
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}

MARK = re.compile(rb"\[(\d{10})([@!])(\d{12})\]")
MARK_BYTES = 25
CLOCK = 10**12
"""Send times are told modulo this many nanoseconds (a quarter of an hour)."""
NUMBERS = 10**6
"""Deltas a stream may have; what stands before them is the stream's own number, modulo 10,000."""

TERMINAL = {"chat": b"[DONE]", "messages": b'"message_stop"', "responses": b'"response.completed"'}
REPEATING = re.compile(rb'"response\.(?:output_text\.done|content_part\.done|output_item\.done|completed)"')
"""From here on a Responses stream tells its text again: marks are deltas no more."""
IN_BAND_ERROR = re.compile(rb'"error"\s*:\s*\{|^event:\s*error|"response\.failed"|"response\.incomplete"', re.MULTILINE)

_NAME = re.compile(
    rb"bench-(?:(whole)(?:-s(\d{1,6}))?|e(\d{1,6})-p(\d{1,6})(?:-s(\d{1,6}))?(?:-b(\d{1,4}))?(-u)?)(?![\w-])"
)
_WORDS = b" the quick brown fox jumps over the lazy dog"


@dataclass(frozen=True, slots=True)
class Script:
    """What a model name asks of the upstream: `events` deltas of `size` bytes of text, `pace_ms` apart (0: at once).

    At once means `batch` events a write, as fast as the connection takes them; `joined` the whole reply in one write.
    `whole` is a reply that is not streamed.
    """

    events: int
    pace_ms: int = 0
    size: int = MARK_BYTES
    batch: int = 1
    joined: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.events < NUMBERS:
            raise ValueError(f"a stream has 1 to {NUMBERS - 1} events, not {self.events}")
        if self.batch < 1:
            raise ValueError("a write has at least one event: -b1 or more")

    @property
    def model(self) -> str:
        """The name that asks for this."""
        if self.whole:
            return f"bench-whole-s{self.size}"
        name = f"bench-e{self.events}-p{self.pace_ms}-s{self.size}"
        return name + (f"-b{self.batch}" if self.batch > 1 else "") + ("-u" if self.joined else "")


@lru_cache(maxsize=256)
def _script(name: bytes) -> Script | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    whole, whole_size, events, pace, size, batch, joined = found.groups()
    if whole:
        return Script(1, size=int(whole_size or MARK_BYTES), whole=True)
    try:
        return Script(int(events), int(pace), int(size or MARK_BYTES), int(batch or 1), joined is not None)
    except ValueError:
        return None


def asked(body: bytes) -> Script | None:
    """What a request's body asks for by its model name; None if no name of the rig's is in it."""
    at = body.find(b"bench-")
    while at >= 0:
        found = _NAME.match(body, at)
        if found is not None and body[found.end() : found.end() + 1] == b'"':
            return _script(found[0])
        at = body.find(b"bench-", at + 6)
    return None


def request(dialect: str, model: str, *, stream: bool = True) -> bytes:
    """A client's small request."""
    said = "Say something long."
    body: dict[str, Any]
    if dialect == "chat":
        body = {"model": model, "messages": [{"role": "user", "content": said}], "max_completion_tokens": 1024}
        if stream:
            body["stream_options"] = {"include_usage": True}
    elif dialect == "messages":
        body = {"model": model, "max_tokens": 1024, "messages": [{"role": "user", "content": said}]}
    else:
        body = {"model": model, "input": said, "max_output_tokens": 1024, "store": False}
    return json.dumps({**body, "stream": stream}, separators=(",", ":")).encode()


def filler(size: int) -> bytes:
    """What a delta's text of `size` bytes has behind its mark; a mark is never cut for it."""
    wanted = max(0, size - MARK_BYTES)
    return (_WORDS * (wanted // len(_WORDS) + 1))[:wanted]
