"""The synthetic reply of Gemini's `generateContent`, byte for byte as Google sends it (November 2026)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from dragoman_bench.replies import HOLE, MODEL, Reply, chunk, mark

_PROMPT, _OUTPUT = 12, 64
_COUNT, _TOTAL = '"@count@"', '"@total@"'


def _json(value: Any) -> bytes:
    """Return JSON with the blanks of Google's."""
    return json.dumps(value, separators=(",", ": ")).encode()


def _response(text: str, count: int | str, total: int | str, finish: str = "") -> dict[str, Any]:
    """Return a response, which a chunk is too."""
    content = {"parts": [{"text": text}], "role": "model"}
    return {
        "candidates": [{"content": content, **({"finishReason": finish} if finish else {}), "index": 0}],
        "usageMetadata": {
            "promptTokenCount": _PROMPT,
            "candidatesTokenCount": count,
            "totalTokenCount": total,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": _PROMPT}],
        },
        "modelVersion": MODEL,
        "responseId": "Q8wQabP7Lb2nkdUPqJ3XwAk",
    }


class GenerateReply(Reply):
    """The reply in Gemini's API: each chunk repeats the counts, which grow, and nothing comes before the first one."""

    def __init__(self, size: int) -> None:
        end = b"data: %b\r\n\r\n" % _json(_response("", _OUTPUT, _PROMPT + _OUTPUT, "STOP"))
        delta = b"data: %b\r\n\r\n" % _json(_response(HOLE, "@count@", "@total@"))
        super().__init__([], delta, [end], _response(HOLE, _OUTPUT, _PROMPT + _OUTPUT, "STOP"), size)

    def delta(self, serial: int, number: int, sent: int, *, last: bool) -> bytes:
        """Return a delta. Its counts cannot be padded, so the chunk's size depends on them."""
        counted = self._after.replace(_COUNT.encode(), b"%d" % (number + 1), 1)
        counted = counted.replace(_TOTAL.encode(), b"%d" % (_PROMPT + number + 1), 1)
        return chunk(self._before + mark(serial, number, sent, last=last) + counted)


@lru_cache(maxsize=64)
def generate_reply(size: int) -> GenerateReply:
    """Return the reply whose deltas have `size` bytes of text."""
    return GenerateReply(size)
