"""The tokens of a whole request: its texts by a measure, its media by their rules, and what surrounds them.

What was counted once is remembered: agents send the same instructions, tools and history again and again, and some ask
for fifty counts in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from dragoman.canonical.parts import (
    Document,
    Image,
    Native,
    Part,
    Reasoning,
    Recording,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
)
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn
from dragoman.dialects import Dialect
from dragoman.tokens.media import document_tokens, image_tokens, inner, recording_tokens
from dragoman.wire.json_codec import dumps

Measure = Callable[[Sequence[str]], list[int]]
"""The tokens of each text."""

KEEP = 8_192
"""Texts whose count is remembered, 200 bytes each, whatever their length."""
_PLAIN = 64
"""Characters of a text that is its own key; of a longer one it is a digest."""

_BEGIN = 3
_TURN = 4
_CALL = 6
_RESULT = 6
_TOOL = 8
PROOF = 6
"""Characters of encrypted reasoning for each token of what is inside."""

Key = str | tuple[int, int]


class Counter:
    """Counts by `measure` and remembers the last `keep` texts. Several threads may use one."""

    def __init__(self, measure: Measure, *, keep: int = KEEP) -> None:
        self._measure = measure
        self._keep = keep
        self._known: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def request(self, request: Request, dialect: Dialect) -> int:
        """The prompt's tokens at an upstream of `dialect`. Never 0."""
        prompt = PromptSize(dialect)
        for turn in request.turns:
            prompt.turn(turn)
        prompt.setting(request)
        return prompt.size + sum(self.texts(prompt.texts))

    def texts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text."""
        known = self._known
        keys: list[Key] = [text if len(text) <= _PLAIN else (hash(text), len(text)) for text in texts]
        found: dict[Key, int] = {}
        missing: dict[Key, str] = {}
        for key, text in zip(keys, texts, strict=True):
            count = known.get(key)
            if count is None:
                missing[key] = text
            else:
                found[key] = count
        if missing:
            found.update(zip(missing, self._measure(list(missing.values())), strict=True))
        for key, count in found.items():
            known.pop(key, None)
            known[key] = count  # at the end, so that the least recently used come first
        for key in list(islice(known, max(0, len(known) - self._keep))):
            known.pop(key, None)
        return [found[key] for key in keys]


class PromptSize:
    """The parts of a request to count: `texts`, and the `size` in tokens of everything else."""

    __slots__ = ("_dialect", "size", "texts")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.size = _BEGIN
        self.texts: list[str] = []

    def setting(self, request: Request) -> None:
        """The tools and the form of the answer."""
        texts = self.texts
        for tool in request.tools:
            self.size += _TOOL
            texts.append(tool.name)
            if tool.description:
                texts.append(tool.description)
            if tool.schema or tool.native:
                texts.append(_json(tool.schema or tool.native))
        if request.format is not None and request.format.schema:
            texts.append(_json(request.format.schema))

    def turn(self, turn: Turn) -> None:
        """Count one turn. A compact turn is not expanded."""
        self.size += _TURN
        texts = self.texts
        compact = turn.compact
        if isinstance(compact, str):
            texts.append(compact)
        elif isinstance(compact, tuple):
            reasoning, content, _, _, calls = compact
            for text, _, _, proof, *_ in reasoning:
                self._reasoning(text, proof)
            if content:
                texts.append(content)
            for _, name, arguments, _ in calls:
                self.size += _CALL
                texts += name, arguments
        elif compact is not None:
            for _, content, _, _ in compact:
                self.size += _RESULT
                texts.append(content)
        else:
            for part in turn.parts:
                self.part(part)

    def _reasoning(self, text: str, proof: str | None) -> None:
        if text:
            self.texts.append(text)
        elif proof:
            self.size += len(proof) // PROOF

    def part(self, part: Part) -> None:
        """One part, with what is in it."""
        texts = self.texts
        match part:
            case Text() | Refusal():
                texts.append(part.text)
            case ToolCall():
                self.size += _CALL
                texts += part.name, part.arguments
            case ToolResult():
                self.size += _RESULT
                if isinstance(part.content, str):
                    texts.append(part.content)
                else:
                    for inside in part.content:
                        self.part(inside)
            case Image():
                self.size += image_tokens(part, self._dialect)
            case Document():
                self.size += document_tokens(part)
                texts += part.name or "", part.context or ""
                for piece in inner(part):
                    self.part(piece)
            case Recording():
                self.size += recording_tokens(part)
            case SearchResult():
                texts += part.source, part.title
                texts += [text.text for text in part.body]
            case ToolReference():
                texts.append(part.name)
            case Reasoning():
                self._reasoning(part.text, part.proof)
            case Native():
                texts.append(_json(part.payload))


def _json(value: Json) -> str:
    return dumps(value).decode()
