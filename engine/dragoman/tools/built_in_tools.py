"""OpenAI's built-in tools that the client runs: `shell`, `local_shell` and `apply_patch` (mapping §6.1).

A request names such a tool by its type only, and calls of it are items of their own. Other models get a function of the
same name, whose arguments are the fields of the item's `action` or `operation`. Sources: the pages "Shell", "Local
shell" and "Apply patch" of OpenAI's documentation, and the types of its SDK.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dragoman.canonical.request import Json, Tool
from dragoman.dialects import Dialect
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import loads

ORIGIN: Final = next(dialect.value for dialect in Dialect if dialect.facts.agent_tools)
"""The dialect that has these tools."""
SHELL: Final = "shell"
LOCAL_SHELL: Final = "local_shell"
APPLY_PATCH: Final = "apply_patch"
BUILT_IN_TOOLS: Final = frozenset({SHELL, LOCAL_SHELL, APPLY_PATCH})
"""Their types, which are their names too."""

_STRING: Final[Json] = {"type": "string"}
_STRINGS: Final[Json] = {"type": "array", "items": _STRING}
_INTEGER: Final[Json] = {"type": "integer"}
_TIMEOUT: Final[Json] = {**_INTEGER, "description": "Most milliseconds that the command may take."}
_OPERATIONS: Final = ("create_file", "update_file", "delete_file")
_DIFF: Final = (
    "For `create_file`: every line of the new file, each after a `+`. For `update_file`: sections that begin with a "
    "line `@@`, or `@@ ` and a line above the change such as a function's head; in a section, unchanged lines begin "
    "with a space, removed ones with `-`, added ones with `+`, with three unchanged lines around each change. There "
    "are no line numbers and no file headers."
)

_PARAMETERS: Final[dict[str, Json]] = {
    SHELL: {
        "commands": {**_STRINGS, "description": "The commands to run, each a line for the shell."},
        "timeout_ms": _TIMEOUT,
        "max_output_length": {**_INTEGER, "description": "Most characters to return of the output of each command."},
    },
    LOCAL_SHELL: {
        "command": {**_STRINGS, "description": 'The program and its arguments, such as ["bash", "-lc", "ls"].'},
        "working_directory": {**_STRING, "description": "The directory to run it in."},
        "env": {
            "type": "object",
            "additionalProperties": _STRING,
            "description": "Environment variables to set.",
        },
        "timeout_ms": _TIMEOUT,
        "user": {**_STRING, "description": "The user to run it as."},
    },
    APPLY_PATCH: {
        "type": {**_STRING, "enum": [*_OPERATIONS], "description": "What to do with the file."},
        "path": {**_STRING, "description": "Path of the file, relative to the root of the workspace."},
        "diff": {**_STRING, "description": _DIFF},
    },
}
_REQUIRED: Final = {SHELL: ["commands"], LOCAL_SHELL: ["command"], APPLY_PATCH: ["type", "path"]}
_DESCRIPTIONS: Final = {
    SHELL: "Runs commands in a shell, and returns the output and the exit code of each.",
    LOCAL_SHELL: "Runs a program on the user's computer, and returns its output.",
    APPLY_PATCH: "Creates, updates or deletes one file.",
}
_TYPES: Final[dict[str, type[Any]]] = {
    "timeout_ms": int,
    "max_output_length": int,
    "working_directory": str,
    "user": str,
}
"""Types of the optional arguments that are left out if they have another one."""


def built_in_names(tools: Iterable[Tool]) -> frozenset[str]:
    """Return the names of the built-in tools among the tools of a request."""
    return frozenset([tool.name for tool in tools if tool.kind == "typed" and tool.origin == ORIGIN])


def become_built_in_function(tool: Tool) -> None:
    """Change a built-in tool to a function, in place."""
    name = tool.name
    parts = [_DESCRIPTIONS[name], *_skills(tool.native.get("environment"))]
    tool.description = "\n".join(parts)
    tool.schema = {"type": "object", "properties": _PARAMETERS[name], "required": _REQUIRED[name]}
    tool.kind = "function"
    tool.native = {}


def _skills(environment: Any) -> list[str]:
    """Return lines that describe the skills of a local environment."""
    skills = environment.get("skills") if type(environment) is dict else None
    if type(skills) is not list or not skills:
        return []
    known = [skill for skill in skills if type(skill) is dict]
    lines = [f"- {skill.get('name')} ({skill.get('path')}): {skill.get('description')}" for skill in known]
    return ["Skills, each described by the file SKILL.md in its directory:", *lines]


def read_action(name: str, arguments: str, losses: Losses) -> Json:
    """Return the `action` or `operation` that the arguments of a built-in tool's call are.

    Raises UpstreamProtocolError for arguments without what the client needs to run the call.
    """
    try:
        given = loads(arguments)
    except ValueError:
        given = None
    if type(given) is dict and len(given) == 1 and type(inner := given.get("action", given.get("operation"))) is dict:
        given = inner
    if type(given) is not dict:
        raise _missing(name, "a JSON object")
    action = _MAKERS[name](name, given, losses)
    for key, kind in _TYPES.items():
        value = given.get(key)
        if type(value) is kind and key in _PARAMETERS[name]:
            action[key] = value
    if any(value is not None and key not in action for key, value in given.items()):
        losses.add(LossCode.TYPED_TOOL, name, "further arguments of the call were left out")
    return action


def _shell(name: str, given: Json, losses: Losses) -> Json:
    commands = given.get("commands")
    if type(commands) is str and commands:
        losses.add(LossCode.REPLY_REPAIRED, name, "one command came without its array")
        commands = [commands]
    return {"commands": _texts(name, "commands", commands)}


def _local_shell(name: str, given: Json, losses: Losses) -> Json:
    command = given.get("command")
    if type(command) is str and command:
        losses.add(LossCode.REPLY_REPAIRED, name, "a line for the shell was given to bash")
        command = ["bash", "-lc", command]
    env = given.get("env")
    known = {key: value for key, value in env.items() if type(value) is str} if type(env) is dict else {}
    return {"type": "exec", "command": _texts(name, "command", command), "env": known}


def _apply_patch(name: str, given: Json, losses: Losses) -> Json:
    kind, path, diff = (given.get(key) for key in ("type", "path", "diff"))
    if kind not in _OPERATIONS:
        raise _missing(name, f"a type ({', '.join(_OPERATIONS)})")
    if type(path) is not str or not path:
        raise _missing(name, "a path")
    operation: Json = {"type": kind, "path": path}
    if kind != "delete_file":
        if type(diff) is not str:
            raise _missing(name, "a diff")
        operation["diff"] = diff
    return operation


def _texts(name: str, key: str, value: Any) -> list[str]:
    if type(value) is not list or not value or not all(type(entry) is str for entry in value):
        raise _missing(name, f"{key} (an array of strings)")
    return value


def _missing(name: str, what: str) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"upstream called the built-in tool {name!r} without {what}")


_MAKERS: Final = {SHELL: _shell, LOCAL_SHELL: _local_shell, APPLY_PATCH: _apply_patch}
