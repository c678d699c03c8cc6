"""What prompt caches hang on: the prompt of a request in digests, and how far it agrees with an earlier one.

A model server can reuse what it computed for the beginning of an earlier prompt, as long as that is the same: tools,
then instructions, then the conversation. Nothing of the prompt itself is kept here. Cache marks, which move on with
each turn, and whether a lone text is spelled as a list are no part of what is computed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from dragoman.dialects.codec import Codec
from dragoman.wire.json_codec import dumps, loads

_MARK = re.compile(rb'(,)?"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\}(?(1)|,?)')
_LONE_TEXT = re.compile(rb'\[\{"type":"(?:text|input_text|output_text)","text":("(?:[^"\\]++|\\.)*+")\}\]')


@dataclass(frozen=True, slots=True)
class PromptDigest:
    """A digest and a size in bytes for each part of a prompt."""

    model: str
    tools: tuple[int, int]
    system: tuple[int, int]
    turns: array[int]
    sizes: array[int]


class Agreement(NamedTuple):
    """How much of an earlier prompt a later one begins with.

    `turns` is the number of messages; `share` the part of the earlier prompt's bytes, from 0 to 1. `broken_by` names
    the first part that is not the same any more: `model`, `tools`, `system`, `messages[12]` (or `input[12]`), or None.
    """

    turns: int
    share: float
    broken_by: str | None


def prompt_digest(codec: Codec, body: bytes) -> PromptDigest:
    """The prompt of a request's body in the dialect of `codec`: one that can be sent, so it is well-formed."""
    payload: Mapping[str, object] = loads(body)
    system, turns = codec.prompt
    said = payload.get(turns)
    spelled = [_serialized(turn) for turn in said] if isinstance(said, list) else [_serialized(said)]
    return PromptDigest(
        str(payload.get("model")),
        _digest(payload.get("tools")),
        _digest(payload.get(system)) if system else (0, 0),
        array("I", map(crc32, spelled)),
        array("I", map(len, spelled)),
    )


def agreement(codec: Codec, earlier: PromptDigest, later: PromptDigest) -> Agreement:
    """How much of the earlier prompt can be reused for the later one, both of the dialect of `codec`."""
    system, turns = codec.prompt
    if earlier.model != later.model:
        return Agreement(0, 0.0, "model")
    size = common = earlier.tools[1] + earlier.system[1]
    size += sum(earlier.sizes)
    if earlier.tools != later.tools:
        return Agreement(0, 0.0, "tools")
    if earlier.system != later.system:
        return Agreement(0, earlier.tools[1] / size if size else 0.0, system)
    agreed = 0
    for one, other in zip(earlier.turns, later.turns, strict=False):
        if one != other:
            break
        agreed += 1
    common += sum(earlier.sizes[:agreed])
    broken = f"{turns}[{agreed}]" if agreed < len(earlier.turns) else None
    return Agreement(agreed, common / size if size else 1.0, broken)


def _digest(value: object) -> tuple[int, int]:
    if value is None:
        return 0, 0
    spelled = _serialized(value)
    return crc32(spelled), len(spelled)


def _serialized(value: object) -> bytes:
    spelled = dumps(value)
    if b'"cache_control":' in spelled or b'"prompt_cache_breakpoint":' in spelled:
        spelled = _MARK.sub(b"", spelled)
    return _LONE_TEXT.sub(rb"\1", spelled) if b'":[{"type":"' in spelled else spelled
