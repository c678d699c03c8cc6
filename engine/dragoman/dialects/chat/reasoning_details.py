"""Reasoning in typed pieces with their proofs (`reasoning_details`, OpenRouter): kept as it came, and given back so.

A piece is a text, which some models sign, a summary or encrypted data. A stream brings it in fragments of one `index`,
the signature or the data often in a last one without text; all pieces of a message go back in their order and complete
(openrouter.ai/docs/use-cases/reasoning-tokens, agno-agi/agno#8794).
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.reply_context import ReplyContext

DETAILS_KEY = "reasoning_details"
_GROWING = ("text", "summary", "data")
_ABOUT = frozenset(("type", "index", "id", "format"))


class ReasoningDetails:
    """The pieces of one block. What grows is joined once, when the block is whole."""

    __slots__ = ("_grown", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[Json] = []
        self._grown: list[dict[str, list[str]]] = []
        """By piece: the fragments of its texts."""

    def add(self, fragment: Json) -> None:
        """The next fragment of the last piece, or the first one of another."""
        if not (self._pieces and _continues(self._pieces[-1], fragment)):
            self._pieces.append({})
            self._grown.append({})
        piece, grown = self._pieces[-1], self._grown[-1]
        for key, value in fragment.items():
            if key in _GROWING and type(value) is str:
                grown.setdefault(key, []).append(value)
                piece[key] = ""  # its place among the keys
            elif value is not None or key not in piece:
                piece[key] = value

    def complete(self) -> list[Json]:
        """The pieces, each with its whole texts."""
        for piece, grown in zip(self._pieces, self._grown, strict=True):
            for key, texts in grown.items():
                piece[key] = "".join(texts)
        return self._pieces


def _continues(piece: Json, fragment: Json) -> bool:
    index, own, other = fragment.get("index"), piece.get("id"), fragment.get("id")
    if index is None or piece.get("index") != index or piece["type"] != fragment["type"]:
        return False
    return own is None or other is None or own == other


def read_details(message: Json, context: ReplyContext) -> list[Json]:
    """The pieces, or fragments of some, of a message or delta, where this upstream wants them back and the client can
    keep them. What says nothing is none."""
    given = message.get(DETAILS_KEY)
    if type(given) is not list or context.envelope is None or not context.profile.reasoning_details:
        return []
    return [piece for piece in given if _is_piece(piece) and any(piece[key] for key in piece.keys() - _ABOUT)]


def _is_piece(piece: Any) -> bool:
    return type(piece) is dict and type(piece.get("type")) is str


def size_of(piece: Json) -> int:
    """What keeping a piece takes, in characters."""
    return sum(len(value) for value in piece.values() if type(value) is str)


def is_unsigned(piece: Json) -> bool:
    """Is it a text of Claude's without its signature: of a reply that was cut. Anthropic refuses it; for other models
    there is nothing to sign (OpenRouterTeam/ai-sdk-provider#423)."""
    if piece["type"] != "reasoning.text" or piece.get("signature"):
        return False
    return piece.get("format") in (None, "anthropic-claude-v1")
