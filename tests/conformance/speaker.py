"""One question in each dialect's own words, asked through its vendor's SDK, and what was read, in one form for all.

A speaker asks in three ways: `whole`, `stream` (the SDK's helper with its accumulated snapshot, judged) and `raw` (the
plain iterator, each event validated). None raises what the gateway answers: it is the `trouble` of what was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import anthropic
import openai
from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that belongs to no dialect."""

    tools: bool = False
    effort: str | None = None
    stops: tuple[str, ...] = ()
    schema: type[BaseModel] | None = None
    image: str | None = None
    """A PNG in base64."""
    cap: int | None = None
    parallel: bool = True
    after: Received | None = None
    """The reply whose calls are answered with `results`."""
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the client got it; `arguments` as written, or respelled where the dialect has an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens: the input with all that a cache returned or took, the output with reasoning."""

    input: int
    cached: int
    written: int
    output: int
    reasoning: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as the SDK reported it; `status` is `None` where it came in the stream."""

    raised: str
    status: int | None
    type: str | None
    code: str | None
    message: str
    request_id: str | None = None
    retry_after: str | None = None


@dataclass(slots=True)
class Received:
    """A reply, or how far it got."""

    id: str = ""
    model: str = ""
    order: list[str] = field(default_factory=list)
    """Kinds in the order in which they began: reasoning, text, refusal, call. Chat has no order of its own."""
    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    proof: str = ""
    """The signature or the encrypted form of the reasoning."""
    calls: list[Call] = field(default_factory=list)
    fragments: list[int] = field(default_factory=list)
    """In a stream: which call each fragment of arguments was for."""
    finish: str | None = None
    stop: str | None = None
    """The stop sequence, where the dialect reports which it was."""
    spent: Spent | None = None
    parsed: Any = None
    trouble: Trouble | None = None
    replay: list[Any] = field(default_factory=list)
    """The reply as this client puts it into the history of its next request."""


class Speaker(Protocol):
    """A client of one dialect."""

    dialect: str

    async def whole(self, model: str, ask: Ask) -> Received: ...
    async def stream(self, model: str, ask: Ask) -> Received: ...
    async def raw(self, model: str, ask: Ask) -> Received: ...


def blamed(error: openai.APIError | anthropic.APIError) -> Trouble:
    headers = error.response.headers if isinstance(error, openai.APIStatusError | anthropic.APIStatusError) else {}
    status: int | None = getattr(error, "status_code", None)
    message = getattr(error, "api_message", None) or error.message
    return Trouble(
        type(error).__name__,
        # anthropic gives errors of the stream the status of the stream.
        None if status == 200 else status,
        getattr(error, "type", None),
        getattr(error, "code", None),
        message,
        getattr(error, "request_id", None),
        headers.get("retry-after"),
    )


def closed(schema: type[BaseModel]) -> dict[str, Any]:
    """The strict JSON schema of a model without nesting, as the SDKs' helpers write it."""
    return {**schema.model_json_schema(), "additionalProperties": False}
