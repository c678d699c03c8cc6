"""The record of an ended exchange: what the hook `on_end` gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from dragoman import Dialect, LossCode, Usage
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import ServiceReport, short_repr

if TYPE_CHECKING:
    from decimal import Decimal

RUNNING = "running"
"""The end of an exchange whose upstream goes on with the response by itself, until a client reads its end."""
NOT_COMPLETE = ("failed", "abandoned")
"""The ends of exchanges whose reply was not sent to its end."""


User_co = TypeVar("User_co", covariant=True)
"""The type of an application's own users."""


@dataclass(frozen=True)  # no slots: with them and `frozen`, Python 3.11 cannot make a `Principal[User](...)`
class Principal(Generic[User_co]):
    """The user that the hook `authorize` returned for a request.

    `id` separates users: a receipt can be read only by the principal with the id that made the request. `data` is the
    application's own, such as a row of its user table; the gateway does not read it. `admin` is True for a user who may
    open the console, which shows the requests of all users.
    """

    id: str = field(repr=False)
    data: User_co = field(default=None, repr=False)  # type: ignore[assignment]  # the default is for `Principal[None]`
    admin: bool = False


@dataclass(slots=True)
class ExchangeRecord(Generic[User_co]):
    """One ended exchange: a request to a proxied endpoint and its reply. It holds no text of either.

    `ended` is one of:

    - `completed`: the reply was sent to its end
    - `failed`: an error before the reply or within its stream
    - `refused`: the upstream returned an error status
    - `rejected`: the gateway returned an error, and no upstream is at fault
    - `abandoned`: the client disconnected
    - `running`: the upstream goes on with the response in the background. Once a client reads its end, a second record
      with the same `request_id` has another `ended` and the counts. It is of the process that has read the end, whose
      `principal` has no `data` if that is another one

    `status` is the HTTP status that the client got, 499 if it got none. Fields that were not known when the exchange
    ended have no value: a request that is rejected for its key has no model.
    """

    request_id: str
    client: Dialect
    """The dialect of the client's request."""
    ended: str
    status: int
    principal: Principal[User_co] | None
    """The result of `authorize`; None without that hook."""
    model: str | None
    """The model name that the client sent."""
    provider: str | None
    upstream: Dialect | None
    upstream_model: str | None
    route: str
    """The pattern of the route, or the name of the rule, that chose the provider; empty if none did."""
    client_profile: str | None
    stream: bool | None
    created: int
    """When the request arrived, in Unix seconds."""
    duration: float
    """Seconds from the request's arrival to the end of the reply."""
    first_event: float | None
    """Seconds from the request's arrival to the first event of a streamed reply."""
    usage: Usage | None
    """Token counts; None if nothing was sent upstream, or if the upstream refused the request or did not reply."""
    estimated: tuple[str, ...]
    """Names of the fields of `usage` that are Dragoman's estimates."""
    losses: Mapping[LossCode, int]
    """Number of losses by code."""
    error_kind: FailureKind | None
    error_origin: FailureOrigin | None
    error_code: str | None
    """The upstream's error code, or Dragoman's."""
    key: str | None = None
    """The name of the client's named key."""
    attempts: int = 1
    """The number of requests that were prepared for an upstream: more than one after a retry or a fallback."""
    cost: Decimal | None = None
    """The cost of `usage` by the price table; None if the model has no price there."""
    endpoint: str = ""
    """The path of an endpoint that is forwarded without translation, such as `embeddings`; else empty."""
    service: ServiceReport | None = None
    """Statements of the upstream about its service, such as the tier and its searches; None without any."""
    tag: str | None = None
    """The tag of the request, else that of its key."""

    def __repr__(self) -> str:
        return short_repr(self, self.request_id, self.client, self.ended, self.status)

    @property
    def partial(self) -> bool:
        """True if `usage` has the counts of a reply that was not sent to its end, or that goes on at its upstream."""
        return self.usage is not None and self.ended in (*NOT_COMPLETE, RUNNING)
