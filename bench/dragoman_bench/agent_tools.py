"""Sixteen tools of a coding agent: names, descriptions and JSON schemas, some thirteen kilobytes."""

from __future__ import annotations

from typing import Any


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": 0}


def _words(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _object(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_FLAG = {"type": "boolean", "description": "Off by default.", "default": False}
_LIST = {"type": "array", "items": {"type": "string"}, "description": "One per element; order is kept."}
_TODO = {"text": _text("What is to be done."), "state": _words("open", "active", "done"), "owner": _text("If not you.")}

_PARAMETERS: dict[str, dict[str, Any]] = {
    "answers": _LIST,
    "background": _FLAG,
    "blocked": _LIST,
    "cell": _number("Its number, from 0."),
    "command": _text("The command, as typed."),
    "context": _number("Lines shown before and after each match."),
    "depth": _number("Levels below the folder."),
    "description": _text("Five words on what it does, for the person who watches."),
    "force": _FLAG,
    "globs": _LIST,
    "id": _text("Of the command, as it was told when it started."),
    "kind": _words("general", "explore", "review"),
    "limit": _number("How many lines."),
    "mode": _words("replace", "insert", "delete"),
    "new_text": _text("What shall be there."),
    "offset": _number("The first line, from 1."),
    "old_text": _text("What is there now, exactly, with its indentation."),
    "path": _text("Relative to the working directory. Never outside of it."),
    "pattern": _text("As in gitignore for names; Rust syntax for text."),
    "plan": _text("In Markdown, the files to be touched first."),
    "query": _text("Words, as one would type them."),
    "question": _text("One, that can be answered from what you give."),
    "replace_all": _FLAG,
    "source": _text("The new source of the cell."),
    "task": _text("All it needs to know: it sees nothing of this conversation."),
    "text": _text("All of the file, its last line break included."),
    "timeout_ms": _number("Milliseconds, 600,000 at most."),
    "todos": {"type": "array", "description": "The whole list.", "items": _object(["text", "state"], _TODO)},
    "url": {"type": "string", "format": "uri", "description": "With its scheme."},
}
_HOW = (
    " Give arguments as plain JSON. The result is text; it is cut after 30,000 characters, and says so where it was. "
    "Errors start with `error:` and tell what to do about them. Prefer this to a shell command that does the same: its "
    "result is shorter, it needs no quoting, and the person sees it as what it is. Calls that only read may be made "
    "several at once; calls that write are carried out in the order in which they were given."
)
_TOOLS = (
    ("read_file", "Read lines of a file.", "path! offset limit"),
    ("edit_file", "Replace a text that occurs exactly once in a file.", "path! old_text! new_text! replace_all"),
    ("write_file", "Write a whole file.", "path! text!"),
    ("run_command", "Run a command in bash.", "command! description timeout_ms background"),
    ("read_output", "Read what a background command printed since the last look.", "id!"),
    ("stop_command", "Stop a background command.", "id! force"),
    ("find_files", "Find files by glob.", "pattern! path"),
    ("search_text", "Search a regular expression in files.", "pattern! globs context path"),
    ("list_folder", "List a folder.", "path! depth globs"),
    ("fetch_page", "Fetch a page and answer a question about it.", "url! question"),
    ("search_web", "Search the web.", "query! globs blocked"),
    ("write_todos", "Keep the list of what is to be done.", "todos!"),
    ("ask_person", "Ask the person, with two to four answers to choose from.", "question! answers!"),
    ("start_agent", "Give a task to another agent, and get its report.", "task! kind background"),
    ("show_plan", "Show the plan before carrying it out.", "plan!"),
    ("edit_notebook", "Replace, insert or delete a cell of a notebook.", "path! cell! source mode"),
)


def _schema(parameters: str) -> dict[str, Any]:
    names = parameters.split()
    required = [name[:-1] for name in names if name.endswith("!")]
    return _object(required, {name.rstrip("!"): _PARAMETERS[name.rstrip("!")] for name in names})


TOOLS: tuple[tuple[str, str, dict[str, Any]], ...] = tuple(
    (name, what + _HOW, _schema(parameters)) for name, what, parameters in _TOOLS
)
"""Name, description and schema of the arguments; a mark above denotes required ones."""
