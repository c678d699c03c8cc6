"""A client's request on its way upstream: what the steps of a pipeline read and write."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from dragoman import ClientRequestError
from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.gateway import StoredReply
from dragoman.wire import Json
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.router import RoutedTarget

if TYPE_CHECKING:
    from dragoman.threads import StoredRequest
    from dragoman_server.proxy.request_form import RequestForm


class StoredTurn(NamedTuple):
    """The parameters by which the reply is stored, or made from a compaction.

    `request` is the client's request if stored responses are used, and `items` the number of input items before its
    own. Without it, the input was replaced, and checked before.
    """

    reply: StoredReply
    request: StoredRequest | None = None
    items: int = 0

    def relocate(self, error: ClientRequestError) -> None:
        """Let an error name a field of the client's own request."""
        if self.request is not None and self.request.parent is not None:
            from dragoman.threads import relocate  # 0.1 MB of memory, which few clients need

            relocate(error, self.request, self.items)


class CompactionStep(NamedTuple):
    """The compaction of one request. `payload` is the request without what asks for it.

    `threshold` is the number of tokens from which on it is compacted before its reply; 0 for a request to compact, for
    which `whole` is True at the endpoint of its own. `gate` is True if the gateway decided by itself. `given` is the
    request with what asks for it.
    """

    payload: Json
    given: Json
    threshold: int = 0
    whole: bool = False
    gate: bool = False


@dataclass(slots=True, repr=False)  # a repr would show the request
class Draft:
    """One request, as far as its steps have come.

    `body` and `payload` are the client's, until a step replaces the conversation in them.
    """

    request: web.Request
    loaded: LoadedConfig
    """The configuration that the request began with. A reload replaces only that of later ones."""
    is_sent: bool = True
    """False for a request that is only explained or counted."""
    body: bytes = b""
    payload: Json = field(default_factory=dict)
    form: RequestForm | None = None
    """The body of a forwarded request that is a form, which is read no further than its model's name."""
    target: RoutedTarget = field(init=False)
    """The provider and the model there."""
    compaction: CompactionStep | None = None
    """The compaction of the conversation, if there is to be one."""
    turn: StoredTurn | None = None
    """Set for a request that uses stored responses, or whose conversation is compacted."""
    background: StoredRequest | None = None
    """Set for a request that is to run in the background: no further step follows."""
    ranking: list[Candidate] | None = None
    """The candidates of the target's plan in the order of this request, if it has one."""
    candidate: Candidate | None = None
    """The candidate that the request was translated for."""
    conversation: bytes | None = None
    """A digest, or the client's address, that separates conversations of a client; None if it was not needed."""
    call: UpstreamRequest = field(init=False)
    """The request to the upstream."""
    upload: Upload | None = None
    """The body of that request, if it is a form."""
    transport: Transport = field(init=False)
    """Sends it."""

    def send(self, timers: StreamTimers) -> Coroutine[Any, Any, UpstreamResponse]:
        """Send the request to the upstream, as `Transport.open` does."""
        if self.upload is not None:
            return self.transport.open_upload(self.call, self.upload, timers)
        return self.transport.open(self.call, timers)
