"""A long request as a coding agent sends it late in a session, in any client dialect, with constant bytes.

Shaped after recorded requests of Claude Code and Codex: long instructions, sixteen tools with schemas, and a history of
calls and results with code in them. It has no reasoning: encrypted reasoning of one vendor cannot be sent to another,
so that gateways would do different work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dragoman_bench.agent_tools import TOOLS

MESSAGES = 218
"""Number of messages: instructions, the first question, and 108 answers with calls, each with its results."""


def agent_request(dialect: str, model: str, messages: int = MESSAGES, *, stream: bool = True) -> bytes:
    """Return the body of a request with about `messages` messages, instructions included. Raises ValueError below 2."""
    if messages < 2:
        raise ValueError(f"an agent's request has 2 messages or more, not {messages}")
    history = tuple(_turns((messages - 2) // 2))
    body: dict[str, Any] = {"model": model, "stream": stream, **_BODIES[dialect](history)}
    if dialect == "chat" and stream:
        body["stream_options"] = {"include_usage": True}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    tool: str
    arguments: dict[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class _Turn:
    text: str
    calls: tuple[_Call, ...]


_TASK = (
    "The nightly export drops rows when a customer's name holds a line break. Find out where, fix it, add a test, and "
    "tell me what else reads that file. Don't touch the importer: “legacy/” is frozen until the release."
)
_TEXTS = (
    "I'll look at how the rows are written before I change anything.",
    "The writer joins the fields itself. Let me see who else calls it.",
    "That test passes for the wrong reason: its fixture has no line break.",
    "Now the same in the reader, so that both sides agree on the quoting.",
    "Running the tests of this package again.",
)


def _turns(count: int) -> Iterator[_Turn]:
    """Return turns that differ from each other, some with two parallel calls."""
    number = 0
    for turn in range(count):
        calls = []
        for _ in range(2 if turn % 8 == 3 else 1):
            calls.append(_call(number))
            number += 1
        yield _Turn(f"{_TEXTS[turn % len(_TEXTS)]} (step {turn + 1})", tuple(calls))


def _call(number: int) -> _Call:
    path = f"src/export/part_{number % 23:02}/rows.py"
    at = f"toolu_{number:024d}"
    match number % 4:
        case 0:
            return _Call(at, "read_file", {"path": path, "offset": number * 7, "limit": 40}, _listing(number))
        case 1:
            command = f"rg -n --max-count 20 'join\\(' {path} | sort"
            return _Call(at, "run_command", {"command": command, "timeout_ms": 60000}, _matches(number))
        case 2:
            old = f'    return ",".join(fields)  # {number}'
            new = f'    return ",".join(quote(field) for field in fields)  # {number}'
            arguments = {"path": path, "old_text": old, "new_text": new, "replace_all": False}
            return _Call(at, "edit_file", arguments, f"{path}: 1 replacement. ✓")
        case _:
            done = f"{number % 90 + 10} passed, {number % 3} skipped in {number % 17}.4{number % 10}s"
            command = f'pytest -q tests/export -k "part_{number % 23:02} and not slow"'
            return _Call(at, "run_command", {"command": command, "description": "Run tests"}, f"{'.' * 48}\n{done}\n")


def _listing(number: int) -> str:
    lines = (
        f'{number * 7 + line:5}\tdef field_{line}(row: Row, *, sep: str = ",") -> str:  # "{line}"\\n'
        if line % 3 == 0
        else f'{number * 7 + line:5}\t    value = row["column_{line}"].strip() or DEFAULTS.get("column_{line}", "–")'
        for line in range(12 + number % 9)
    )
    return "\n".join(lines)


def _matches(number: int) -> str:
    lines = (
        f'src/export/part_{at:02}/rows.py:{at * 3 + number}:    return ",".join(f)' for at in range(8 + number % 5)
    )
    return "\n".join(lines)


_INSTRUCTIONS = "\n\n".join(
    [
        "You are an agent that works with a person on their code, in their checkout, with the tools below.",
        *(
            f"## Rule {number}\n\n{text}"
            for number, text in enumerate(
                (
                    "Read before you write. Quote what you rely on with its path and line, and say when you guess. "
                    "A file that you have not read this session may have changed since.",
                    "Make the smallest change that does what was asked. Keep the style of the file: its naming, its "
                    "quotes, its way of handling errors. Do not reformat what you do not change.",
                    "Run the tests that cover a change before you call it done, and tell the outcome as it was, with "
                    "the failing lines. Never weaken a test to make it pass; never skip one without saying so.",
                    "Ask before anything that cannot be undone: deleting files that are not yours, force-pushing, "
                    "publishing, sending mail, spending money. “Probably fine” is not a permission.",
                    "Keep secrets out of what you print. A key in a file is the person's affair; say that you saw one.",
                    "When calls do not depend on each other, make them at once. When one fails, read what it says "
                    "before you try again, and never try the same thing a third time.",
                )
                * 5,
                1,
            )
        ),
        "Working directory: /home/dev/export\nPlatform: linux\nShell: bash\nToday: 2026-11-21",
    ]
)


def _chat(history: tuple[_Turn, ...]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": _INSTRUCTIONS},
        {"role": "user", "content": _TASK},
    ]
    for turn in history:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
            }
            for call in turn.calls
        ]
        messages.append({"role": "assistant", "content": turn.text, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in turn.calls]
    tools = [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text, schema in TOOLS
    ]
    return {"messages": messages, "tools": tools}


def _messages(history: tuple[_Turn, ...]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": _TASK}]}]
    for turn in history:
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}]
        content += [
            {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments} for call in turn.calls
        ]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": call.result} for call in turn.calls]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    tools = [{"name": name, "description": text, "input_schema": schema} for name, text, schema in TOOLS]
    return {
        "max_tokens": 32000,
        "system": [{"type": "text", "text": _INSTRUCTIONS}],
        "messages": messages,
        "tools": tools,
    }


def _responses(history: tuple[_Turn, ...]) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _TASK}]}
    ]
    for number, turn in enumerate(history):
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        items.append(
            {
                "type": "message",
                "id": f"msg_{number:024d}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
        items += [
            {"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": json.dumps(call.arguments)}
            for call in turn.calls
        ]
        items += [{"type": "function_call_output", "call_id": call.id, "output": call.result} for call in turn.calls]
    tools = [
        {"type": "function", "name": name, "description": text, "parameters": schema, "strict": False}
        for name, text, schema in TOOLS
    ]
    return {"instructions": _INSTRUCTIONS, "input": items, "tools": tools, "store": False}


_BODIES: dict[str, Callable[[tuple[_Turn, ...]], dict[str, Any]]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}
