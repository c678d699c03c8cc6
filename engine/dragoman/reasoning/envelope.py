"""Envelopes: reasoning and citations of one provider, carried by a client of another dialect (mapping §5.2).

Opaque reasoning has a meaning only for the endpoints that made it, but a client of another dialect sends it back in
the fields of its own dialect. So the reply's writer wraps the whole original block: a fixed tag and base64url of JSON
that names the dialect, the endpoint family and the model. In the next request the tag marks the block; it is restored
for an upstream of the same family and dropped for any other. Without the tag a foreign signature could not be
distinguished from the upstream's own.

Envelopes are neither encrypted nor signed: their client can read and change them, and harms only its own conversation
(decision 0004).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dragoman.canonical.parts import Json, Reasoning
from dragoman.dialects import FACTS, STORED_DIALECT
from dragoman.reasoning.envelope_cache import TextCache
from dragoman.wire.json_codec import dumps, loads

TAG = "dgm1."
"""First characters of every envelope. No vendor's signature or encrypted content has a dot."""

_FORMS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: type(value) is str,
    "objects": lambda value: (
        type(value) is list and all(type(detail) is dict and type(detail.get("type")) is str for detail in value)
    ),
    "object of objects": lambda value: type(value) is dict and all(type(extra) is dict for extra in value.values()),
}
"""The checks of the forms in `WireFacts.reasoning_fields`."""


class OpenedEnvelope(NamedTuple):
    """An envelope's content. All fields are empty if the envelope is damaged; it then matches no upstream.

    Requests share it through the cache, so its block must not be changed.
    """

    dialect: str = ""
    family: str = ""
    model: str = ""
    block: Json | None = None


_DAMAGED = OpenedEnvelope()


@dataclass(slots=True)
class Envelope:
    """Wraps the blocks of one reply: `family` is the profile's endpoint family, `model` the upstream's model."""

    family: str
    model: str

    def wrap(self, dialect: str, block: Json) -> str:
        """Return the envelope of an original block of `dialect`. The same block always makes the same text."""
        content = dumps({"d": dialect, "f": self.family, "m": self.model, "b": block})
        return TAG + urlsafe_b64encode(content).rstrip(b"=").decode()


_opened: TextCache[OpenedEnvelope] = TextCache(700_000)
"""Envelopes that were opened, by text. A client sends its whole history with each request, so the previous request
opened most of them; a hit costs an eighth of opening one. The limit is in characters: some hundred envelopes of a few
long conversations, 2 MB of memory, at most 16 MB if they are forged. With more conversations at once, all envelopes
are opened each time."""


def unwrap(text: str) -> OpenedEnvelope | None:
    """Open an envelope with reasoning. Return None if `text` is not an envelope but of the client's own dialect."""
    known = _opened.young.get(text)
    if known is None and text.startswith(TAG):
        known = _opened.get(text) or _open(text)
    return known


def clear_cache() -> None:
    """Forget the opened envelopes. Benchmarks call it; it changes no result."""
    _opened.clear()


def unwrap_citation(text: str) -> OpenedEnvelope | None:
    """Open an envelope with a citation. Return None if `text` is not an envelope but of the client's own dialect."""
    return _read(text, _is_citation) if text.startswith(TAG) else None


def unwrap_compaction(text: str) -> OpenedEnvelope | None:
    """Open an envelope with a compacted history. Return None if `text` is not an envelope."""
    return _read(text, _is_compaction) if text.startswith(TAG) else None


def _open(text: str) -> OpenedEnvelope:
    envelope = _read(text, _is_reasoning)
    if envelope.block is not None:
        _opened.put(text, envelope)
    return envelope


def _read(text: str, is_known: Callable[[str, Json], bool]) -> OpenedEnvelope:
    try:
        # Both characters are rare: two searches without a hit cost less than one translation by a table.
        data = text[len(TAG) :].replace("-", "+").replace("_", "/")
        content = loads(a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True))
    except ValueError:
        return _DAMAGED
    if type(content) is not dict:
        return _DAMAGED
    dialect, family, model, block = content.get("d"), content.get("f"), content.get("m"), content.get("b")
    if type(dialect) is not str or type(family) is not str or type(model) is not str:
        return _DAMAGED
    # The block is written into a request unchanged, and clients can forge it: accept only what a reader can have made.
    if type(block) is not dict or not is_known(dialect, block):
        return _DAMAGED
    return OpenedEnvelope(dialect, family, model, block)


def _is_citation(dialect: str, block: Json) -> bool:
    facts = FACTS.get(dialect)
    if facts is None or facts.citation is None or block.get("type") != "url_citation":
        return False
    citation = block.get(facts.citation) if facts.citation else block
    return type(citation) is dict and type(citation.get("url")) is str


def _is_compaction(dialect: str, block: Json) -> bool:
    if dialect != STORED_DIALECT or block.get("type") != "compaction":
        return False
    known = type(block.get("summary")) is str and type(block.get("covered")) is str
    # An item in an item could be nested without a bound.
    return known and all(
        type(items := block.get(key)) is list
        and all(type(item) is dict and item.get("type") != "compaction" for item in items)
        for key in ("before", "after")
    )


def _is_reasoning(dialect: str, block: Json) -> bool:
    facts = FACTS.get(dialect)
    if facts is None:
        return False
    if fields := facts.reasoning_fields:
        return bool(block) and fields.keys() >= block.keys() and all(_FORMS[fields[key]](block[key]) for key in block)
    return block.get("type") in facts.reasoning_types


def own_block(part: Reasoning, dialect: str, family: str) -> Json | None:
    """Return the original block of `part` if an upstream of `dialect` and `family` made it, else None.

    Such a block may be sent back unchanged. A part without a family came in its own dialect, without an envelope.
    """
    if part.native is not None and part.origin == dialect and part.family in (None, family):
        return part.native
    return None
