"""Content of a stream, assembled without the engine, so that the client's and the upstream's side can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dragoman import Dialect
from dragoman.wire import SSEFrame, json_dumps, json_loads


@dataclass(slots=True)
class ShownCall:
    """A tool call as far as it arrived.

    `complete` is set by the event or finish reason that completes it. The arguments of a `custom` tool are free text.
    """

    name: str
    arguments: str = ""
    complete: bool = False
    namespace: str | None = None
    custom: bool = False

    def sent(self) -> tuple[str, str]:
        """Return name and JSON arguments as sent in a dialect that has only plain functions."""
        name = f"{self.namespace}__{self.name}" if self.namespace else self.name
        return name, json_dumps({"input": self.arguments}).decode() if self.custom else self.arguments

    def __str__(self) -> str:
        name = f"{self.namespace}.{self.name}" if self.namespace else self.name
        return f"{name}({json_dumps(self.arguments).decode() if self.custom else self.arguments})"


@dataclass(slots=True)
class Transcript:
    """An assembled reply. `order` lists the call index of each fragment of arguments, in order of arrival."""

    reasoning: str = ""
    text: str = ""
    calls: dict[int, ShownCall] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    ended: bool = False

    def content(self) -> tuple[str, str, list[tuple[str, str]]]:
        """Return the content, which must be equal on both sides."""
        return self.reasoning, self.text, [call.sent() for call in self.calls.values()]

    def tokens(self) -> tuple[int, int] | None:
        """Return total input and output tokens, or None if there is no usage."""
        usage = self.usage
        if not usage:
            return None
        if "promptTokenCount" in usage:  # Gemini: thinking is not among the candidates
            return usage["promptTokenCount"], usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        if "prompt_tokens" in usage:
            return usage["prompt_tokens"], usage["completion_tokens"]
        if "input_tokens_details" in usage:  # Responses: input_tokens includes cached tokens
            return usage["input_tokens"], usage["output_tokens"]
        cached = (usage.get("cache_read_input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0)
        return (usage.get("input_tokens") or 0) + cached, usage["output_tokens"]


def read_transcript(dialect: Dialect, frames: Iterable[SSEFrame]) -> Transcript:
    """Return the transcript of a stream's frames."""
    out = Transcript()
    read = import_module(f"dragoman_server.cli.demo.transcript_{dialect}").read
    for frame in frames:
        if frame.data == b"[DONE]":
            out.ended = True
        elif frame.data is not None:
            read(json_loads(frame.data), out)
    return out
