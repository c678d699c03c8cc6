"""Protocol between upstream and load client: model names that select a script, marks in texts, ends of replies.

A delta's text is a mark, `[ssssnnnnnn@tttttttttttt]`, and filler: four digits of the stream, six of the delta within
it, the send time (CLOCK_MONOTONIC nanoseconds, the last twelve digits). It has no characters that JSON escapes, so it
passes every translation and is found in any dialect's bytes by one regex. The last delta has `!` instead of `@`, so
that a client needs no count to detect a truncated stream. All marks have one length, so that a delta is formatted in
one step.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

DIALECTS = ("chat", "messages", "responses")
UPSTREAMS = (*DIALECTS, "generate")
"""The dialects of upstreams whose instructions are counted. Gemini's API has no clients."""
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}

MARK = re.compile(rb"\[(\d{10})([@!])(\d{12})\]")
MARK_BYTES = 25
CLOCK = 10**12
"""Send times are sent modulo this many nanoseconds (a quarter of an hour)."""
NUMBERS = 10**6
"""Maximum number of deltas of a stream; the digits before are the stream's number, modulo 10,000."""

ENDLESS = NUMBERS - 1
"""Number of deltas of a stream that the upstream ends on request."""

TERMINAL = {"chat": b"[DONE]", "messages": b'"message_stop"', "responses": b'"response.completed"'}
REPEATING = re.compile(
    rb'"response\.(?:(?:output|reasoning|reasoning_summary)_text\.done|(?:content|reasoning_summary)_part\.done'
    rb'|function_call_arguments\.done|output_item\.done|completed)"'
)
"""Events of Responses that repeat the text of earlier ones: their marks are not deltas."""
IN_BAND_ERROR = re.compile(rb'"error"\s*:\s*\{|^event:\s*error|"response\.failed"|"response\.incomplete"', re.MULTILINE)

_NAME = re.compile(
    rb"bench-(?:(whole)(?:-s(\d{1,7}))?|e(\d{1,6})-p(\d{1,6})(?:-s(\d{1,7}))?(?:-b(\d{1,4}))?(-u)?(-t)?(-c)?)(?![\w-])"
)
_WORDS = b" the quick brown fox jumps over the lazy dog"


@dataclass(frozen=True, slots=True)
class Script:
    """The reply that a model name selects: `events` deltas of `size` bytes of text, `pace_ms` apart.

    With `pace_ms` 0 the upstream sends `batch` events per write, as fast as the connection accepts them; with `joined`,
    the whole reply in one write. With `whole`, the reply is not streamed. With `turn`, the deltas are those of an
    agent's turn: reasoning, text and two calls. With `comments`, only comments follow the first delta, as fast as the
    connection accepts them.
    """

    events: int
    pace_ms: int = 0
    size: int = MARK_BYTES
    batch: int = 1
    joined: bool = False
    whole: bool = False
    turn: bool = False
    comments: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.events < NUMBERS:
            raise ValueError(f"a stream has 1 to {NUMBERS - 1} events, not {self.events}")
        if self.batch < 1:
            raise ValueError("a write has at least one event: -b1 or more")

    @property
    def is_blast(self) -> bool:
        """True if it is sent as fast as it is read, and does not end."""
        return self.comments or (self.events == ENDLESS and not self.pace_ms)

    @property
    def model(self) -> str:
        """The model name that selects this script."""
        if self.whole:
            return f"bench-whole-s{self.size}"
        name = f"bench-e{self.events}-p{self.pace_ms}-s{self.size}"
        return (
            name
            + (f"-b{self.batch}" if self.batch > 1 else "")
            + "".join(letter for letter, on in (("-u", self.joined), ("-t", self.turn), ("-c", self.comments)) if on)
        )


@lru_cache(maxsize=256)
def _script(name: bytes) -> Script | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    whole, whole_size, events, pace, size, batch, joined, turn, comments = found.groups()
    if whole:
        return Script(1, size=int(whole_size or MARK_BYTES), whole=True)
    try:
        return Script(
            int(events),
            int(pace),
            int(size or MARK_BYTES),
            int(batch or 1),
            joined is not None,
            turn=turn is not None,
            comments=comments is not None,
        )
    except ValueError:
        return None


def read_script(body: bytes) -> Script | None:
    """Return the script that the model name in a request's body selects, or None."""
    at = body.find(b"bench-")
    while at >= 0:
        found = _NAME.match(body, at)
        if found is not None and body[found.end() : found.end() + 1] == b'"':
            return _script(found[0])
        at = body.find(b"bench-", at + 6)
    return None


def request(dialect: str, model: str, *, stream: bool = True) -> bytes:
    """Return a small request body."""
    prompt = "Say something long."
    body: dict[str, Any]
    if dialect == "chat":
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_completion_tokens": 1024}
        if stream:
            body["stream_options"] = {"include_usage": True}
    elif dialect == "messages":
        body = {"model": model, "max_tokens": 1024, "messages": [{"role": "user", "content": prompt}]}
    elif dialect == "generate":  # the model and the choice of a stream are in the path
        contents = [{"role": "user", "parts": [{"text": prompt}]}]
        return json.dumps({"contents": contents, "generationConfig": {"maxOutputTokens": 1024}}).encode()
    else:
        body = {"model": model, "input": prompt, "max_output_tokens": 1024, "store": False}
    return json.dumps({**body, "stream": stream}, separators=(",", ":")).encode()


def filler(size: int) -> bytes:
    """Return the filler after the mark in a delta's text of `size` bytes; empty if the mark is longer."""
    wanted = max(0, size - MARK_BYTES)
    return (_WORDS * (wanted // len(_WORDS) + 1))[:wanted]
