"""Calls and outputs of OpenAI's built-in tools in a history, as items and as calls and results (mapping §8.4)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dragoman.canonical.parts import Json, ToolCall, ToolResult
from dragoman.errors import Path
from dragoman.tools.built_in_tools import APPLY_PATCH, LOCAL_SHELL, SHELL
from dragoman.wire.json_codec import dumps, loads


class BuiltInCall(NamedTuple):
    """A type of calls: the tool, and the field of the item that states what to do."""

    tool: str
    key: str


BUILT_IN_CALLS: Final = {
    "shell_call": BuiltInCall(SHELL, "action"),
    "local_shell_call": BuiltInCall(LOCAL_SHELL, "action"),
    "apply_patch_call": BuiltInCall(APPLY_PATCH, "operation"),
}
"""The types of their calls."""
BUILT_IN_OUTPUTS: Final = {f"{item}_output": call.tool for item, call in BUILT_IN_CALLS.items()}
"""The types of their outputs → the tool."""
_ITEMS: Final = {call.tool: (item, call.key) for item, call in BUILT_IN_CALLS.items()}


def read_call(item: Json, call_id: str, at: Path) -> ToolCall:
    """Return the call of a built-in tool. Its arguments are what the item states to do."""
    tool, key = BUILT_IN_CALLS[item["type"]]
    given = item.get(key)
    action = {field: value for field, value in given.items() if value is not None} if type(given) is dict else {}
    return ToolCall(call_id, tool, dumps(action).decode(), at, built_in=tool)


def read_output(item: Json, call_id: str, at: Path) -> ToolResult:
    """Return the output of a built-in tool. An error is a failed patch, and a command that failed or took too long."""
    tool = BUILT_IN_OUTPUTS[item["type"]]
    output, failed = item.get("output"), item.get("status") == "failed"
    if type(output) is str:
        content = output
    elif output is None:
        content = "failed" if failed else "completed"
    else:
        content = dumps(output).decode()
        failed = failed or _has_failed(output)
    return ToolResult(call_id, content, at, is_error=failed, built_in=tool)


def _has_failed(output: Any) -> bool:
    for entry in output if type(output) is list else ():
        outcome = entry.get("outcome") if type(entry) is dict else None
        if type(outcome) is dict and (outcome.get("type") == "timeout" or outcome.get("exit_code", 0) != 0):
            return True
    return False


def write_call(tool: str, call_id: str, action: Json) -> Json:
    """Return the item of a call. `action` is the object that its arguments are."""
    kind, key = _ITEMS[tool]
    return {"type": kind, "call_id": call_id, key: action, "status": "completed"}


def write_output(tool: str, call_id: str, content: str, *, is_error: bool) -> Json:
    """Return the item of an output whose text is `content`."""
    item: Json = {"type": f"{_ITEMS[tool][0]}_output", "call_id": call_id, "output": content}
    if tool == APPLY_PATCH:
        item["status"] = "failed" if is_error else "completed"
    elif tool == SHELL:
        item["output"] = _outputs(content, is_error)
    return item


def _outputs(content: str, is_error: bool) -> Any:
    """Return the array that a text encodes, as it was read; another text becomes the output of one command."""
    try:
        value = loads(content)
    except ValueError:
        value = None
    if type(value) is list and all(type(entry) is dict and "outcome" in entry for entry in value):
        return value
    return [{"stdout": content, "stderr": "", "outcome": {"type": "exit", "exit_code": int(is_error)}}]
