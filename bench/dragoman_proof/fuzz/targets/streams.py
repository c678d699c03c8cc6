"""The streams of an upstream, translated for the clients of all three dialects.

The first two bytes of an input choose knobs, the rest is what the upstream sends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from random import Random
from typing import Final, Literal

from dragoman import Dialect, Direction, Knobs, Translation, builtin_profile, translate
from dragoman.gateway import DIRECTIONS, ReplyOptions
from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.mutate import Trees, changed_stream
from dragoman_proof.fuzz.target import Target, pieces, require
from oracles.grammar import chat, messages, responses, sse

_CHOICES = 2
_ASKED = [{"role": "user", "content": "Hi"}]
_REQUESTS = {
    Dialect.CHAT: {"model": "m", "messages": _ASKED, "stream": True, "stream_options": {"include_usage": True}},
    Dialect.MESSAGES: {"model": "m", "messages": _ASKED, "max_tokens": 9, "stream": True},
    Dialect.RESPONSES: {"model": "m", "input": _ASKED, "stream": True},
}
_TERMINAL = {
    Dialect.CHAT: re.compile(rb'"finish_reason"\s*:\s*(?!null|""|0|false)'),
    Dialect.MESSAGES: re.compile(rb'"type"\s*:\s*"message_stop"'),
    Dialect.RESPONSES: re.compile(rb'"type"\s*:\s*"response\.(completed|incomplete)"'),
}
"""The content of the frame without which a stream is not whole."""


def target(name: str) -> Target:
    """Return the target of the streams of one dialect."""
    upstream = Dialect(name.partition("-")[2])
    rows = [row for row in DIRECTIONS.values() if row.upstream.dialect is upstream]
    recorded = seeds.streams(upstream)
    words = seeds.words_of(chain.from_iterable(map(seeds.values_of, recorded)))
    trees = Trees(words)

    def check(data: bytes) -> None:
        for row in rows:
            _check(row, data[:_CHOICES], data[_CHOICES:])

    def mutate(data: bytes, other: bytes, random: Random) -> bytes | None:
        choices = data[:_CHOICES] if random.randrange(8) else random.randbytes(_CHOICES)
        changed = changed_stream(trees, data[_CHOICES:], other[_CHOICES:], random)
        return None if changed is None else choices + changed

    inputs = [bytes((number % 256, number % 7)) + data for number, data in enumerate(recorded)]
    return Target(check, inputs, [word.encode() for word in words], mutate)


def _check(row: Direction, choices: bytes, data: bytes) -> None:
    whole = _play(row, choices, [data])
    for split in pieces(data)[len(data) > 1500 :]:  # single bytes of short streams only: they take long
        require(_play(row, choices, split) == whole, f"{row}: any split of a stream makes the same bytes")
    if row.passthrough:
        require(_ends(row.client.dialect, whole), f"{row}: a stream ends with its last event or an error")
    else:
        judge(row.client.dialect, whole, overlapping=block_order(choices) == "interleave")


def _play(row: Direction, choices: bytes, split: Sequence[bytes]) -> bytes:
    machine = translation(row, choices).stream_machine()
    out = []
    for piece in split:
        out.append(machine.feed(piece))
        if machine.done:
            break
    out.append(machine.finish())
    return b"".join(out)


def translation(row: Direction, choices: bytes, *, stream: bool = True) -> Translation:
    """Return the translation of a request, with the knobs that some bytes choose."""
    first, second = (*choices, 0, 0)[:2]
    request = _REQUESTS[row.client.dialect]
    if not stream:
        request = {key: value for key, value in request.items() if not key.startswith("stream")}
    return translate(
        row,
        json.dumps(request).encode(),
        profile=builtin_profile(row.upstream.dialect, (None, "compatible")[first % 2]),
        knobs=Knobs(
            block_order=block_order(choices),
            reasoning_field=("reasoning_content", "both", "off")[first // 6 % 3],
            reasoning_surface=("reasoning_text", "summary")[second % 2],
        ),
        options=ReplyOptions(created=1_790_000_000, request_id="req_1"),
    )


def block_order(choices: bytes) -> Literal["auto", "interleave", "sequential"]:
    """Return the order of blocks that the first byte chooses."""
    orders: Final = ("auto", "interleave", "sequential")
    return orders[(*choices, 0)[0] // 2 % 3]


def judge(client: Dialect, data: bytes, *, overlapping: bool) -> None:
    """Raise GrammarError if a stream breaks the grammar of its dialect."""
    if client is Dialect.RESPONSES:
        responses.check(data, own=True)
    elif client is Dialect.MESSAGES:
        messages.check(data, overlapping=overlapping)
    else:
        chat.check(data, include_usage=True, stops=True)


def _ends(client: Dialect, data: bytes) -> bool:
    """True if one of the last frames of a stream is an error, or one of all its frames ends it.

    `[DONE]` is not forwarded if it comes too early, so it ends a stream of Chat too.
    """
    return _TERMINAL[client].search(data) is not None or any(
        item.data is not None and (b"error" in item.data or item.data == b"[DONE]") for item in sse.split(data)[-2:]
    )
