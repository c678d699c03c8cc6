"""A stream or a whole reply that breaks its dialect's rules, and a strict client's view of it and of the losses."""

from __future__ import annotations

import json

from dragoman import LossCode, Translation, direction
from oracles.grammar import Accumulated
from support.directions import Json, judge, stream_through, translated

REPAIRED, CALL_ID, FIXED = LossCode.REPLY_REPAIRED, LossCode.CALL_ID, LossCode.FINISH_FIXED


def rows(translation: Translation, *codes: LossCode) -> list[str]:
    """Return what was done, row by row, under these codes (all that report a repair, if none is named)."""
    wanted = codes or (REPAIRED, CALL_ID, FIXED)
    return [loss.done for loss in translation.losses.rows if loss.code in wanted]


def restored(
    client: str, upstream: str, *frames: bytes, profile: str | None = None
) -> tuple[Accumulated, list[str], bytes]:
    """Return what a strict client accumulates of the stream, the repairs it learns of, and its bytes.

    However the stream is split, all three are the same."""
    translation = translated(direction(client, upstream), profile=profile)
    out = stream_through(translation, frames)
    data = b"".join(frames)
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        again = translated(direction(client, upstream), profile=profile)
        assert stream_through(again, pieces) == out
        assert again.losses.rows == translation.losses.rows
    return judge(client, out), rows(translation), out


def replied(client: str, upstream: str, body: Json, profile: str | None = None) -> tuple[Json, Translation]:
    """Return what a client is answered for a whole reply."""
    translation = translated(direction(client, upstream), profile=profile)
    got: Json = json.loads(translation.reply(json.dumps(body).encode()))
    return got, translation
