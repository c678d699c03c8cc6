"""The engine without the turns in the compact form: every history is read and written part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman.canonical.turn import Turn
from dragoman.dialects.chat.request import read as chat_reader
from dragoman.dialects.messages.request import read_turns as messages_reader
from dragoman.dialects.responses.request.turn_builder import TurnBuilder


def _none(
    numbered: Iterator[tuple[int, Any]], turns: list[Turn], custom: set[str] | None = None
) -> tuple[int, Any] | None:
    return next(numbered, None)


def _no_items(self: TurnBuilder, items: list[Any], start: int) -> int:
    return start


@contextmanager
def without_steps() -> Iterator[None]:
    """Inside, no reader finds a step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages_reader, "read_compact_turns", _none)
        patch.setattr(chat_reader, "read_compact_turns", _none)
        patch.setattr(TurnBuilder, "read_compact", _no_items)
        yield
