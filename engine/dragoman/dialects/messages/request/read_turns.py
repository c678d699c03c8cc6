"""Reads the instructions and messages of a Messages request into turns (mapping §3, §6.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dragoman.canonical.parts import Part, Text
from dragoman.canonical.request import Json, Tool
from dragoman.canonical.turn import Turn, compact_turn
from dragoman.dialects.messages.request.odd_turns import OddTurns
from dragoman.dialects.messages.request.read_compact import read_compact_turns
from dragoman.dialects.messages.request.read_content import ASSISTANT, INSTRUCTION, USER, read_blocks
from dragoman.dialects.messages.request.read_tools import change_tools
from dragoman.dialects.shared.json_fields import drop_unknown, kind_of, one_of, optional, required
from dragoman.dialects.shared.odd_history import OddHistory
from dragoman.errors import ClientRequestError, Path, TooMany
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses

_MESSAGE_KEYS: Final = frozenset({"role", "content"})
_SYSTEM_KEYS: Final = frozenset({"role", "content", "output_config", "clear_at"})
_CHANGES: Final = ("tool_addition", "tool_removal")


def read_turns(
    body: Json, tools: list[Tool], effort: str | None, losses: Losses, limits: Limits
) -> tuple[list[Turn], str | None]:
    """Return the turns of `system` and `messages`, and the effort in effect at the end. Messages may change `tools`."""
    messages = required(body, "messages", list)
    if not messages:
        raise ClientRequestError(("messages",), "at least one message is required")
    if len(messages) > limits.messages:
        raise TooMany(("messages",), f"{len(messages)} messages", "messages", limits.messages)
    turns: list[Turn] = []
    system = body.get("system")
    if type(system) is list and system:
        parts = read_blocks(system, INSTRUCTION, "the system prompt", ("system",), losses)
        turns.append(Turn("instruction", parts, ("system",), "top"))
    elif system:
        turns.append(compact_turn("instruction", _string(system, ("system",)), ("system",), "top", True))
    numbered = enumerate(messages)  # shared with `read_compact_turns`, which consumes the messages that it can read
    other = read_compact_turns(numbered, turns, losses)
    if other is None:  # nearly all conversations of people, and many of agents
        return turns, effort
    reader = _TurnReader(tools, effort, losses)
    reader.read(other, numbered, messages, turns)
    return turns, reader.effort


class _TurnReader:
    """Reads messages that have no usual form into turns, and those between them.

    Messages may change the tools and the effort. After `read`, `tools` and `effort` are those in effect at the end.
    """

    def __init__(self, tools: list[Tool], effort: str | None, losses: Losses) -> None:
        self.tools, self.effort, self._losses = tools, effort, losses
        self._changed: dict[str, Tool] | None = None
        """The tools by name, from the first message on that changes them."""
        self._messages: list[Any] = []
        self._last_user: int | None = None
        """The index of the last message of the user; None before it is searched for."""

    def read(
        self,
        other: tuple[int, Any] | None,
        numbered: Iterator[tuple[int, Any]],
        messages: list[Any],
        turns: list[Turn],
    ) -> None:
        """Append a turn for each of `messages` from `other` on, its number and the message; `numbered` has the next."""
        odd: OddHistory | None = None
        self._messages = messages
        while other is not None:
            index, message = other
            try:
                self._message(message, index, turns)
            except ClientRequestError as error:
                if odd is None:
                    odd = OddHistory(messages, self._losses, OddTurns(messages).repair)
                odd.read(message, index, error, lambda repaired, number: self._message(repaired, number, turns))
            other = read_compact_turns(numbered, turns, self._losses)
        if self._changed is not None:
            self.tools[:] = self._changed.values()

    def _message(self, message: Any, index: int, turns: list[Turn]) -> None:
        at = ("messages", index)
        if type(message) is not dict:
            raise ClientRequestError(at, f"expected a message (an object), got {kind_of(message)}")
        role = message.get("role")
        if role == "user":
            if len(message) > 2:
                drop_unknown(message, _MESSAGE_KEYS, self._losses, at)
            parts, plain = self._content(message.get("content"), USER, "a user message", (*at, "content"))
            turns.append(Turn("user", parts, at, "", plain))
        elif role == "assistant":
            if len(message) > 2:
                drop_unknown(message, _MESSAGE_KEYS, self._losses, at)
            self._assistant(message, at, turns)
        elif role == "system":
            if message.get("clear_at") is not None and self._last_user is None:
                self._last_user = _last_user(self._messages)
            self._system(message, at, turns, -1 if self._last_user is None else self._last_user)
        else:
            raise ClientRequestError((*at, "role"), f"expected user, assistant or system; got {role!r}")

    def _content(self, content: Any, table: Any, role: str, at: Path) -> tuple[list[Part], bool]:
        if type(content) is list:
            return read_blocks(content, table, role, at, self._losses), False
        return _plain(content, at), True

    def _assistant(self, message: Json, at: Path, turns: list[Turn]) -> None:
        content, inside = message.get("content"), (*at, "content")
        if content is None:  # a reply without content, as a client kept it
            content = []
        if type(content) is not list:
            turns.append(Turn("assistant", _plain(content, inside), at, "", True))
            return
        summaries: list[Part] = []
        parts = read_blocks(content, ASSISTANT, "an assistant message", inside, self._losses, summaries)
        if summaries:
            # The summary replaces earlier turns of the user's side: it becomes a user turn here (mapping §6.5).
            turns.append(Turn("user", summaries, at))
            if not parts:
                return
        turns.append(Turn("assistant", parts, at))

    def _system(self, message: Json, at: Path, turns: list[Turn], last_user: int) -> None:
        drop_unknown(message, _SYSTEM_KEYS, self._losses, at)
        clear_at = one_of(message, "clear_at", ("next_user_message", "never"), at)
        config = optional(message, "output_config", dict, at)
        cleared = clear_at == "next_user_message" and int(at[1]) < last_user
        if config is not None and not cleared:
            path = (*at, "output_config")
            drop_unknown(config, frozenset({"effort"}), self._losses, path)
            effort = one_of(config, "effort", ("low", "medium", "high", "xhigh", "max"), path)
            if effort is not None:
                self._losses.add(
                    LossCode.PER_TURN_EFFORT, (*path, "effort"), "the last one holds for the whole request"
                )
                self.effort = effort
        content = message.get("content")
        if content is None and config is not None:
            return
        inside = (*at, "content")
        if type(content) is list:
            content = self._change_tools(content, inside)
            if not content:
                return
        if cleared:
            # As in the API, the model does not see such a message (mapping §3).
            return
        parts, plain = self._content(content, INSTRUCTION, "a system message", inside)
        turns.append(Turn("instruction", parts, at, "system", plain))

    def _change_tools(self, content: list[Any], at: Path) -> list[Any]:
        if not any(type(block) is dict and block.get("type") in _CHANGES for block in content):
            return content
        if self._changed is None:
            self._changed = {tool.name: tool for tool in self.tools}
        texts: list[Any] = []
        for index, block in enumerate(content):
            if type(block) is dict and block.get("type") in _CHANGES:
                change_tools(self._changed, block, (*at, index), self._losses)
            else:
                texts.append(block)
        return texts


def _plain(content: Any, at: Path) -> list[Part]:
    """Content that is no array, as its one part."""
    return [Text(_string(content, at), at)]


def _string(content: Any, at: Path) -> str:
    """Content that is no array."""
    if type(content) is not str:
        raise ClientRequestError(at, f"expected a string or an array of content blocks, got {kind_of(content)}")
    return content


def _last_user(messages: list[Any]) -> int:
    """Where the last real user message stands: one that does more than return tool results."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if type(message) is not dict or message.get("role") != "user":
            continue
        content = message.get("content")
        if type(content) is not list or any(
            type(block) is not dict or block.get("type") != "tool_result" for block in content
        ):
            return index
    return -1
