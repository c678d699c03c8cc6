"""The transcript of a stream of Messages."""

from __future__ import annotations

from typing import Any

from dragoman_server.cli.demo.transcript import ShownCall, Transcript


def read(event: dict[str, Any], out: Transcript) -> None:
    """Read one frame into a transcript."""
    match event["type"]:
        case "message_start":
            out.usage = dict(event["message"]["usage"])
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            out.calls[event["index"]] = ShownCall(event["content_block"]["name"])
        case "content_block_delta":
            delta = event["delta"]
            out.reasoning += delta.get("thinking", "")
            out.text += delta.get("text", "")
            if delta.get("partial_json"):
                out.calls[event["index"]].arguments += delta["partial_json"]
                out.order.append(event["index"])
        case "content_block_stop" if event["index"] in out.calls:
            out.calls[event["index"]].complete = True
        case "message_delta":
            out.stop = event["delta"]["stop_reason"]
            out.usage = {**(out.usage or {}), **event["usage"]}
        case "message_stop":
            out.ended = True
        case "error":
            out.error = event["error"]["message"]
