"""Parts of generated conversations of all dialects: their steps, what they may hold, and common material."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from .strategies import texts

Json = dict[str, Any]

words = texts.filter(lambda text: bool(text.strip()))
"""Text that all APIs take: not blank."""
TOOL_NAMES = st.sampled_from(("get_weather", "Read", "mcp__fs__write-file", "a" * 64, "T"))
PNG = base64.b64encode(b"\x89PNG\r\n").decode()
PDF = base64.b64encode(b"%PDF-1.7").decode()
CLOSED: Json = {
    "type": "object",
    "properties": {"q": {"type": "string"}},
    "required": ["q"],
    "additionalProperties": False,
}
"""An answer's schema must be closed in all dialects."""
SCHEMAS = st.sampled_from(
    (
        {"type": "object", "properties": {}},
        CLOSED,
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "$defs": {"x": {}}},
    )
)


@dataclass(slots=True)
class Conversation:
    """`steps` are what each request adds to the history: first the user's messages, then the assistant's turn and the
    user's side after it, and so on. `fields` are the rest of the body.

    `finds_tools`: does the history itself declare tools (Responses), so that they grow with it; `plain`: is a lone
    text of the user given as a bare string (Responses)."""

    dialect: str
    steps: list[list[Json]]
    fields: Json = field(default_factory=dict)
    finds_tools: bool = False
    plain: bool = False

    def body(self, step: int | None = None) -> Json:
        """The request after so many steps (default: all)."""
        taken = self.steps if step is None else self.steps[:step]
        history: Any = [message for added in taken for message in added]
        if self.plain and len(history) == 1 and set(history[0]) == {"role", "content"}:
            history = history[0]["content"]
        return {"model": "m", "input" if self.dialect == "responses" else "messages": history, **self.fields}


@dataclass(frozen=True, slots=True)
class Features:
    """The contents that conversations may have. `marks`: cache marks; `orphans`: calls without results, results without
    calls; `losses`: what the other dialect can carry only with a loss."""

    marks: bool = True
    orphans: bool = False
    losses: bool = True
    pdf: bool = True
    max_steps: int = 4


EVERYTHING = Features()


def maybe(draw: st.DrawFn, body: Json, key: str, values: st.SearchStrategy[Any]) -> None:
    """Sometimes give `body` the key."""
    if draw(st.sampled_from((False, False, True))):
        body[key] = draw(values)


def seldom(draw: st.DrawFn, wanted: bool = True) -> bool:
    """True now and then, if at all."""
    return wanted and draw(st.sampled_from((False, False, False, True)))
