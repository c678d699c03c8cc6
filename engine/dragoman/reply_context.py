"""What the way back of one request needs to know of the way there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dragoman import limits as _limits
from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.errors import Failure
from dragoman.knobs import DEFAULT_KNOBS, Knobs
from dragoman.limits import Limits
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import Envelope
from dragoman.stages.violation import Violation
from dragoman.tools.bridge import OriginalTool


@dataclass(slots=True)
class ReplyContext:
    """Handed to the stream readers and writers of one reply. Ids and times come in here, so cores stay deterministic.

    `model` is the name the client asked for; `created` a Unix time in seconds; `names` maps upstream tool names back to
    the client's; `input_estimate` is the guess of prompt tokens shown until the upstream tells (0 = none made);
    `stops` are the stop sequences to be cut here because the upstream was not given them, `sent_stops` those it was.
    """

    model: str
    created: int = 0
    request_id: str = ""
    include_usage: bool = False
    input_estimate: int = 0
    stops: tuple[str, ...] = ()
    sent_stops: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, OriginalTool] = field(default_factory=dict)
    """Sent name (after `names`) → what the client had declared, for tools that were sent as another kind."""
    logprobs: bool = False
    """Did the client ask for log probabilities."""
    echo: Json = field(default_factory=dict)
    """The settings of the request that the reply repeats (Responses); no value is None."""
    nullable: Mapping[str, frozenset[str] | None] | None = None
    """What the client's tools say of null (`nulls`), where nulls are to be left out of calls; else None."""
    envelope: Envelope | None = None
    """Wraps opaque reasoning for clients that bring it back; None where the client's dialect has no place for it."""
    profile: Profile = field(default_factory=Profile)
    knobs: Knobs = DEFAULT_KNOBS
    limits: Limits = _limits.DEFAULT_LIMITS
    secrets: tuple[str, ...] = ()
    """Texts that are masked in every error of the upstream's: what it was sent to know its caller by."""
    losses: Losses = field(default_factory=Losses)
    clock: Callable[[], float] | None = None
    """Unix seconds, for whoever has to tell when the reply was done; None where nobody does."""
    failure: Failure | None = None
    """The error that ended the stream, once there was one."""
    validate: bool = True
    """Is what goes out judged by its dialect's grammar (`validator`)."""
    violation: Violation | None = None
    """The first breach of the client's dialect in the stream, once there was one."""
    usage: Usage | None = None
    """The reply's token counts, once they are known."""
    output_text: int = 0
    """The characters of a translated stream so far: texts, reasoning and arguments (`tokens.told`)."""
