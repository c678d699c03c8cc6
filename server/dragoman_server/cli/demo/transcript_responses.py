"""The transcript of a stream of Responses."""

from __future__ import annotations

from typing import Any

from dragoman_server.cli.demo.transcript import ShownCall, Transcript


def read(event: dict[str, Any], out: Transcript) -> None:
    """Read one frame into a transcript."""
    match event["type"]:
        case "response.output_item.added" if event["item"]["type"] in ("function_call", "custom_tool_call"):
            item = event["item"]
            custom = item["type"] == "custom_tool_call"
            out.calls[event["output_index"]] = ShownCall(item["name"], namespace=item.get("namespace"), custom=custom)
        case "response.output_text.delta":
            out.text += event["delta"]
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            out.reasoning += event["delta"]
        case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
            out.calls[event["output_index"]].arguments += event["delta"]
            out.order.append(event["output_index"])
        case "response.output_item.done" if event["output_index"] in out.calls:
            # Clients run a free-text call after `.done`, whatever its status.
            call = out.calls[event["output_index"]]
            call.complete = call.custom or event["item"]["status"] == "completed"
        case "response.completed" | "response.incomplete":
            out.stop, out.usage = event["response"]["status"], event["response"]["usage"]
            out.ended = True
        case "response.failed":
            out.error = event["response"]["error"]["message"]
        case "error":
            out.error = event.get("error", event)["message"]  # nested on the wire, flat in the published schema
