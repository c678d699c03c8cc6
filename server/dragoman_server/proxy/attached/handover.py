"""The data by which another process goes on with a run: its upstream generates the response in the background.

That process reads the whole stream again and translates it with a translator of the same request, as equal input makes
equal output. The state of a translator is kept nowhere, so no version of one process must read that of another's. The
cost has a bound: a reply is read once more for each process that stops. There are no keys in it, nor headers that
clients choose; the client's request is in it, as in a stored response.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from dragoman import Dialect
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.draft import StoredTurn


@dataclass(slots=True)
class Handover:
    """One exchange whose upstream generates its response in the background."""

    response_id: str
    """The id of the response at the upstream."""
    provider: str
    base_url: str
    """A digest of the provider's base URL, which may hold a secret."""
    key: str
    """The name of the one of its keys that was used (`Candidate.key`); empty if it has one."""
    client: str
    created: int
    model: str
    """The name that the client requested."""
    upstream_model: str
    client_profile: str | None
    on_loss: str | None
    """The header of the request by which losses are handled."""
    fields: Json | None
    """Those of the stored reply, None if it is not stored."""
    items: int
    """The input items before the request's own."""
    usage: Json | None
    """The entry by which it is booked."""
    body: bytes = field(default=b"", repr=False)
    """The client's request, with the whole conversation in it."""

    def write(self) -> bytes:
        """Return it as bytes."""
        head: dict[str, Any] = asdict(self)
        del head["body"]
        return json_dumps(head) + b"\n" + zlib.compress(self.body, 1)

    @classmethod
    def read(cls, data: bytes, limit: int) -> Handover:
        """Return what `write` has written, with a body of at most `limit` bytes.

        Raises ValueError for what another version has written.
        """
        head, _, packed = data.partition(b"\n")
        unpacking = zlib.decompressobj()
        try:
            body = unpacking.decompress(packed, limit)
            if not unpacking.eof:
                raise ValueError("the request in a run is too long")
            return cls(**json_loads(head), body=body)
        except (TypeError, zlib.error) as error:
            raise ValueError(f"the run is one of another version: {error}") from None

    @property
    def dialect(self) -> Dialect:
        """The client's dialect."""
        return Dialect(self.client)


def digest_of(base_url: str) -> str:
    """Return what stands for the base URL of a provider."""
    return sha256(b"base URL of a provider" + base_url.encode()).hexdigest()[:16]


def key_of(provider: Provider, values: list[str]) -> str:
    """Return the name of the one of a provider's keys that a request with these values of headers has."""
    for name, variant in provider.variants():
        key = variant.api_key
        if key is not None and any(value.endswith(key.reveal()) for value in values):
            return name
    return ""


def can_hand_over(turn: StoredTurn | None) -> bool:
    """True if the reply can be made again from the request: its conversation was not compacted."""
    return turn is None or (turn.request is not None and not turn.reply.compaction and turn.reply.summarised is None)
