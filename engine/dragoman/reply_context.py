"""The parameters and results of one reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dragoman import limits as _limits
from dragoman.canonical.events import StopReason, Usage
from dragoman.canonical.parts import Json, Text
from dragoman.canonical.reply import Reply
from dragoman.canonical.service_report import ServiceReport
from dragoman.errors import Failure, Path, UpstreamProtocolError
from dragoman.knobs import DEFAULT_KNOBS, Knobs
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import Envelope
from dragoman.short_repr import short_repr
from dragoman.stages.violation import Violation
from dragoman.tools.bridge import OriginalTool

_PROFILE = Profile()
"""The profile of a reply for which none is given: making one costs as much as a translation."""


@dataclass(slots=True)
class StoredReply:
    """A Responses reply that is to be stored, that continues a stored one, or before which a history was compacted.

    `fields` replace fields of the Response object: `store` and `previous_response_id`. `keep` stores the JSON of the
    finished object, and the losses by code; it returns False if that failed, and then the reply has `store: false`.
    Without it the reply is not stored.
    """

    fields: Json = field(repr=False)
    keep: Callable[[bytes, Mapping[LossCode, int]], Awaitable[bool]] | None = field(default=None, repr=False)
    final: bytes | None = field(default=None, repr=False)
    """The JSON of the finished object, from the end of the reply until it is stored."""
    losses: Losses = field(default_factory=Losses)
    """The losses of the request and its reply."""
    compaction: str = field(default="", repr=False)
    """The wrapped history in the `compaction` item that begins the output, or empty."""
    summarised: Callable[[str], str] | None = field(default=None, repr=False)
    """Returns the wrapped history for the text of the reply, which is its summary. The item then is all output."""
    shaped: Callable[[Json], Json] | None = field(default=None, repr=False)
    """Returns the body of a whole reply for its Response object; None if they are the same."""
    stream: bool = False
    """True if the client gets the reply as a stream although it is requested whole."""
    evicted: Sequence[tuple[LossCode, Path, str]] = field(default=(), repr=False)
    """The losses of the compaction: code, path, and what was done."""

    def summarise(self, reply: Reply) -> None:
        """Turn a reply that is a summary into the history that it completes.

        Raises UpstreamProtocolError if it is no complete summary.
        """
        assert self.summarised is not None
        summary = "".join(part.text for part in reply.parts if type(part) is Text).strip()
        if not summary or reply.stop.reason is not StopReason.END:
            raise UpstreamProtocolError("the model wrote no complete summary of the conversation")
        self.compaction = self.summarised(summary)
        reply.parts, reply.cut = [], frozenset()


@dataclass(slots=True, kw_only=True)
class ReplyOptions:
    """The parameters of one reply that its request does not have."""

    created: int = 0
    """The time that the reply states, in Unix seconds. A parameter, like `request_id`, so that equal input makes equal
    output."""
    request_id: str = ""
    """An id of the request, from which ids of the reply are made if the upstream sends none."""
    validate: bool | Callable[[], bool] = True
    """True if a translated stream is checked against the grammar of the client's dialect while it is encoded, or a
    function that returns that when the stream begins, such as one of a `ValidationSample`. Checking costs several times
    as much as translating, and changes nothing that is sent."""
    clock: Callable[[], float] | None = None
    """Returns the time in Unix seconds, for replies that state when they were completed."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Texts that are masked in every error that comes back, such as the API key sent to the upstream. They are read
    when an error comes, so the sequence may change."""
    own_key: str = ""
    """The upstream's name, if the key that it is sent is the caller's and not the client's. The client then gets errors
    about that key as a 502."""
    request_usage: bool = False
    """True if the token counts of a stream that passes through are requested even if the client did not request them.
    They are then removed from the stream. The profile's flag `stream_usage` must permit it."""
    stored: StoredReply | None = None
    """Given for a Responses client whose reply is stored. The reply is then translated in passthrough too."""

    def __repr__(self) -> str:
        return short_repr(self, self.request_id)


@dataclass(slots=True)
class ReplyContext:
    """The parameters that readers and writers of one reply need of its request, and the results they record.

    Ids and times are parameters, so equal input makes equal output. `model` is the name that the client requested,
    `created` a Unix time in seconds. `names` maps tool names at the upstream to the client's. `input_estimate` is an
    estimate of the prompt tokens, shown until the upstream sends a count (0: none). `stops` are the stop sequences at
    which the reply is cut here because the upstream was not sent them, `sent_stops` those that it was sent.
    """

    model: str
    created: int = 0
    request_id: str = ""
    profile: Profile = _PROFILE
    knobs: Knobs = DEFAULT_KNOBS
    limits: Limits = _limits.DEFAULT_LIMITS
    losses: Losses = field(default_factory=Losses)
    validate: bool | Callable[[], bool] = True
    """True if the stream sent is checked against its dialect's grammar (`stages.output_validator`), or a function that
    returns that, which is called when the stream begins."""
    include_usage: bool = False
    remove_usage: bool = False
    """True if the counts of a stream that passes through were requested on behalf of the caller, not of the client."""
    input_estimate: int = 0
    stops: tuple[str, ...] = ()
    sent_stops: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, OriginalTool] = field(default_factory=dict)
    """The tools that were sent as another kind: their name (after `names`) → what the client had declared."""
    plain_calls: frozenset[tuple[str | None, str]] = frozenset()
    """Namespace and name of the tools whose calls are marked as plain text (`tools.encrypted_arguments`)."""
    built_in: frozenset[str] = frozenset()
    """The built-in tools of the request, whose calls are items of their own (`tools.built_in_tools`)."""
    logprobs: bool = False
    """True if the client requested log probabilities."""
    echo: Json = field(default_factory=dict)
    """The settings of the request that the reply repeats (Responses). No value may be None."""
    nullable: Mapping[str, frozenset[str] | None] | None = None
    """The parameters of the client's tools that accept null (`stages.null_arguments`); None to keep all nulls."""
    envelope: Envelope | None = None
    """Wraps opaque reasoning for clients that send it back; None if the client's dialect has no field for it."""
    stored: StoredReply | None = None
    """The parameters by which the reply is stored (Responses), or None."""
    secrets: Sequence[str] = ()
    """Texts that are masked in every error of the upstream, such as the key that it was sent."""
    own_key: str = ""
    """The upstream's name if the key that it was sent is the caller's; empty if it was sent the client's.
    The client gets errors about the caller's key as a 502 (`dialects.errors.own_key`)."""
    clock: Callable[[], float] | None = None
    """Returns Unix seconds, for replies that state when they were completed; None to omit that."""
    failure: Failure | None = None
    """The error that the reply ended in, or None."""
    validated: bool = False
    """True if the stream sent was checked against its dialect's grammar, or observed if it passed through."""
    violation: Violation | None = None
    """The first violation of the client dialect's grammar in the stream, or None."""
    usage: Usage | None = None
    """The reply's token counts, or None while they are unknown."""
    service: ServiceReport | None = None
    """The statements of the upstream about its service of the reply, such as tier and cost; None without any."""
    moderation_requested: bool = False
    """True if the client requested the moderation of its request and its reply."""
    moderation: Json | None = None
    """That moderation, in Chat's form, once it has arrived."""
    output_text: int = 0
    """The characters of a stream so far, or of a whole reply without counts: texts, reasoning and arguments
    (see `tokens.stream_usage`)."""
    several: bool = False
    """True if the client requested several replies in one, or calls in a former form: what it reads is not known."""
    begun: bool = False
    """True if the beginning of the stream was forwarded, so that it keeps the upstream's id."""
    same_dialect: bool = False
    """True if client and upstream have one dialect, so that blocks are passed on with keys that are not known here."""
    response_id: str | None = None
    """The id of the response in a reply of the Responses API that passes through, once it is known; else None."""

    def __repr__(self) -> str:
        return short_repr(self, self.request_id)

    def validates(self) -> bool:
        """Return whether the stream is validated. The first call decides."""
        validate = self.validate
        if type(validate) is not bool:
            self.validate = validate = validate()
        return validate
