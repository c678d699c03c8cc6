"""Placeholders: texts for content of the history that cannot be sent, as a picture to a server that takes none.

An agent sends its history with every request. An error about a part of it would end the session, so a text takes the
part's place, with a loss row. Content of the user's latest turn is rejected instead: the answer would be wrong.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.parts import Document, Image, Part, Recording, Text, Unread, Url
from dragoman.canonical.turn import Turn
from dragoman.dialects.shared.odd_history import has_prose, item_text
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses

_CALLS = frozenset({"tool_use", "tool_result", "function", "function_call", "function_call_output"})


class Placeholders:
    """Writes the placeholders of one request.

    The history is everything before the user's latest turn, and all tool results.
    """

    __slots__ = ("_answered", "_losses", "_turns")

    def __init__(self, turns: list[Turn], losses: Losses) -> None:
        self._turns, self._losses = turns, losses
        self._answered: int | None = None
        """Index of the last answer to the user in the client's list, or -1; None before it is searched for."""

    def text(self, part: Part, error: ClientRequestError, *, result: bool = False) -> str:
        """Return the text that takes the place of `part`, which cannot be sent because of `error`.

        `result` is true for a part of a tool result. Raises `error` if the part is not in the history, or if losses
        are rejected.
        """
        if self._losses.strict or not (result or self._is_answered(part.at)):
            raise error
        return replaced(part, error, self._losses)

    def _is_answered(self, at: Path) -> bool:
        answered = self._answered
        if answered is None:
            answered = self._answered = _last_answer(self._turns)
        return len(at) > 1 and type(at[1]) is int and at[1] < answered


def replaced(part: Part, error: ClientRequestError, losses: Losses) -> str:
    """Return the text that takes the place of a part of the history, and record the loss.

    The error of an `Unread` was raised. Its traceback would keep the request until a garbage collection.
    """
    error.__traceback__ = None
    if type(part) is Unread and part.text:
        losses.add(LossCode.CONTENT_REPLACED, part.at, f"only its text was sent: {error.problem}")
        return part.text
    losses.add(LossCode.CONTENT_REPLACED, part.at, f"became a placeholder: {error.problem}")
    return f"[{_kind(part)} left out: {error.problem.partition(';')[0]}]"


def _last_answer(turns: list[Turn]) -> int:
    """Return the index in the client's list of the last turn of the assistant that a user's turn follows, or -1."""
    asked = False
    for turn in reversed(turns):
        if turn.role != "assistant":
            asked = True
        elif asked:
            index = turn.at[1] if len(turn.at) > 1 else -1
            return index if type(index) is int else -1
    return -1


def no_recording(part: Recording) -> Unsupported:
    """Return the error of a recording for an upstream that takes none of its kind."""
    return Unsupported(part.at, f"{part.kind} cannot be sent to this upstream; send a transcript as text")


def _kind(part: Part) -> str:
    """Return what a part is, with its name or address, for the model."""
    if type(part) is Unread:
        return "content"
    if type(part) is Recording:
        return part.kind
    name = part.name if type(part) is Document else None
    source = part.source if isinstance(part, (Image, Document)) else None
    if name is None and type(source) is Url:
        name = source.url
    word = "image" if type(part) is Image else "file"
    return f"{word} {name}" if name else word


def read_unread(given: Any, error: ClientRequestError, at: Path, losses: Losses, *, assistant: bool) -> Unread | Text:
    """Return a part that could not be read. In the assistant's turns, which all are history, it becomes a text.

    Raises `error` if losses are rejected, and for a call and a result: neither can be left out without the other.
    """
    kind = given.get("type") if type(given) is dict else None
    if losses.strict or (type(kind) is str and kind in _CALLS):
        raise error
    unread = Unread(error.with_traceback(None), at, words_of(given))
    return Text(replaced(unread, error, losses), at) if assistant else unread


def words_of(given: Any) -> str:
    """Return the text of a part that could not be read: its `text`, or its JSON if it is a call or has prose."""
    text = given.get("text") if type(given) is dict else given
    if type(text) is str:
        return text
    kind = given.get("type") if type(given) is dict else None
    is_call = type(kind) is str and kind in _CALLS
    return item_text(given) if is_call or has_prose(given) else ""


def text_instead(given: Any, error: ClientRequestError) -> str:
    """Return the text that takes the place of a part of the history, which is rejected with `error`."""
    return words_of(given) or f"[content left out: {error.problem.partition(';')[0]}]"
