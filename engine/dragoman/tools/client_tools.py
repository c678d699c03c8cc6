"""Schemas of the tools that Anthropic's models are trained on and the client runs: shell, editor, memory, computer.

A request names such a tool by its type only. Other models get a function of the same name with the parameters that the
client's own implementation expects, so its calls come back in the form of the client's tool. Sources: the pages "Bash
tool", "Text editor tool", "Memory tool" and "Computer use tool" of Anthropic's documentation, and its SDK's types.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, Tool

CLIENT_TOOLS: Final = ("bash_", "text_editor_", "memory_", "computer_")
"""Beginnings of their types; the rest is the version's date."""

_STRING: Final[Json] = {"type": "string"}
_INTEGER: Final[Json] = {"type": "integer"}
_PATH: Final = "Path of the file or directory."
_LINES: Final[Json] = {
    "type": "array",
    "items": _INTEGER,
    "description": "For `view`: first and last line, from 1; -1 for the end of the file.",
}
_POINT: Final[Json] = {"type": "array", "items": _INTEGER, "description": "x and y in pixels from the upper left."}

# fmt: off
_EDITS: Final[Json] = {
    "path": {**_STRING, "description": _PATH},
    "file_text": {**_STRING, "description": "For `create`: the content of the file."},
    "old_str": {**_STRING, "description": "For `str_replace`: the text to replace; it must occur exactly once."},
    "new_str": {**_STRING, "description": "For `str_replace`: the new text."},
    "insert_line": {**_INTEGER, "description": "For `insert`: the line after which the text goes, or 0."},
    "insert_text": {**_STRING, "description": "For `insert`: the text."},
    "view_range": _LINES,
}
_ACTIONS: Final = (
    "screenshot", "left_click", "right_click", "middle_click", "double_click", "mouse_move", "left_click_drag", "key",
    "type", "cursor_position",
)
_LATER_ACTIONS: Final = (
    "triple_click", "left_mouse_down", "left_mouse_up", "hold_key", "scroll", "wait",
)
# fmt: on


def become_function(tool: Tool) -> None:
    """Change a tool of one of these types to a function, in place."""
    kind = str(tool.native.get("type"))
    beginning = next(each for each in CLIENT_TOOLS if kind.startswith(each))  # clients may write anything behind it
    tool.description, properties, needed = _TOOLS[beginning](tool.native, kind.removeprefix(beginning))
    tool.schema = {"type": "object", "properties": properties, "required": needed}
    tool.kind = "function"
    tool.native = {}


def _bash(_: Json, version: str) -> tuple[str, Json, list[str]]:
    return (
        "Runs commands in a shell that keeps its state between calls. Send a `command`, or `restart` to start anew.",
        {
            "command": {**_STRING, "description": "The command to run."},
            "restart": {"type": "boolean", "description": "True to restart the shell."},
        },
        [],
    )


def _editor(_: Json, version: str) -> tuple[str, Json, list[str]]:
    commands = ["view", "create", "str_replace", "insert"]
    properties = _EDITS
    if version < "20250429":
        commands.append("undo_edit")
    if version < "20250728":  # `insert` took its text as `new_str`
        properties = {key: value for key, value in _EDITS.items() if key != "insert_text"}
        properties["new_str"] = {**_STRING, "description": "For `str_replace` and `insert`: the new text."}
    command = {**_STRING, "enum": commands, "description": "What to do."}
    return "Views, creates and edits text files.", {"command": command, **properties}, ["command", "path"]


def _memory(_: Json, version: str) -> tuple[str, Json, list[str]]:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    command = {**_STRING, "enum": commands, "description": "What to do."}
    moves: Json = {
        "old_path": {**_STRING, "description": "For `rename`: the present path."},
        "new_path": {**_STRING, "description": "For `rename`: the new path."},
    }
    what = "Keeps notes for later conversations as files under /memories. Look there before you begin a task."
    return what, {"command": command, **_EDITS, **moves}, ["command"]


def _computer(native: Json, version: str) -> tuple[str, Json, list[str]]:
    actions = [*_ACTIONS, *(_LATER_ACTIONS if version >= "20250124" else ())]
    properties: Json = {
        "coordinate": {**_POINT, "description": f"Where to act: {_POINT['description']}"},
        "start_coordinate": {**_POINT, "description": "For `left_click_drag`: x and y of its beginning."},
        "text": {**_STRING, "description": "For `type`: the text. For `key` and `hold_key`: the keys, such as ctrl+s."},
    }
    if version >= "20250124":
        directions = ["up", "down", "left", "right"]
        properties |= {
            "scroll_direction": {**_STRING, "enum": directions, "description": "For `scroll`."},
            "scroll_amount": {**_INTEGER, "description": "For `scroll`: clicks of the wheel."},
            "duration": {"type": "number", "description": "For `wait` and `hold_key`: seconds."},
        }
    if native.get("enable_zoom") is True:
        actions.append("zoom")
        properties["region"] = {
            "type": "array",
            "items": _INTEGER,
            "description": "For `zoom`: x and y of two opposite corners.",
        }
    size = [native.get(key) for key in ("display_width_px", "display_height_px")]
    screen = f" The screen has {size[0]} x {size[1]} pixels." if all(type(length) is int for length in size) else ""
    action = {**_STRING, "enum": actions, "description": "What to do."}
    what = f"Uses mouse, keyboard and screen of a computer; `screenshot` shows the screen.{screen}"
    return what, {"action": action, **properties}, ["action"]


_TOOLS: Final[dict[str, Any]] = dict(zip(CLIENT_TOOLS, (_bash, _editor, _memory, _computer), strict=True))
