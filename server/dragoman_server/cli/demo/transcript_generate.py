"""The transcript of a stream of Gemini's `generateContent`."""

from __future__ import annotations

from typing import Any

from dragoman.wire import json_dumps
from dragoman_server.cli.demo.transcript import ShownCall, Transcript


def read(chunk: dict[str, Any], out: Transcript) -> None:
    """Read one chunk into a transcript. Its calls are whole, and nothing marks the end of a stream."""
    if "error" in chunk:
        out.error = chunk["error"]["message"]
        return
    out.usage = {**(out.usage or {}), **chunk.get("usageMetadata", {})}
    for candidate in chunk.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            if "functionCall" in part:
                call = part["functionCall"]
                index = len(out.calls)
                out.calls[index] = ShownCall(call["name"], json_dumps(call.get("args", {})).decode(), complete=True)
                out.order.append(index)
            elif part.get("thought"):
                out.reasoning += part["text"]
            else:
                out.text += part.get("text", "")
        if reason := candidate.get("finishReason"):
            out.stop, out.ended = reason, True
