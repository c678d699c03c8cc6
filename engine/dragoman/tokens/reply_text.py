"""The length of what a model wrote in a reply, by which its tokens are estimated if the upstream sent no counts."""

from __future__ import annotations

from typing import Any, Final

from dragoman.dialects import FACTS
from dragoman.wire.json_codec import dumps

_PLACES: Final = tuple(dict.fromkeys(facts.content[0] for facts in FACTS.values()))
"""The keys of a complete reply that hold what the model wrote."""
_TEXTS: Final = (
    "message",
    "content",
    "text",
    "refusal",
    "thinking",
    "summary",
    "arguments",
    "function",
    "custom",
    "function_call",
    "tool_calls",
    "parts",
    "functionCall",
)
"""The keys of choices, blocks, items and parts that hold texts, or objects with texts."""
_REASONING: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""The keys of Chat's reasoning. Some servers send the same text in several of them."""
_DEPTH_MAX: Final = 8


def reply_length(body: Any) -> int:
    """Return the characters of texts, reasoning and arguments in a complete reply of any dialect."""
    return sum(text_length(body.get(key)) for key in _PLACES) if type(body) is dict else 0


def text_length(value: Any, depth: int = 0) -> int:
    """Return the characters of the texts, reasoning and arguments in a message, a delta, a block or a part."""
    if type(value) is str:
        return len(value)
    if depth > _DEPTH_MAX:
        return 0
    if type(value) is list:
        return sum(text_length(each, depth + 1) for each in value)
    if type(value) is not dict:
        return 0
    length = sum(text_length(value[key], depth + 1) for key in _TEXTS if key in value)
    if type(given := value.get("input", value.get("args"))) is dict:  # of a call in Messages, or in Gemini's API
        length += len(dumps(given)) if given else 0
    elif type(given) is str:  # of a free-text tool
        length += len(given)
    for key in _REASONING:
        if (reasoning := text_length(value.get(key), depth + 1)) > 0:
            return length + reasoning
    return length
