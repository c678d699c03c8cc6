"""Sealed reasoning and citations, which pass through a client of another dialect and are restored (mapping §5.2).

Opaque reasoning means something only to the endpoints that made it, but a client of another dialect brings it back as
if it were its own. So the whole original block goes wrapped: a fixed tag and base64url of JSON that names the dialect,
the endpoint family and the model. What comes back with the tag is restored for an upstream of that family and left out
for every other one; a bare copy of a signature could not be told apart later.

An envelope is no secret and proves nothing: its client can read it, and can only harm its own conversation with it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.canonical.request import Json, Reasoning
from dragoman.reasoning.text_cache import TextCache
from dragoman.wire.json_codec import dumps, loads

TAG = "dgm1."
"""Begins every envelope. No vendor's signature or encrypted content holds a dot."""

_BLOCKS = {"messages": ("thinking", "redacted_thinking"), "responses": ("reasoning",)}
"""What may be in an envelope: types of blocks that are reasoning, by dialect. Chat has a field and no block."""


class OpenedEnvelope(NamedTuple):
    """What came back. All fields are empty if the envelope was damaged on its way: it then belongs to nobody.

    The same envelope may be given to another request: nobody changes its block.
    """

    dialect: str = ""
    family: str = ""
    model: str = ""
    block: Json | None = None


_DAMAGED = OpenedEnvelope()


@dataclass(frozen=True, slots=True)
class Envelope:
    """Wraps the blocks of one reply: `family` and `model` are the upstream's."""

    family: str
    model: str

    def wrap(self, dialect: str, block: Json) -> str:
        """The envelope of an original block of `dialect`. The same block always makes the same text."""
        content = dumps({"d": dialect, "f": self.family, "m": self.model, "b": block})
        return TAG + urlsafe_b64encode(content).rstrip(b"=").decode()


_opened: TextCache[OpenedEnvelope] = TextCache(700_000)
"""A client sends its whole history with each request, so most envelopes were opened by the request before; to find one
here costs an eighth of opening it. So many characters are some hundred envelopes, of a few long conversations: 2 MB,
or 16 MB of the most wasteful that can be forged. Where more are carried on at once, all are opened each time."""


def unwrap(text: str) -> OpenedEnvelope | None:
    """The envelope that `text` is, or None where it is the client's dialect's own."""
    known = _opened.young.get(text)
    if known is None and text.startswith(TAG):
        known = _opened.get(text) or _open(text)
    return known


def clear_cache() -> None:
    """Open every envelope anew. It changes no result: it is for those who measure."""
    _opened.clear()


def unwrap_citation(text: str) -> OpenedEnvelope | None:
    """The envelope of a citation that `text` is, or None where it is the client's dialect's own."""
    return _read(text, _is_citation) if text.startswith(TAG) else None


def _open(text: str) -> OpenedEnvelope:
    envelope = _read(text, _is_reasoning)
    if envelope.block is not None:
        _opened.put(text, envelope)
    return envelope


def _read(text: str, is_known: Callable[[str, Json], bool]) -> OpenedEnvelope:
    try:
        # Both characters are rare, and to find none of them is cheaper than a table.
        data = text[len(TAG) :].replace("-", "+").replace("_", "/")
        content = loads(a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True))
    except ValueError:
        return _DAMAGED
    if type(content) is not dict:
        return _DAMAGED
    dialect, family, model, block = content.get("d"), content.get("f"), content.get("m"), content.get("b")
    if type(dialect) is not str or type(family) is not str or type(model) is not str:
        return _DAMAGED
    # What comes out is written into a request as it is, so it has to be what an upstream's reader put in.
    if type(block) is not dict or not is_known(dialect, block):
        return _DAMAGED
    return OpenedEnvelope(dialect, family, model, block)


def _is_citation(dialect: str, block: Json) -> bool:
    told = block.get("url_citation") if dialect == "chat" else block
    known = dialect in ("chat", "responses") and block.get("type") == "url_citation"
    return known and type(told) is dict and type(told.get("url")) is str


def _is_reasoning(dialect: str, block: Json) -> bool:
    if dialect == "chat":
        details = block.get("reasoning_details")
        if details is not None:
            return type(details) is list and all(type(d) is dict and type(d.get("type")) is str for d in details)
        return type(block.get("reasoning_content")) is str
    return block.get("type") in _BLOCKS.get(dialect, ())


def own_block(part: Reasoning, dialect: str, family: str) -> Json | None:
    """The original block if an upstream of `dialect` and `family` made it, so that it may be sent back untouched."""
    if part.native is not None and part.origin == dialect and part.family in (None, family):
        return part.native
    return None
