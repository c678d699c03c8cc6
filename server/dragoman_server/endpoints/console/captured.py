"""A captured exchange: both requests with their difference, and both sides of the reply with their texts.

The rules of captures decide which exchanges are captured, and whether their texts are kept. Nothing else of a request
or a reply is shown by the console.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.wire import Json, SSEParser, json_loads
from dragoman_server.endpoints.console.request_diff import BODY_MAX, request_diff
from dragoman_server.observability.captures.store import Capture, CaptureStore

TEXT_MAX = 200_000
"""Longest body that is shown, in characters."""
DATA_MAX = 2000
"""Longest data of a frame that is shown, in characters."""
FRAMES_MAX = 3000
"""Most frames that are shown, of both sides together."""


def captured_view(store: CaptureStore, request_id: str) -> Json | None:
    """Return what the page shows of a captured exchange, or None without one that can be read. It blocks."""
    try:
        capture = store.get(request_id)
    except (OSError, ValueError):
        return None
    return _view(capture) if capture is not None else None


def _view(capture: Capture) -> Json:
    exchange = capture.exchange
    request = exchange["client"]["request"]
    attempts = exchange["attempts"]
    sent = attempts[-1]["request"] if attempts else None
    losses = (exchange.get("receipt") or {}).get("losses") or []
    batches = _batches("sent", exchange["client"]["reply"], "writes")
    if attempts and attempts[-1]["reply"] is not None:
        batches += _batches("received", attempts[-1]["reply"], "reads")
    batches.sort(key=lambda batch: (batch[1], batch[0] == "sent"))
    kept, dropped = _bounded(batches)
    return {
        "texts": capture.summary["texts"],
        "truncated": capture.summary["truncated"],
        "received": _request(request, f"{request['method']} {request['path']}"),
        "sent": _request(sent, f"POST {sent['url']}") if sent is not None else None,
        "headers": request["headers"],
        "diff": _diff(request, sent, losses) if sent is not None else None,
        "recording": {"batches": kept, "dropped": dropped, "sizes": {}},
    }


def _request(part: Mapping[str, Any], head: str) -> Json:
    text = part.get("text")
    body = text[:TEXT_MAX] if isinstance(text, str) else None
    return {"head": head, "body": body, "bytes": part["bytes"], "cut": part["truncated"] or body != text}


def _diff(received: Mapping[str, Any], sent: Mapping[str, Any], losses: list[Json]) -> list[Json] | None:
    """Return the difference of the bodies; None if one is not complete, not JSON, or too long."""
    if received["truncated"] or sent["truncated"] or max(received["bytes"], sent["bytes"]) > BODY_MAX:
        return None
    try:
        return request_diff(json_loads(received["text"].encode()), json_loads(sent["text"].encode()), losses)
    except (KeyError, ValueError, RecursionError):
        return None


def _batches(side: str, reply: Mapping[str, Any], name: str) -> list[tuple[str, float, int, Any]]:
    """Return the reads or writes of a reply, each with its frames as event and data. A whole reply is one frame."""
    text = reply.get("text")
    pieces = reply.get(name) or []
    if not isinstance(text, str) or not pieces:
        return []
    body, parser, at = text.encode(), SSEParser(), 0
    if not any("event-stream" in value for _, value in reply["headers"]):
        return [(side, pieces[0][0], len(body), [("", text[:DATA_MAX])])]
    found = []
    for seconds, length in pieces:
        frames = parser.parse(body[at : at + length])
        at += length
        shown = [(frame.event, (frame.data or b"").decode("utf-8", "replace")[:DATA_MAX]) for frame in frames]
        if shown:
            found.append((side, round(seconds, 4), length, shown))
    return found


def _bounded(batches: list[tuple[str, float, int, Any]]) -> tuple[list[Any], int]:
    """Return the first batches with `FRAMES_MAX` frames together, and the number of further frames."""
    kept, count, dropped = [], 0, 0
    for batch in batches:
        if count + len(batch[3]) > FRAMES_MAX:
            dropped += len(batch[3])
        else:
            kept.append(batch)
            count += len(batch[3])
    return kept, dropped
