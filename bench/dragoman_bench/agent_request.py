"""A long request as a coding agent sends it late in a session, in any client dialect, with constant bytes.

Shaped after recorded requests of Claude Code and Codex: long instructions, sixteen tools with schemas, and a history of
calls and results with code in them. `rich` requests also have pictures in results, and reasoning in a vendor's form.
The others have none, since reasoning of one vendor cannot be sent to another, so that gateways would do different work.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dragoman_bench.agent_tools import TOOLS

MESSAGES = 218
"""Number of messages: instructions, the first question, and 108 answers with calls, each with its results."""


def agent_request(
    dialect: str, model: str, messages: int = MESSAGES, *, stream: bool = True, rich: bool = False
) -> bytes:
    """Return the body of a request with about `messages` messages, instructions included. Raises ValueError below 2."""
    if messages < 2:
        raise ValueError(f"an agent's request has 2 messages or more, not {messages}")
    history = tuple(_turns((messages - 2) // 2, rich=rich))
    if dialect == "generate":  # the model and the choice of a stream are in the path
        return json.dumps(_generate(history), ensure_ascii=False, separators=(",", ":")).encode()
    body: dict[str, Any] = {"model": model, "stream": stream, **_BODIES[dialect](history)}
    if rich:
        body |= _REASONING[dialect]
    if dialect == "chat" and stream:
        body["stream_options"] = {"include_usage": True}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    tool: str
    arguments: dict[str, Any]
    result: str
    picture: str = ""
    """A PNG in base64, after the result's text."""


@dataclass(frozen=True, slots=True)
class _Turn:
    text: str
    calls: tuple[_Call, ...]
    reasoning: str = ""


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


_REASONS = (
    "The rows are joined by hand, so a quote inside a field ends it. I should see every place that joins fields before "
    "I choose where to quote; otherwise the importer reads one thing and the export writes another.\n\n"
)
_REASONING: dict[str, dict[str, Any]] = {
    "chat": {"reasoning_effort": "high"},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 16000}},
    "responses": {"reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
}
_PICTURE_BYTES = 24_000
_PICTURE_EVERY = 32
_REASONING_EVERY = 4


def _picture(number: int) -> str:
    """Return a PNG's first bytes and noise, in base64: gateways pass pictures on without decoding them."""
    noise = random.Random(number).randbytes(_PICTURE_BYTES)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + noise).decode()


def _opaque(number: int) -> str:
    """Return what stands for a vendor's signature or encrypted reasoning."""
    return base64.b64encode(random.Random(number).randbytes(600)).decode()


def _turns(count: int, *, rich: bool) -> Iterator[_Turn]:
    """Return turns that differ from each other, some with two parallel calls."""
    number = 0
    for turn in range(count):
        calls = []
        for _ in range(2 if turn % 8 == 3 else 1):
            call = _call(number)
            shown = rich and number % _PICTURE_EVERY == _PICTURE_EVERY // 2
            calls.append(replace(call, picture=_picture(number)) if shown else call)
            number += 1
        reasoning = f"{_REASONS}Step {turn + 1}." if rich and turn % _REASONING_EVERY == 0 else ""
        yield _Turn(f"{_TEXTS[turn % len(_TEXTS)]} (step {turn + 1})", tuple(calls), reasoning)


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
        answer = {"role": "assistant", "content": turn.text, "tool_calls": calls}
        messages.append({**answer, "reasoning_content": turn.reasoning} if turn.reasoning else answer)
        messages += [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in turn.calls]
        pictures = [{"type": "image_url", "image_url": {"url": _url(call)}} for call in turn.calls if call.picture]
        messages += [{"role": "user", "content": pictures}] if pictures else []  # a tool's message has text only
    tools = [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text, schema in TOOLS
    ]
    return {"messages": messages, "tools": tools}


def _url(call: _Call) -> str:
    return f"data:image/png;base64,{call.picture}"


def _messages(history: tuple[_Turn, ...]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": _TASK}]}]
    for number, turn in enumerate(history):
        content: list[dict[str, Any]] = []
        if turn.reasoning:
            content.append({"type": "thinking", "thinking": turn.reasoning, "signature": _opaque(number)})
        content.append({"type": "text", "text": turn.text})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments} for call in turn.calls
        ]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": _result_blocks(call)} for call in turn.calls
        ]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    tools = [{"name": name, "description": text, "input_schema": schema} for name, text, schema in TOOLS]
    return {
        "max_tokens": 32000,
        "system": [{"type": "text", "text": _INSTRUCTIONS}],
        "messages": messages,
        "tools": tools,
    }


def _result_blocks(call: _Call) -> str | list[dict[str, Any]]:
    if not call.picture:
        return call.result
    source = {"type": "base64", "media_type": "image/png", "data": call.picture}
    return [{"type": "text", "text": call.result}, {"type": "image", "source": source}]


def _result_parts(call: _Call) -> str | list[dict[str, Any]]:
    if not call.picture:
        return call.result
    return [{"type": "input_text", "text": call.result}, {"type": "input_image", "image_url": _url(call)}]


def _responses(history: tuple[_Turn, ...]) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _TASK}]}
    ]
    for number, turn in enumerate(history):
        if turn.reasoning:
            summary = [{"type": "summary_text", "text": turn.reasoning}]
            reasoning = {"type": "reasoning", "id": f"rs_{number:024d}", "summary": summary}
            items.append({**reasoning, "encrypted_content": _opaque(number)})
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
        items += [
            {"type": "function_call_output", "call_id": call.id, "output": _result_parts(call)} for call in turn.calls
        ]
    tools = [
        {"type": "function", "name": name, "description": text, "parameters": schema, "strict": False}
        for name, text, schema in TOOLS
    ]
    return {"instructions": _INSTRUCTIONS, "input": items, "tools": tools, "store": False}


def _generate(history: tuple[_Turn, ...]) -> dict[str, Any]:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": _TASK}]}]
    for turn in history:
        calls = [{"functionCall": {"id": call.id, "name": call.tool, "args": call.arguments}} for call in turn.calls]
        results = [
            {"functionResponse": {"id": call.id, "name": call.tool, "response": {"output": call.result}}}
            for call in turn.calls
        ]
        contents += [{"role": "model", "parts": [{"text": turn.text}, *calls]}, {"role": "user", "parts": results}]
    functions = [{"name": name, "description": text, "parametersJsonSchema": schema} for name, text, schema in TOOLS]
    return {
        "systemInstruction": {"parts": [{"text": _INSTRUCTIONS}]},
        "tools": [{"functionDeclarations": functions}],
        "contents": contents,
    }


_BODIES: dict[str, Callable[[tuple[_Turn, ...]], dict[str, Any]]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}
