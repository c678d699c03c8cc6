"""An MCP server on standard input and output with one tool, `add_note`: it writes the note down and reports a word.

Only the standard library, so that any client can start it: `python notes_mcp.py FILE WORD`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "add_note",
    "description": "Write a note down.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["text"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request, or None if there is no such method."""
    match method:
        case "initialize":
            server = {"name": "notes", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            Path(sys.argv[1]).write_text(params["arguments"]["text"], "utf-8")
            return {"content": [{"type": "text", "text": f"Noted. The word is {sys.argv[2]}."}]}
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": f"no method {request['method']}"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
