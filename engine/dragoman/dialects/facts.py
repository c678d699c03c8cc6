"""The facts about a dialect that code outside its package reads: data, without any code of the dialect.

Each dialect's package has one record, `FACTS` in its `facts.py`. `Dialect.facts` is the record of a dialect. What only
some dialects have is empty, None or False by default, so that a record states what is special about its dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from dragoman.dialects.count_endpoint import CountEndpoint
from dragoman.errors import ClientRequestError
from dragoman.short_repr import short_repr

MODEL_FOLDERS: Final = ("models", "tunedModels")
"""The folders of models in the names of Google's resources."""


def path_with(model: str, path: str) -> str:
    """Return a path with the model in the place of `{model}`.

    Clients may name any model, so a slash and a colon are quoted; but `models/x` and `tunedModels/x` are the names of
    resources of Google's, with the folder that such a path has. Raises ClientRequestError for a model that would be a
    step in the path.
    """
    if "{model}" not in path:
        return path
    folder, slash, name = model.partition("/")
    if slash and folder in MODEL_FOLDERS and "models/{model}" in path:
        path, model = path.replace("models/{model}", f"{folder}/{{model}}"), name
    if not model.strip("."):
        raise ClientRequestError(("model",), "this name has no place in the URL of the upstream")
    return path.replace("{model}", quote(model, safe="@", errors="replace"))


class Target(NamedTuple):
    """The target of an upstream request: the upstream's model, a stream or a whole reply, and the path with its query.

    The path is below the upstream's base URL. In some dialects it has the model and the choice of a stream in it.
    """

    model: str
    stream: bool
    path: str


class RateLimitHeaders(NamedTuple):
    """The headers with a vendor's rate limits."""

    form: str
    """The name of a header, with `{what}` for `requests` or `tokens`, and `{fact}` for `limit`, `remaining` or
    `reset`."""
    resets: Literal["duration", "time"]
    """The form of a reset: a duration (`6m0s`), or a time (RFC 3339)."""

    @property
    def prefix(self) -> str:
        """The beginning of all names."""
        return self.form.partition("{")[0]

    @property
    def what_first(self) -> bool:
        """True if names have `{what}` before `{fact}`."""
        return self.form.index("{what}") < self.form.index("{fact}")


class RequestSigns(NamedTuple):
    """The parts that only requests of one dialect have, among dialects whose conversations have the same name."""

    fields: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    opening_roles: frozenset[str] = frozenset()
    """Roles that only the first message has."""
    message_fields: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    """The `type` of parts of messages."""
    tool_fields: frozenset[str] = frozenset()


_NO_SIGNS: Final = RequestSigns()


class ReplySigns(NamedTuple):
    """The parts that only complete replies and events of one dialect have. One of them is enough."""

    fields: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    type_prefix: str = "\0"
    object: str = "\0"
    """The value of the field `object`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFacts:
    """The facts about one dialect."""

    name: str
    """Its short name in texts, such as `Chat`."""
    maker: str
    """The name of the vendor that defined it, in texts."""
    api: str
    """Its full name in texts, without the maker's."""
    vendor: str
    """The profile of the maker's own upstream. Dialects of one vendor have the same headers and the same models."""
    model_names: tuple[str, ...]
    """Patterns of the names of the vendor's models."""
    client: bool = True
    """True if clients may use it. Otherwise only upstreams do."""

    # --- requests ----------------------------------------------------------------------------------------------------
    path: str
    """The path of its endpoint below the base URL, with `{model}` if the model is in it."""
    stream_path: str = ""
    """The path for streams, with its query, if it is another one."""
    names_target: bool = True
    """True if the body has the fields `model` and `stream`."""
    instructions: str | None
    """The field of a request with the instructions, if there is one."""
    conversation: str
    """The field of a request with the conversation."""
    output_cap: str = ""
    """The field with the output limit, where every request must have one."""
    stop_path: tuple[str, ...] = ()
    """The path of the stop sequences in a request, if it can have any."""
    signs: RequestSigns = _NO_SIGNS
    base_url: str
    """The vendor's base URL, as its SDK takes it."""
    version: str = "v1"
    """The version in the path."""
    version_in_base: bool = False
    """True if a base URL with a path has all that comes before the endpoint's path. Otherwise only one that ends in the
    version has it."""
    base_ends: tuple[str, ...] = ()
    """Ends of a base URL, besides the version, that has all that comes before the endpoint's path."""
    key_header: str = "bearer"
    """The header of a key. `bearer` is `Authorization: Bearer`."""
    key_variable: str
    """The environment variable in which the vendor's programs look for a key."""
    version_header: str = ""
    """The header with the version of the API, which every request has."""
    body_headers: tuple[str, ...] = ()
    """Headers of a client that belong to its body: they go with it to an upstream of the dialect."""
    betas: bool = False
    """True if requests may name betas, in `anthropic-beta`."""
    key_headers: tuple[str, ...] = ()
    """Headers of a client that belong to its key."""
    sdk_package: str = ""
    """The package for this dialect in Vercel's AI SDK, which opencode uses."""

    # --- other endpoints ---------------------------------------------------------------------------------------------
    count: CountEndpoint | None = None
    """The endpoint that counts tokens, if there is one."""
    list_query: str = ""
    """The query of a request for the list of models."""
    list_cursor: str = ""
    """The parameter for the cursor of the next page."""
    forwarded: bool = False
    """True if servers of the dialect usually have the vendor's other endpoints too, such as embeddings."""
    paths: tuple[str, ...] = ()
    """The first parts of all paths that only clients of the dialect use."""

    # --- replies -----------------------------------------------------------------------------------------------------
    content: tuple[str | int, ...]
    """The path of the content in a complete reply. Every complete reply has the first member."""
    content_in_list: bool = True
    """True if the content is a list of parts or items."""
    model_field: str = "model"
    """The field of replies and events that names the model."""
    reply_signs: ReplySigns
    request_id_header: str = "x-request-id"
    """The response header in which its SDKs look for the request id."""
    reply_headers: tuple[str, ...] = ()
    """Other headers of the vendor's, which its clients understand."""
    dialect_headers: tuple[str, ...] = ()
    """Beginnings of headers that only clients of the dialect itself understand."""
    limits: RateLimitHeaders | None = None
    last_events: tuple[str, ...] = ()
    """The events, or data, one of which ends every stream without an error. Empty if a stream just ends, and its reader
    decides if it is complete."""
    heartbeat: bytes = b": keep-alive\n\n"
    """The bytes that a client of a silent stream gets: a comment, or an event that clients ignore."""
    event_heartbeat: bytes = b""
    """The bytes for clients that count events only (knob `heartbeats`), if there is such an event."""
    overloaded_status: int = 0
    """The status of an in-band error that reports an overload, where it is not 503."""

    # --- conversations -----------------------------------------------------------------------------------------------
    stored: bool = False
    """True if responses have ids by which a client continues them, so that someone has to store them."""
    agent_tools: bool = False
    """True if its clients send built-in and free-text tools to any upstream, and run these themselves."""
    pairs_by_id: bool = True
    """True if tool results are paired with their calls by id only. Otherwise their place counts too."""
    flags_failed_results: bool = False
    """True if a tool result can be marked as failed."""
    blank_texts: bool = True
    """False if upstreams reject texts of white space."""
    signed_history: bool = False
    """True if upstreams may verify that signed reasoning has its original context (profile `thinking_replay`)."""
    reasoning_types: tuple[str, ...] = ()
    """The types of reasoning blocks."""
    reasoning_fields: Mapping[str, Literal["text", "objects", "object of objects"]] = field(default_factory=dict)
    """The fields of reasoning, with the form of their values, in a dialect without reasoning blocks."""
    proof: str = "encrypted_content"
    """The form of the canonical event `Opaque` that has the proof of its reasoning."""
    loses_signatures: bool = False
    """True if there is a field for the text of another upstream's reasoning, but none for its signature."""
    citation: str | None = None
    """The member of a URL citation that has its URL; empty if the citation itself has it, None without citations."""
    image_prices: str = "openai"
    """The vendor whose rule for the tokens of images applies (`tokens/media.py`)."""

    @property
    def title(self) -> str:
        """Its full name in texts, with the maker's."""
        return f"{self.maker} {self.api}"

    def target(self, model: str, *, stream: bool) -> Target:
        """Return the target of a request to the dialect's own endpoint. Raises ClientRequestError."""
        return Target(model, stream, path_with(model, self.stream_path if stream and self.stream_path else self.path))

    def __repr__(self) -> str:
        return short_repr(self, self.name)
