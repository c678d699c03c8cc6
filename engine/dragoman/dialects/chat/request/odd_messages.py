"""Messages of the history that break Chat's rules, as messages that keep them (mapping §8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.chat.request.read_content import (
    ASSISTANT_PARTS,
    INSTRUCTION_PARTS,
    TOOL_PARTS,
    USER_PARTS,
    read_parts,
)
from dragoman.dialects.chat.request.unnamed_calls import RESULT_ROLES
from dragoman.dialects.openai.content_parts import PartReader
from dragoman.dialects.shared.json_fields import arguments_text
from dragoman.dialects.shared.odd_history import item_text, known_content, known_id, known_name, known_role
from dragoman.dialects.shared.placeholders import text_instead
from dragoman.errors import ClientRequestError
from dragoman.losses import Losses

_ROLES: Final = ("user", "assistant", "system", "developer", *RESULT_ROLES)
_READERS: Final = {
    "user": USER_PARTS,
    "assistant": ASSISTANT_PARTS,
    "tool": TOOL_PARTS,
    "function": TOOL_PARTS,
}


def repair(message: Json, number: int) -> Json:
    """Return a message of the history with a known role, readable content, and calls with ids and names."""
    role = known_role(message, _ROLES)
    repaired = {**message, "role": role}
    if role in RESULT_ROLES:
        repaired["tool_call_id"] = known_id(message.get("tool_call_id"))
    content = known_content(message.get("content"))
    if type(content) is list:
        readers = _READERS.get(role, INSTRUCTION_PARTS)
        content = [_repaired_part(part, readers) for part in content]
    elif content is None and role != "assistant":
        content = ""
    calls = repaired.pop("tool_calls", None)
    if calls:
        texts: list[Json] = []
        repaired["tool_calls"] = _repaired_calls(calls, number, texts)
        if texts:
            before = [{"type": "text", "text": content}] if type(content) is str else content or []
            content = [*before, *texts]
    repaired["content"] = content
    return repaired


def _repaired_part(part: Any, readers: Mapping[str, PartReader]) -> Any:
    """Return a part, or a text in its place if it would be rejected."""
    try:
        read_parts([part], readers, (), Losses())
    except ClientRequestError as error:
        return {"type": "text", "text": text_instead(part, error)}
    return part


def _repaired_calls(calls: Any, number: int, texts: list[Json]) -> list[Json]:
    """Return the calls of a message. What is no call is added to `texts`."""
    repaired: list[Json] = []
    for k, call in enumerate(calls if type(calls) is list else [calls]):
        if type(call) is dict:
            repaired.append(_repaired_call(call, number, k))
        elif call is not None:
            texts.append({"type": "text", "text": call if type(call) is str else item_text(call)})
    return repaired


def _repaired_call(call: Json, number: int, k: int) -> Json:
    kind = call.get("type")
    if kind == "custom" and type(body := call.get("custom")) is dict:
        called = {"name": known_name(body.get("name")), "input": arguments_text(body.get("input"))}
        return {"id": known_id(call.get("id")) or f"call_{number}_{k}", "type": "custom", "custom": called}
    body = next((call[key] for key in ("function", kind) if type(key) is str and key in call), None)
    fields = body if type(body) is dict else {}
    arguments = fields.get("arguments") if "arguments" in fields or "name" in fields else body
    called = {"name": known_name(fields.get("name")), "arguments": arguments_text(arguments)}
    return {"id": known_id(call.get("id")) or f"call_{number}_{k}", "type": "function", "function": called}
