"""The requests of Claude Code, Codex and opencode in the session: their recorded requests, with another history.

A client brings back what it was given as it was given, and reports results, remarks and instructions in its own way.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conversations.script import PNG, Act, Step
from conversations.upstreams import Call

Json = dict[str, Any]

FIXTURES = Path(__file__).parents[1] / "fixtures"
_CACHE = {"type": "ephemeral"}
_PICTURE = f"data:image/png;base64,{PNG}"


@dataclass(frozen=True, slots=True)
class Client:
    """`recorded` is its fixture, `opening` how many of its messages come before the model's first answer.

    `call` is a call as the model makes it for this client's tools; `kept` the history's entries of a reply; `said`
    those of what the client states next; `moving` gives the newest entries what only they have.
    """

    dialect: str
    recorded: str
    opening: Callable[[Json], bool]
    call: Callable[[Act], Call]
    kept: Callable[[Json], list[Json]]
    stated: Callable[[Step, list[Call]], list[Json]]
    moving: Callable[[list[Json]], list[Json]]

    @property
    def history(self) -> str:
        """The field that the history is in."""
        return "input" if self.dialect == "responses" else "messages"

    def begin(self) -> tuple[Json, list[Json]]:
        """The request without its history, and the history before the model's first answer."""
        body = copy.deepcopy(_recorded(self.recorded))
        history = body.pop(self.history)
        return body, [entry for entry in history if self.opening(entry)]


@cache
def _recorded(name: str) -> Json:
    body: Json = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["request"]["body"]
    return body


def _given(entry: Json) -> bool:
    return entry.get("role") in ("system", "developer", "user") and "tool_use_id" not in json.dumps(entry)


def _still(history: list[Json]) -> list[Json]:
    return history


# --- Claude Code ------------------------------------------------------------------------------------------------------


def _claude_call(act: Act) -> Call:
    path = f"/home/dev/{act.text}"
    match act.kind:
        case "look":
            return Call(f"toolu_{act.name}", "Read", json.dumps({"file_path": path}))
        case "edit":
            change = {"file_path": path, "old_string": "a “b”", "new_string": "b", "replace_all": False}
            return Call(f"toolu_{act.name}", "Edit", json.dumps(change, ensure_ascii=False))
        case _:
            command = {"command": f"rg -n 'join\\(' {act.text} | sort", "description": "Search"}
            return Call(f"toolu_{act.name}", "Bash", json.dumps(command))


def _claude_kept(reply: Json) -> list[Json]:
    return [{"role": "assistant", "content": reply["content"]}]


def _claude_stated(step: Step, calls: list[Call]) -> list[Json]:
    content: list[Json] = []
    for act, call in zip(step.acts, calls, strict=True):
        result: Json = {"tool_use_id": call.id, "type": "tool_result", "content": act.result}
        if act.kind == "look":
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            result["content"] = [{"type": "text", "text": act.result}, {"type": "image", "source": source}]
        elif act.kind == "run":
            result["is_error"] = act.failed
        content.append(result)
    if step.remark:
        content.append({"type": "text", "text": step.remark})
    stated: list[Json] = [{"role": "user", "content": content}]
    return [*stated, {"role": "system", "content": step.instruction}] if step.instruction else stated


def _claude_moving(history: list[Json]) -> list[Json]:
    """The newest block has a cache mark, and an instruction is an array of blocks while it is the newest."""
    last = dict(history[-1])
    if type(last["content"]) is str:
        last["content"] = [{"type": "text", "text": last["content"], "cache_control": _CACHE}]
    else:
        last["content"] = [*last["content"][:-1], {**last["content"][-1], "cache_control": _CACHE}]
    return [*history[:-1], last]


# --- Codex ------------------------------------------------------------------------------------------------------------


def _codex_call(act: Act) -> Call:
    match act.kind:
        case "look":
            return Call(f"call_{act.name}", "view_image", json.dumps({"path": f"/home/dev/{act.text}"}))
        case "edit":
            patch = f"*** Begin Patch\n*** Update File: {act.text}\n-a “b”\n+b\n*** End Patch\n"
            return Call(f"call_{act.name}", "apply_patch", patch, custom=True)
        case _:
            return Call(f"call_{act.name}", "exec_command", json.dumps({"cmd": f"rg -n 'join\\(' {act.text}"}))


def _codex_kept(reply: Json) -> list[Json]:
    return list(reply["output"])


def _codex_stated(step: Step, calls: list[Call]) -> list[Json]:
    stated: list[Json] = []
    for act, call in zip(step.acts, calls, strict=True):
        noted = f"Process exited with code {int(act.failed)}\nOutput:\n{act.result}"
        output: Any = noted
        if act.kind == "look":
            image = {"type": "input_image", "image_url": _PICTURE, "detail": "high"}
            output = [{"type": "input_text", "text": act.result}, image]
        kind = "custom_tool_call_output" if call.custom else "function_call_output"
        stated.append({"type": kind, "id": f"fco_{call.id}", "call_id": call.id, "output": output})
    if step.remark:
        stated.append(_codex_message(f"msg_r{step.number}", "user", step.remark))
    if step.instruction:
        stated.append(_codex_message(f"msg_i{step.number}", "developer", step.instruction))
    return stated


def _codex_message(name: str, role: str, text: str) -> Json:
    return {"type": "message", "id": name, "role": role, "content": [{"type": "input_text", "text": text}]}


# --- opencode ---------------------------------------------------------------------------------------------------------


def _opencode_call(act: Act) -> Call:
    path = f"/home/dev/{act.text}"
    match act.kind:
        case "look":
            return Call(f"call_{act.name}", "read", json.dumps({"filePath": path}))
        case "edit":
            change = {"filePath": path, "oldString": "a “b”", "newString": "b"}
            return Call(f"call_{act.name}", "edit", json.dumps(change, ensure_ascii=False))
        case _:
            return Call(f"call_{act.name}", "bash", json.dumps({"command": f"rg -n 'join\\(' {act.text}"}))


def _opencode_kept(reply: Json) -> list[Json]:
    message = reply["choices"][0]["message"]
    kept = {name: message[name] for name in ("reasoning_content", "tool_calls") if message.get(name)}
    return [{"role": "assistant", "content": message["content"] or "", **kept}]


def _opencode_stated(step: Step, calls: list[Call]) -> list[Json]:
    """A Chat result is a text: pictures follow the results, in a message of the user's."""
    stated: list[Json] = []
    for act, call in zip(step.acts, calls, strict=True):
        stated.append({"role": "tool", "tool_call_id": call.id, "content": act.result})
    pictures = [{"type": "image_url", "image_url": {"url": _PICTURE}} for act in step.acts if act.kind == "look"]
    if pictures:
        noted = {"type": "text", "text": "Attached media from tool result:"}
        stated.append({"role": "user", "content": [noted, *pictures]})
    if step.remark:
        stated.append({"role": "user", "content": step.remark})
    if step.instruction:
        stated.append({"role": "system", "content": step.instruction})
    return stated


CLIENTS = {
    "messages": Client(
        "messages", "claude-code_tool_2", _given, _claude_call, _claude_kept, _claude_stated, _claude_moving
    ),
    "responses": Client("responses", "codex_patch-tool_2", _given, _codex_call, _codex_kept, _codex_stated, _still),
    "chat": Client("chat", "opencode-chat_tool_3", _given, _opencode_call, _opencode_kept, _opencode_stated, _still),
}
"""By dialect."""
