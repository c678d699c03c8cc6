"""Legal streams of Gemini's API, as `support.upstreams` makes those of the other dialects."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from .strategies import texts
from .upstreams import Upstream

Json = dict[str, Any]
_SIGNATURE = {"thoughtSignature": "U0lH"}
_FINISH = ("STOP", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "CONTINUATION")


@st.composite
def generate_streams(draw: st.DrawFn, *, quirks: bool = True, silent: bool = False) -> Upstream:
    """A raw stream: runs of texts and of reasoning, whole calls, running counts, and one `finishReason`.

    With `silent`, nothing but reasoning is shown.
    """
    kinds = ("thought",) if silent else ("text", "thought", "call")
    runs = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    parts: list[Json] = []
    for number, kind in enumerate(runs):
        signed = _SIGNATURE if draw(st.booleans()) and kind != "thought" else {}
        if kind == "call":
            args = draw(st.dictionaries(st.sampled_from("xy"), st.one_of(st.integers(), texts, st.none()), max_size=2))
            call: Json = {"name": "look", "args": args} | ({"id": f"c{number}"} if draw(st.booleans()) else {})
            parts.append({"functionCall": call} | signed)
            continue
        words = draw(st.lists(texts, min_size=1, max_size=6))
        parts += [{"text": word} | ({"thought": True} if kind == "thought" else {}) for word in words]
        parts[-1] |= signed
    end: Json = {"text": "" if silent else "."} if not draw(st.booleans()) or silent else {"text": ".", **_SIGNATURE}
    first = draw(st.sampled_from((1, 8, 95)))
    counted = draw(st.booleans())
    seldom = st.sampled_from((False, False, False, quirks))
    bare_finish, late_counts = draw(seldom), draw(seldom)
    notes = {"runs": runs, "first": first, "counted": counted, "bare_finish": bare_finish, "late_counts": late_counts}
    frames = []
    # A call before a block has been delivered in a stream, and is left out of a whole reply.
    reasons = st.sampled_from(_FINISH if quirks or "call" not in runs else ("STOP",))

    def send(candidate: Json | None, count: int | None) -> None:
        chunk: Json = {} if candidate is None else {"candidates": [{**candidate, "index": 0}]}
        if count is not None:
            counts = {"promptTokenCount": 9, "candidatesTokenCount": count, "totalTokenCount": 9 + count}
            chunk["usageMetadata"] = counts
        frames.append(b"data: " + json.dumps({**chunk, "modelVersion": "m", "responseId": "u"}).encode())

    for number, part in enumerate([*parts, end]):
        content = {"content": {"parts": [part], "role": "model"}}
        last = number == len(parts)
        finish = {"finishReason": draw(reasons)} if last and not bare_finish else {}
        send(content | finish, first + number if counted or (last and not late_counts) else None)
    if bare_finish:
        send({"finishReason": "STOP"}, None)
    if late_counts:
        send(None, first + len(parts))
    end_of_frame = draw(st.sampled_from((b"\n\n", b"\r\n\r\n"))) if quirks else b"\n\n"
    return Upstream(b"".join(frame + end_of_frame for frame in frames), [], notes)


def whole_generate(stream: bytes) -> Json:
    """The whole reply of a stream: the parts of all its chunks, and what its last ones state."""
    chunks = [json.loads(line.removeprefix(b"data: ")) for line in stream.splitlines() if line]
    candidates = [candidate for chunk in chunks for candidate in chunk.get("candidates", ())]
    parts = [part for each in candidates for part in each.get("content", {}).get("parts", ())]
    whole: Json = {}
    for chunk in chunks:
        whole |= chunk
    finish = {key: each[key] for each in candidates for key in each if key != "content"}
    return whole | {"candidates": [{"content": {"parts": parts, "role": "model"}, **finish}]}
