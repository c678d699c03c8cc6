"""Estimates a prompt's tokens from the size of its body, for the count that a client shows before the upstream reports
one. It costs next to nothing, and is within a sixth for most requests of agents.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.canonical.parts import Document, Image, Inline, Part, Recording, Text, ToolResult
from dragoman.canonical.request import Request
from dragoman.dialects import Dialect
from dragoman.tokens.media import PAGE, PAGE_BYTES, image_tokens, recording_tokens

_BYTE = 0.27
_QUOTE = 0.6
"""Weight taken off for each quotation mark: keys and brackets belong to the body and not to the prompt."""
_WINDOWS = 8
_WINDOW = 512
_HEAD = 4096


def by_body(request: Request, sent: bytes, dialect: Dialect) -> int:
    """The tokens of `request`, which became `sent` for an upstream of `dialect`. Never 0."""
    size = len(sent)
    inline = media = 0
    for turn in request.turns:
        if turn.compact is None:  # compact ones hold no media
            held, tokens = _media(turn.parts, dialect)
            inline += held
            media += tokens
    if inline >= size:  # the upstream takes no such media, and was not sent any
        inline = media = 0
    estimate = int((size - inline) * (_BYTE - _QUOTE * _quotes(sent))) + media
    return estimate if estimate > 0 else 1


def _media(parts: Sequence[Part], dialect: Dialect) -> tuple[int, int]:
    """Return the bytes of inline data in parts, and its tokens where they are quick to find."""
    size = tokens = 0
    inner: Sequence[Part]
    for part in parts:
        inner = ()
        if type(part) is ToolResult:
            if type(part.content) is list:
                inner = part.content
        elif type(part) is Image:
            tokens += image_tokens(part, dialect, _HEAD)
            if type(part.source) is Inline:
                size += len(part.source.data)
        elif type(part) is Document:
            source = part.source
            if type(source) is Inline:
                size += len(source.data)
                tokens += PAGE * max(1, len(source.data) // PAGE_BYTES)
            elif type(source) is list:
                inner = source
            elif type(source) is not Text:
                tokens += PAGE
        elif type(part) is Recording:
            tokens += recording_tokens(part)
            if type(part.source) is Inline:
                size += len(part.source.data)
        if inner:
            held, priced = _media(inner, dialect)
            size += held
            tokens += priced
    return size, tokens


def _quotes(sent: bytes) -> float:
    """The share of quotation marks: of a long body in eight windows, 5 µs whatever its length."""
    size = len(sent)
    if size <= _WINDOWS * _WINDOW:
        return sent.count(b'"') / size
    step = size // _WINDOWS
    found = sum([sent.count(b'"', at, at + _WINDOW) for at in range(0, step * _WINDOWS, step)])
    return found / (_WINDOWS * _WINDOW)
