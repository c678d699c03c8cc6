"""Messages of a history that break their dialect's rules (mapping §8.4).

Clients send their whole history with each request, so a 400 for one old message would end the session. The reader of a
dialect tries again with a message that keeps the rules and has the same texts. The current turn is rejected instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from dragoman.canonical.request import Json
from dragoman.errors import ClientRequestError
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import dumps

T = TypeVar("T")

_LONGEST_BLOB: Final = 1024
"""Longest string without blanks that is repeated in a text, in characters. Longer ones are data."""
_BLOB: Final = re.compile(r"[^\s]+\Z")
LEFT_OUT: Final = frozenset({"type", "id", "call_id", "status", "encrypted_content", "created_by", "agent", "caller"})
"""Fields of items that mean nothing to a model."""
_ROLES: Final = {"model": "assistant", "ai": "assistant", "human": "user"}
"""Words of other vendors for the roles."""
_NO_NAME: Final = "unnamed_tool"


class OddHistory:
    """Reads the messages of one conversation that its reader could not read.

    Args:
        messages: the client's messages, which are only read.
        losses: gets a row for each message that is changed.
        repair: returns a message that keeps the rules, for one that does not, which is an object that is not empty, and
            its number.
    """

    __slots__ = ("_current", "_losses", "_messages", "_repair")

    def __init__(self, messages: list[Any], losses: Losses, repair: Callable[[Json, int], Json]) -> None:
        self._messages, self._losses, self._repair = messages, losses, repair
        self._current: int | None = None
        """The index at which the current turn begins; None before it is searched for."""

    def read(self, message: Any, number: int, error: ClientRequestError, read: Callable[[Json, int], T]) -> T | None:
        """Return what is read in place of a message of the history; None if it is left out.

        Raises `error` for a message of the current turn, and if losses are rejected.

        Args:
            message: what the client sent.
            number: its index.
            error: why it could not be read.
            read: the reader of a message with this index.
        """
        if self._current is None:
            self._current = current_turn(self._messages)
        if self._losses.strict or number >= self._current:
            raise error
        at = ("messages", number)
        problem = error.with_traceback(None).problem
        self._losses.forget(at)
        if not message:
            self._losses.add(LossCode.ITEM_SHAPE, at, f"left out: {problem}")
            return None
        if type(message) is dict:
            repaired = self._repair(message, number)
        else:
            repaired = {"role": "user", "content": message if type(message) is str else item_text(message)}
        found = self._attempt(repaired, message, number, read)
        self._losses.add(LossCode.ITEM_SHAPE, at, f"sent as far as it can be read: {problem}")
        return found

    def _attempt(self, repaired: Json, message: Any, number: int, read: Callable[[Json, int], T]) -> T:
        """Read without each field that an error names; at last, read the whole message as a text."""
        while True:
            try:
                return read(repaired, number)
            except ClientRequestError as error:
                self._losses.forget(("messages", number))
                key = _field(error, number)
                if key not in repaired or key == "role" or key == "content":
                    break
                repaired = {name: value for name, value in repaired.items() if name != key}
        return read({"role": "user", "content": item_text(message)}, number)


def _field(error: ClientRequestError, number: int) -> str | None:
    """Return the field of the message that an error names, or None."""
    message, _, rest = (error.failure.param or "").partition(".")
    return rest.partition(".")[0].partition("[")[0] if message == f"messages[{number}]" else None


def current_turn(messages: list[Any]) -> int:
    """Return the index of the first message behind the assistant's last one that is followed by another; 0 if none."""
    for index in range(len(messages) - 2, -1, -1):
        message = messages[index]
        if type(message) is dict and message.get("role") == "assistant":
            return index + 1
    return 0


def known_role(message: Json, roles: tuple[str, ...]) -> str:
    """Return the role of a message: one of `roles`, `assistant` for one with calls, `user` for any other."""
    role = message.get("role")
    if type(role) is str and role in roles:
        return role
    role = _ROLES.get(role.lower(), "") if type(role) is str else ""
    return role or ("assistant" if message.get("tool_calls") else "user")


def known_content(content: Any) -> Any:
    """Return content as null, a string or an array: an object becomes the only part, any other value its JSON."""
    if type(content) is dict:
        return [content]
    if content is None or type(content) is str or type(content) is list:
        return content
    return dumps(content).decode()


def known_id(call_id: Any) -> str:
    """Return an id as a string; that of a number is its digits, that of any other value is empty."""
    if type(call_id) is int:
        return str(call_id)
    return call_id if type(call_id) is str else ""


def known_name(name: Any) -> str:
    """Return the name of a tool, or one that stands for a tool without a name. Names begin with a letter."""
    if type(name) is int:
        return f"tool_{name}"
    return name if type(name) is str and name else _NO_NAME


def item_text(item: Any) -> str:
    """Return any item as text: its type, and its other fields as JSON."""
    if type(item) is not dict:
        return dumps(short(item)).decode()
    fields = {key: value for key, value in item.items() if key not in LEFT_OUT and value is not None}
    kind = item.get("type")
    return f"[{kind if type(kind) is str else 'item'}] {dumps(short(fields)).decode()}"


def short(value: Any) -> Any:
    """Return a JSON value without long data, such as pictures."""
    if type(value) is str:
        blob = len(value) > _LONGEST_BLOB and _BLOB.match(value) is not None
        return f"[{len(value)} characters of data]" if blob else value
    if type(value) is list:
        return [short(entry) for entry in value]
    if type(value) is dict:
        return {key: short(entry) for key, entry in value.items()}
    return value


def has_prose(value: Any) -> bool:
    """True if there is a string with a blank in a JSON value: a text for people, and no id, address or data."""
    if type(value) is str:
        return " " in value
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    return any(has_prose(entry) for entry in value)
