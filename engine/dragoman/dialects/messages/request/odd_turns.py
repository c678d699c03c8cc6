"""Messages of the history that break the rules of Messages, as messages that keep them (mapping §8.4)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.messages.request.read_content import ASSISTANT, INSTRUCTION, USER, read_blocks
from dragoman.dialects.shared.odd_history import known_content, known_id, known_name, known_role
from dragoman.dialects.shared.placeholders import text_instead
from dragoman.errors import ClientRequestError
from dragoman.losses import Losses

_ROLES: Final = ("user", "assistant", "system")
_TABLES: Final = {"user": USER, "assistant": ASSISTANT}
_CHANGES: Final = ("tool_addition", "tool_removal")


class OddTurns:
    """Repairs the messages of one conversation, whose messages it only reads."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages

    def repair(self, message: Json, number: int) -> Json:
        """Return a message of the history with a known role and readable blocks, and calls and results with ids."""
        role = "system" if message.get("role") == "developer" else known_role(message, _ROLES)
        content = known_content(message.get("content"))
        if type(content) is list:
            waiting = iter(self._waiting(number, content))
            content = [self._block(block, role, number, k, waiting) for k, block in enumerate(content)]
        return {**message, "role": role, "content": "" if content is None else content}

    def _block(self, block: Any, role: str, number: int, k: int, waiting: Any) -> Any:
        """Return a block, or what takes its place if it would be rejected."""
        kind = block.get("type") if type(block) is dict else None
        if role == "system" and kind in _CHANGES:
            return block
        error = _problem(block, role)
        if error is None:
            return block
        other = block
        if kind == "tool_use" and role == "assistant":
            other = {
                "type": kind,
                "id": _id_of(block, number, k),
                "name": known_name(block.get("name")),
                "input": block.get("input"),
            }
        elif kind == "tool_result" and role == "user":
            call_id = known_id(block.get("tool_use_id")) or next(waiting, f"call_of_{number}_{k}")
            failed = bool(block.get("is_error"))
            other = {"type": kind, "tool_use_id": call_id, "content": block.get("content"), "is_error": failed}
        if other is not block and _problem(other, role) is None:
            return other
        return {"type": "text", "text": text_instead(block, error)}

    def _waiting(self, number: int, content: list[Any]) -> list[str]:
        """Return the ids of the calls of the message before that no result in `content` names."""
        named = {known_id(block.get("tool_use_id")) for block in content if type(block) is dict}
        before = self._messages[number - 1] if number else None
        blocks = before.get("content") if type(before) is dict and before.get("role") == "assistant" else None
        ids = [
            _id_of(block, number - 1, k)
            for k, block in enumerate(blocks if type(blocks) is list else ())
            if type(block) is dict and block.get("type") == "tool_use"
        ]
        return [call_id for call_id in ids if call_id not in named]


def _id_of(block: Json, number: int, k: int) -> str:
    return known_id(block.get("id")) or f"call_{number}_{k}"


def _problem(block: Any, role: str) -> ClientRequestError | None:
    """Return the error with which the reader rejects a block, or None."""
    try:
        read_blocks([block], _TABLES.get(role, INSTRUCTION), "this message", (), Losses(), [])
    except ClientRequestError as error:
        return error.with_traceback(None)
    return None
