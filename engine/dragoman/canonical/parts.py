"""The parts of a turn: texts, media, reasoning, calls and their results.

Nothing native is dropped early: content that only its own dialect has is a `Native` part or a raw dict, and the writer
drops it with a loss row. Every part has its place in the client's body (`at`), by which a writer that rejects it names
the client's own field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.canonical.events import Citation
from dragoman.errors import ClientRequestError, Path

Json = dict[str, Any]


# --- sources of media -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Inline:
    """Bytes carried in the body: base64 text, without the `data:` prefix."""

    media_type: str
    data: str


@dataclass(slots=True)
class Url:
    """Media the upstream fetches."""

    url: str


@dataclass(slots=True)
class FileRef:
    """An id that means something to one provider only."""

    id: str
    origin: str


# --- parts ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Text:
    """Plain text. `cache` is the source's cache mark, raw; `citations` ride on replayed assistant text; `logprobs` on
    a reply's text, in the OpenAI dialects' common form. `apart` marks a text that begins a message behind
    another part (`events.BlockStart`)."""

    text: str
    at: Path = ()
    cache: Json | None = None
    citations: list[Citation] = field(default_factory=list)
    logprobs: list[Json] | None = None
    apart: bool = False


@dataclass(slots=True)
class Refusal:
    """The model's refusal wording."""

    text: str
    at: Path = ()


@dataclass(slots=True)
class Image:
    """An image. `detail` is the OpenAI dialects' hint."""

    source: Inline | Url | FileRef
    at: Path = ()
    detail: str | None = None
    cache: Json | None = None


@dataclass(slots=True)
class Document:
    """A file: PDF or other bytes, a URL, plain text (`Text` as source) or nested parts (a list as source).

    `name` is the file name or title; `context` and `cite` are Messages' `context` and `citations.enabled`.
    """

    source: Inline | Url | FileRef | Text | list[Text | Image]
    at: Path = ()
    name: str | None = None
    context: str | None = None
    cite: bool = False
    cache: Json | None = None


@dataclass(slots=True)
class Recording:
    """A sound or a film, which only Chat and Gemini have in requests. `kind` is the word for it."""

    kind: Literal["audio", "video"]
    source: Inline | Url
    at: Path = ()


@dataclass(slots=True)
class SearchResult:
    """A search result given as content (Messages): source, title, body texts."""

    source: str
    title: str
    body: list[Text]
    at: Path = ()
    cite: bool = False
    cache: Json | None = None


@dataclass(slots=True)
class ToolReference:
    """A tool named as a result of a tool search (Messages `tool_reference`, Responses `tool_search_output`)."""

    name: str
    at: Path = ()
    namespace: str | None = None


@dataclass(slots=True)
class Reasoning:
    """Reasoning of an earlier turn, or of a reply.

    `origin` is the dialect whose upstream made it; `proof` its opaque proof (`signature`, `encrypted_content`);
    `redacted` marks a block that is all proof; `native` is the whole original block, replayed untouched to its origin.
    `family` is the endpoint family named by the envelope that the block came back in, None where there was none: only
    an upstream of that family may be given `native` (mapping §5.2; `envelope.own_block` decides).
    """

    text: str
    at: Path = ()
    origin: str = ""
    proof: str | None = None
    redacted: bool = False
    native: Json | None = None
    family: str | None = None


@dataclass(slots=True)
class ToolCall:
    """A call. `arguments` is JSON text exactly as it was received (free text if `custom`); `search` marks the
    call of a client-run tool search; `built_in` is the tool, if its calls are items of their own in Responses
    (`tools.built_in_tools`)."""

    id: str
    name: str
    arguments: str
    at: Path = ()
    custom: bool = False
    cache: Json | None = None
    namespace: str | None = None
    search: bool = False
    built_in: str = ""


@dataclass(slots=True)
class ToolResult:
    """The result of a call: a string, or parts (`Text`, `Image`, `Document`, `SearchResult`, `ToolReference`).

    `search` marks the result of a client-run tool search: its parts are `ToolReference`s to tools that the reader has
    put into `Request.tools`. `built_in` is the tool, as in the call."""

    call_id: str
    content: str | list[Part]
    at: Path = ()
    is_error: bool = False
    cache: Json | None = None
    custom: bool = False
    search: bool = False
    built_in: str = ""


@dataclass(slots=True)
class Native:
    """A block that no other dialect has. Writers of `origin` send it back as it was; the others drop it with `code`.

    `instead` are the parts that are sent in its place to an upstream that does not have such blocks
    (`tools.bridge`)."""

    origin: str
    type: str
    payload: Json
    code: str
    at: Path = ()
    instead: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class Unread:
    """Content that its dialect's reader cannot read, with the error. In the history its `text`, or a placeholder, is
    sent for it."""

    error: ClientRequestError = field(compare=False)
    at: Path = ()
    text: str = ""


Part = (
    Text
    | Refusal
    | Image
    | Document
    | Recording
    | SearchResult
    | ToolReference
    | Reasoning
    | ToolCall
    | ToolResult
    | Native
    | Unread
)
