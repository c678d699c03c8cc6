"""Reasoning as OpenRouter's `reasoning_details`, which are sent back to the upstream unchanged.

A detail is a text, which some models sign, a summary or encrypted data. In a stream, a detail arrives in fragments with
the same `index`; the last one often has only the signature or the data. All details of a message are sent back complete
and in order (openrouter.ai/docs/use-cases/reasoning-tokens, agno-agi/agno#8794).
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.reply_context import ReplyContext

DETAILS_KEY = "reasoning_details"
_TEXT_KEYS = ("text", "summary", "data")
_LABELS = frozenset(("type", "index", "id", "format"))


class ReasoningDetails:
    """The details of one block. Fragments are joined once, at the end of the block."""

    __slots__ = ("_details", "_texts")

    def __init__(self) -> None:
        self._details: list[Json] = []
        self._texts: list[dict[str, list[str]]] = []
        """For each detail: key → fragments of the text."""

    def add(self, fragment: Json) -> None:
        """Add a fragment of the last detail, or the first fragment of the next one."""
        if not (self._details and _continues(self._details[-1], fragment)):
            self._details.append({})
            self._texts.append({})
        detail, texts = self._details[-1], self._texts[-1]
        for key, value in fragment.items():
            if key in _TEXT_KEYS and type(value) is str:
                texts.setdefault(key, []).append(value)
                detail[key] = ""  # keeps the order of the keys
            elif value is not None or key not in detail:
                detail[key] = value

    def complete(self) -> list[Json]:
        """Return the details, each with its complete texts."""
        for detail, texts in zip(self._details, self._texts, strict=True):
            for key, fragments in texts.items():
                detail[key] = "".join(fragments)
        return self._details


def _continues(detail: Json, fragment: Json) -> bool:
    index, detail_id, fragment_id = fragment.get("index"), detail.get("id"), fragment.get("id")
    if index is None or detail.get("index") != index or detail["type"] != fragment["type"]:
        return False
    return detail_id is None or fragment_id is None or detail_id == fragment_id


def read_details(message: Json, context: ReplyContext) -> list[Json]:
    """Return the details of a message, or their fragments in a delta. Those without content are omitted.

    Empty unless this upstream wants its details back and the client can keep them.
    """
    details = message.get(DETAILS_KEY)
    if type(details) is not list or context.envelope is None or not context.profile.reasoning_details:
        return []
    return [detail for detail in details if _is_detail(detail) and any(detail[key] for key in detail.keys() - _LABELS)]


def _is_detail(detail: Any) -> bool:
    return type(detail) is dict and type(detail.get("type")) is str


def size_of(detail: Json) -> int:
    """Return the size of a detail's texts, in characters."""
    return sum(len(value) for value in detail.values() if type(value) is str)


def is_unsigned(detail: Json) -> bool:
    """True for a text of Claude without its signature, from a reply that was cut.

    Anthropic rejects it. Other models do not sign their texts (OpenRouterTeam/ai-sdk-provider#423).
    """
    if detail["type"] != "reasoning.text" or detail.get("signature"):
        return False
    return detail.get("format") in (None, "anthropic-claude-v1")
