"""The canonical request and whole reply: what every dialect's body is parsed into and built from.

A conversation is a list of turns; tool results are parts of a user turn, tool calls parts of an assistant turn, so that
both the message-per-result dialects and the block dialects come out of the same list. Nothing native is thrown away
early: what only its own dialect can carry rides as a `Native` part or a raw dict and is dropped by the *writer* with a
loss row. Every part remembers where it stood in the client's body (`at`), so that a writer that must reject it can name
the client's own field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from dragoman.canonical.events import Citation
from dragoman.errors import ClientRequestError, Path
from dragoman.short_repr import short_repr

Json = dict[str, Any]

Role = Literal["instruction", "user", "assistant"]
"""The role of a turn. `system` and `developer` are one role; `Turn.original` keeps the word."""


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
    | SearchResult
    | ToolReference
    | Reasoning
    | ToolCall
    | ToolResult
    | Native
    | Unread
)


# --- turns ------------------------------------------------------------------------------------------------------------


ReasoningFields: TypeAlias = tuple[str, Path, str, str | None, bool, Json | None, str | None]
"""The fields of a `Reasoning`, in their order."""
CallFields: TypeAlias = tuple[str, str, str, Path]
"""Id, name, arguments as JSON text and path of a function call without namespace or cache mark."""
ResultFields: TypeAlias = tuple[str, str, Path, bool]
"""The call's id, the content, the path and the error flag of a result that is one text, without cache mark."""
AssistantFields: TypeAlias = tuple[list[ReasoningFields], str | None, Path, bool, list[CallFields]]
"""A turn of the assistant: reasoning, a text if any, its path and its `apart`, and calls, in this order."""

Compact: TypeAlias = AssistantFields | list[ResultFields] | str


class Turn:
    """One turn of the conversation.

    `original` is the source's own role word (`system`, `developer`; `top` for a top-level instruction field), used only
    by dialects that know it. `plain` is true if the content was a bare string. `name` is Chat's participant name.

    The usual turns of a conversation are `compact`: those of the assistant as `AssistantFields`, the results of calls
    as a list of them, a single text of another role as this text. An agent resends hundreds of them. With a named tuple
    for each call, result and reasoning, a long request would take a quarter more time: CPython 3.11 makes one in
    370 ns, a tuple in 20 ns. `parts` makes the part objects of a compact turn, and sets `compact` to None, as they may
    be changed. The methods here do not make them.
    """

    __slots__ = ("_parts", "at", "compact", "name", "original", "plain", "role")

    compact: Compact | None

    def __init__(
        self,
        role: Role,
        parts: list[Part],
        at: Path = (),
        original: str = "",
        plain: bool = False,
        name: str | None = None,
    ) -> None:
        self.role: Role = role
        self._parts = parts
        self.at = at
        self.original = original
        self.plain = plain
        self.name = name
        self.compact = None

    @property
    def parts(self) -> list[Part]:
        """The parts of the turn. A change of the list changes the turn."""
        if self.compact is not None:
            self.parts = _expand(self, self.compact)
        return self._parts

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.compact, self._parts = None, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turn) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]  # turns are mutable

    def __repr__(self) -> str:
        return short_repr(self, self.role, ".".join(map(str, self.at)))

    def is_empty(self) -> bool:
        """True if writers leave the turn out, as if the client had not sent it."""
        compact = self.compact
        if isinstance(compact, tuple):
            reasoning, text, _, _, calls = compact
            return not (calls or text or reasoning)
        if compact is not None:
            return not compact
        return all(type(part) is Text and not part.text for part in self._parts)

    def has_results(self) -> bool:
        """True if the turn holds a tool result."""
        return bool(self.result_ids())

    def has_content(self) -> bool:
        """True if the turn holds anything but tool results and empty texts."""
        compact = self.compact
        if compact is not None:
            return type(compact) is not list and not self.is_empty()
        return any(type(part) is not ToolResult and not (type(part) is Text and not part.text) for part in self._parts)

    def has_reasoning(self) -> bool:
        """True if the turn holds reasoning."""
        if isinstance(self.compact, tuple):
            return bool(self.compact[0])
        return self.compact is None and any(type(part) is Reasoning for part in self._parts)

    def call_ids(self) -> list[str]:
        """The ids of the turn's calls."""
        if isinstance(self.compact, tuple):
            return [call_id for call_id, _, _, _ in self.compact[4]]
        return [] if self.compact is not None else [part.id for part in self._parts if type(part) is ToolCall]

    def result_ids(self) -> list[tuple[int, str]]:
        """Place among `parts` and call id of each tool result."""
        compact = self.compact
        if compact is None:
            return [(place, part.call_id) for place, part in enumerate(self._parts) if type(part) is ToolResult]
        return [(place, call_id) for place, (call_id, *_) in enumerate(compact)] if isinstance(compact, list) else []

    def rename_calls(self, rename: Callable[[str, Path], str]) -> None:
        """Replace each call's id by what `rename(id, path)` returns."""
        if isinstance(self.compact, tuple):
            calls = self.compact[4]
            calls[:] = [(rename(call_id, at), name, arguments, at) for call_id, name, arguments, at in calls]
        elif self.compact is None:
            for part in self._parts:
                if type(part) is ToolCall:
                    part.id = rename(part.id, part.at)

    def rename_results(self, rename: Callable[[str], str]) -> None:
        """Replace each result's call id by what `rename(id)` returns."""
        results = self.compact
        if isinstance(results, list):
            results[:] = [(rename(call_id), content, at, failed) for call_id, content, at, failed in results]
        elif results is None:
            for part in self._parts:
                if type(part) is ToolResult:
                    part.call_id = rename(part.call_id)

    def reasoning_at(self, place: int) -> Reasoning:
        """The reasoning at a place among `parts`."""
        if isinstance(self.compact, tuple):
            return Reasoning(*self.compact[0][place])
        part = self._parts[place]
        assert type(part) is Reasoning
        return part

    def drop_parts(self, places: Collection[int]) -> None:
        """Leave out the parts at these places. In a compact turn they must be reasoning."""
        if isinstance(self.compact, tuple):
            reasoning = self.compact[0]
            reasoning[:] = [fields for place, fields in enumerate(reasoning) if place not in places]
        else:
            self.parts = [part for place, part in enumerate(self.parts) if place not in places]


_new = object.__new__  # a constructor takes twice as long, 4 % of a long request


def compact_turn(role: Role, compact: Compact, at: Path, original: str = "", plain: bool = False) -> Turn:
    """Return a turn in compact form. The path of a single text is `content` of the turn, or of its first part."""
    turn = _new(Turn)
    turn.role = role
    turn.compact = compact
    turn.at = at
    turn.original = original
    turn.plain = plain
    turn.name = None
    return turn


def plain_text(text: str, at: Path) -> Text:
    """Return a `Text` without marks or citations. Field by field, as the class's constructor costs twice as much."""
    part = _new(Text)
    part.text = text
    part.at = at
    part.cache = part.logprobs = None
    part.citations = []
    part.apart = False
    return part


def reasoning_fields(part: Reasoning) -> ReasoningFields:
    """Return the fields of a part, for code that takes those of compact turns too."""
    return part.text, part.at, part.origin, part.proof, part.redacted, part.native, part.family


def _expand(turn: Turn, compact: Compact) -> list[Part]:
    """Return the parts of a compact turn."""
    if isinstance(compact, str):
        return [plain_text(compact, _text_path(turn))]
    if isinstance(compact, list):
        return [ToolResult(*result) for result in compact]
    reasoning, text, text_at, apart, calls = compact
    parts: list[Part] = [Reasoning(*fields) for fields in reasoning]
    if text:
        parts.append(Text(text, text_at, apart=apart))
    parts.extend([ToolCall(*call) for call in calls])
    return parts


def _text_path(turn: Turn) -> Path:
    """Return the path of the only text of a turn."""
    if len(turn.at) < 2:  # a field of the request, which is the text itself
        return turn.at
    return (*turn.at, "content") if turn.plain else (*turn.at, "content", 0)


def _fields(turn: Turn) -> tuple[object, ...]:
    return turn.role, turn.parts, turn.at, turn.original, turn.plain, turn.name


# --- tools ------------------------------------------------------------------------------------------------------------


ToolKind = Literal["function", "custom", "search", "hosted", "typed"]
"""`function` has a JSON schema; `custom` takes free text; `search` is a client-run search for further tools (with a
JSON schema); `hosted` runs at the provider; `typed` is a client tool that the provider's model was trained on and that
has no schema in the request (Messages `bash_*` and kin, Responses `shell` and kin)."""


@dataclass(slots=True)
class Namespace:
    """A named group that a tool is declared in (Responses `namespace`)."""

    name: str
    description: str | None = None


@dataclass(slots=True)
class Tool:
    """A declared tool. `options` holds source-only extras by name; the writer that cannot carry one drops it with
    `tool_option`. `native` is the whole original of hosted, typed and custom tools. Two tools are the same one if name
    and namespace are equal."""

    kind: ToolKind
    name: str
    at: Path = ()
    description: str | None = None
    schema: Json | None = None
    strict: bool | None = None
    cache: Json | None = None
    options: Json = field(default_factory=dict)
    native: Json = field(default_factory=dict)
    origin: str = ""
    namespace: Namespace | None = None


@dataclass(slots=True)
class ToolChoice:
    """`mode` is auto, none, required, tool or allowed. For `tool` and `allowed`, `names` are the tools; `require`
    is True if one of an allowed subset must be called. `custom` marks a forced custom tool, `hosted` a hosted one.
    `namespaces` are those of the names, in the same order; it is empty if none has one."""

    mode: str
    at: Path = ()
    names: list[str] = field(default_factory=list)
    require: bool = False
    custom: bool = False
    hosted: bool = False
    namespaces: list[str | None] = field(default_factory=list)

    def named(self) -> list[tuple[str, str | None]]:
        """Name and namespace of each tool."""
        return list(zip(self.names, self.namespaces or [None] * len(self.names), strict=True))


# --- controls ---------------------------------------------------------------------------------------------------------

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Canonical effort levels in rising order."""


@dataclass(slots=True)
class Thinking:
    """The reasoning settings. `effort` is one of `EFFORTS` or None for unset; `display` is Messages'
    `summarized`/`omitted`/`updates` or None; `summary` is Responses' `auto`/`concise`/`detailed` or None. `budget` is
    the budget in tokens that `effort` was read from, or None."""

    effort: str | None = None
    at: Path = ()
    display: str | None = None
    summary: str | None = None
    budget: int | None = None


@dataclass(slots=True)
class OutputFormat:
    """Structured output: `json_schema` or `json_object`."""

    kind: str
    at: Path = ()
    name: str | None = None
    schema: Json | None = None
    strict: bool | None = None
    description: str | None = None


@dataclass(slots=True)
class Request:
    """A request in canonical form. None always means that the client did not set the field."""

    origin: str
    model: str
    turns: list[Turn]
    stream: bool = False
    include_usage: bool = False
    """Chat's `stream_options.include_usage`: True if the client requests the usage chunk."""
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    max_tokens: int | None = None
    max_tokens_at: Path = ()
    temperature: float | None = None
    """An integer stays one: it is sent as the client wrote it."""
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = field(default_factory=list)
    stop_at: Path = ()
    thinking: Thinking | None = None
    format: OutputFormat | None = None
    verbosity: str | None = None
    end_user: str | None = None
    service_tier: str | None = None
    service_tier_at: Path = ()
    metadata: Json | None = None
    store: bool | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    sampling: Json = field(default_factory=dict)
    """frequency_penalty, presence_penalty, logit_bias, seed: the ones that only Chat has, as given and not default."""
    auto_cache: Json | None = None
    """The cache mark of the request itself (Messages), which stands for one on its last block."""
    cache: Json = field(default_factory=dict)
    """prompt_cache_key, prompt_cache_options, prompt_cache_retention as given (OpenAI dialects)."""
    moderation: Json | None = None
    echo: Json = field(default_factory=dict)
    """The settings of the request that a reply in the client's dialect repeats (Responses), by key."""
