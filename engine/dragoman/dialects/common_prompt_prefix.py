"""The common beginning of two prompts, which decides what a prompt cache can reuse.

A model server can reuse what it computed for the beginning of an earlier prompt as long as that is the same: tools,
then instructions, then the conversation. Prompts are kept as digests. Cache marks, which move on with each turn, and
the two forms of a single text (a string, or a list of one part) do not count as differences.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.short_repr import short_repr
from dragoman.wire.json_codec import dumps, loads

_MARK = re.compile(rb'(,)?"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\}(?(1)|,?)')
_LONE_TEXT = re.compile(rb'\[\{"type":"(?:text|input_text|output_text)","text":("(?:[^"\\]++|\\.)*+")\}\]')

_OPENING_MAX = 64 * 1024
"""Bytes of a conversation's first message that make its digest."""


@dataclass(frozen=True, slots=True)
class PromptDigest:
    """A prompt as digests: for each of its parts a CRC-32 and a size in bytes. None of its text is kept."""

    dialect: Dialect
    model: str
    tools: tuple[int, int]
    system: tuple[int, int]
    turns: array[int]
    sizes: array[int]

    def __repr__(self) -> str:
        return short_repr(self, self.dialect, f"{len(self.turns)} turns")

    @classmethod
    def of(cls, dialect: Dialect, body: bytes, model: str = "") -> PromptDigest:
        """Return the digest of a request body that is valid in `dialect`.

        `model` is for a dialect whose bodies do not name it.
        """
        payload: Mapping[str, object] = loads(body)
        system = dialect.facts.instructions
        conversation = payload.get(dialect.facts.conversation)
        entries = conversation if isinstance(conversation, list) else [conversation]
        serialized = [_serialized(entry) for entry in entries]
        return cls(
            dialect,
            str(payload.get("model", model)),
            _digest(payload.get("tools")),
            _digest(payload.get(system)) if system else (0, 0),
            array("I", map(crc32, serialized)),
            array("I", map(len, serialized)),
        )

    def agreement(self, later: PromptDigest) -> PromptAgreement:
        """Return how much of this prompt can be reused for a later one of the same dialect."""
        facts = self.dialect.facts
        if self.model != later.model:
            return PromptAgreement(0, 0.0, "model")
        size = common = self.tools[1] + self.system[1]
        size += sum(self.sizes)
        if self.tools != later.tools:
            return PromptAgreement(0, 0.0, "tools")
        if self.system != later.system:
            return PromptAgreement(0, self.tools[1] / size if size else 0.0, facts.instructions)
        agreed = 0
        for one, other in zip(self.turns, later.turns, strict=False):
            if one != other:
                break
            agreed += 1
        common += sum(self.sizes[:agreed])
        broken = f"{facts.conversation}[{agreed}]" if agreed < len(self.turns) else None
        return PromptAgreement(agreed, common / size if size else 1.0, broken)


def conversation_digest(dialect: Dialect, payload: Mapping[str, object], salt: bytes = b"") -> bytes:
    """Return a digest that is the same for all requests of a conversation, and of which no text can be read.

    It is made from the id that the client sends (`prompt_cache_key`, `metadata.user_id`), else from the first message
    of the user, up to 64 KiB of it. `salt`, of up to 64 bytes, separates clients.
    """
    digest = blake2b(digest_size=16, key=salt[:64])
    value: object = payload
    for name in CODECS[dialect].conversation:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value:
        digest.update(b"id\0" + value.encode(errors="replace"))
        return digest.digest()
    conversation = payload.get(dialect.facts.conversation)
    entries = conversation if isinstance(conversation, list) else [conversation]
    users = (entry for entry in entries if isinstance(entry, dict) and entry.get("role") == "user")
    digest.update(_serialized(next(users, entries[0] if entries else None))[:_OPENING_MAX])
    return digest.digest()


class PromptAgreement(NamedTuple):
    """The part of an earlier prompt with which a later one begins.

    `turns` is a number of messages, `share` the part of the earlier prompt's bytes, from 0 to 1. `broken_by` names
    the first part that differs: `model`, `tools`, `system`, `messages[12]` (or `input[12]`); or None.
    """

    turns: int
    share: float
    broken_by: str | None


def _digest(value: object) -> tuple[int, int]:
    if value is None:
        return 0, 0
    data = _serialized(value)
    return crc32(data), len(data)


def _serialized(value: object) -> bytes:
    data = dumps(value)
    if b'"cache_control":' in data or b'"prompt_cache_breakpoint":' in data:
        data = _MARK.sub(b"", data)
    return _LONE_TEXT.sub(rb"\1", data) if b'":[{"type":"' in data else data
