"""Whole replies and errors of an upstream, translated for the clients of all three dialects.

The first byte of an input chooses the profile and the status, the rest is the body.
"""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any, Final

from dragoman import Dialect, Direction, DragomanError, Translation
from dragoman.gateway import DIRECTIONS
from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.mutate import Trees, changed_json
from dragoman_proof.fuzz.target import Target, require
from dragoman_proof.fuzz.targets.streams import block_order, judge, translation
from support.full_replies import ERRORS, WHOLE
from support.replies import held_by_client

_STATUSES: Final = (200, 400, 401, 404, 413, 418, 429, 500, 529)
_HEADERS: Final = {"retry-after": "2", "x-ratelimit-remaining-requests": "9", "anthropic-ratelimit-tokens-reset": "x"}


def target(name: str) -> Target:
    """Return the target of the replies of one dialect."""
    upstream = Dialect(name.partition("-")[2])
    rows = [row for row in DIRECTIONS.values() if row.upstream.dialect is upstream]
    bodies = [*WHOLE[upstream], *ERRORS[upstream]]
    words = seeds.words_of(bodies)
    trees = Trees(words)

    def check(data: bytes) -> None:
        for row in rows:
            _check(row, data[:1], data[1:])

    def mutate(data: bytes, other: bytes, random: Random) -> bytes | None:
        choice = data[:1] if random.randrange(8) else random.randbytes(1)
        changed = changed_json(trees, data[1:], other[1:], random)
        return None if changed is None else choice + changed

    inputs = [bytes((number,)) + json.dumps(body, separators=(",", ":")).encode() for number, body in enumerate(bodies)]
    inputs += [bytes((number,)) + data for number, data in enumerate(seeds.streams(upstream)[:9])]
    return Target(check, inputs, [word.encode() for word in words], mutate, longest=8192)


def _check(row: Direction, choice: bytes, body: bytes) -> None:
    first = (*choice, 0)[0]
    status = _STATUSES[first // 2 % len(_STATUSES)]
    if status != 200:
        _check_error(row, translation(row, choice), status, body)
        return
    with suppress(DragomanError):
        answered = json.loads(translation(row, choice, stream=False).reply(body))
        require(type(answered) is dict, f"{row}: a reply is an object")
        if not row.passthrough:
            held_by_client(row.client.dialect, answered)
    with suppress(DragomanError):
        replayed = translation(row, choice).replay(body)
        if not row.passthrough:
            judge(row.client.dialect, replayed, overlapping=block_order(choice) == "interleave")


def _check_error(row: Direction, made: Translation, status: int, body: bytes) -> None:
    response = made.error(status, body, _HEADERS, now=1_790_000_000.0)
    require(response.status >= 400, f"{row}: an error has the status of an error")
    if not row.passthrough:
        error: Any = json.loads(response.body)["error"]
        require(bool(error["type"]) and type(error["message"]) is str, f"{row}: an error has a type and a text")
