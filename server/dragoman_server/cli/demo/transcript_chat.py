"""The transcript of a stream of Chat Completions."""

from __future__ import annotations

from typing import Any

from dragoman_server.cli.demo.transcript import ShownCall, Transcript


def read(chunk: dict[str, Any], out: Transcript) -> None:
    """Read one frame into a transcript."""
    if "error" in chunk:
        out.error = chunk["error"]["message"]
        return
    out.usage = chunk.get("usage") or out.usage
    for choice in chunk["choices"]:
        delta = choice["delta"]
        out.reasoning += delta.get("reasoning_content") or ""
        out.text += delta.get("content") or ""
        for piece in delta.get("tool_calls") or ():
            index, function = piece["index"], piece["function"]
            call = out.calls.setdefault(index, ShownCall(function.get("name", "")))
            if function.get("arguments"):
                call.arguments += function["arguments"]
                out.order.append(index)
        if choice.get("finish_reason"):
            out.stop = choice["finish_reason"]
            for call in out.calls.values():
                call.complete = True
