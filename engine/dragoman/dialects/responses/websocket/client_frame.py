"""The frames of a client, and the request over HTTP that a `response.create` stands for (responses §10).

A frame has the fields of a request body, and some of its own. It may continue an earlier response and then has only the
new items. A stateless upstream needs all items: those of the earlier turns are put before the new ones, as bytes, so
that a long conversation is neither kept nor read as objects.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from orjson import Fragment

from dragoman.canonical.request import Json
from dragoman.errors import ClientRequestError
from dragoman.short_repr import short_repr
from dragoman.wire.json_codec import dumps, loads_exact

RESPONSE_CREATE: Final = "response.create"
RESPONSE_STEER: Final = "response.steer"
_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_STREAM_ID_RULE: Final = (
    "must be a non-empty string with at most 256 characters and may only contain letters, numbers, underscores, "
    "hyphens, and periods"
)
_PREVIOUS: Final = "previous_response_id"
_OWN: Final = frozenset({"type", "stream_id", "generate", "stream", "background"})
"""Fields that a request body does not have, or that choose how a reply over HTTP is sent."""


class ClientFrame(NamedTuple):
    """A frame of a client.

    `kind` is its type, `stream_id` the lane that it belongs to (None: the default lane), `payload` the whole object, of
    `size` bytes.
    """

    kind: str
    stream_id: str | None
    payload: Json
    size: int = 0

    def __repr__(self) -> str:
        return short_repr(self, f"{len(self.payload)} members")

    @classmethod
    def read(cls, data: bytes) -> ClientFrame:
        """Read a text message. Raises ClientRequestError."""
        try:
            payload = loads_exact(data)
        except ValueError as error:
            raise ClientRequestError("", f"the frame is not valid JSON: {error}", code="invalid_json") from None
        if type(payload) is not dict:
            raise ClientRequestError("", "the frame must be a JSON object", code="invalid_json")
        stream_id = payload.get("stream_id")
        if stream_id is not None and not (type(stream_id) is str and _STREAM_ID.fullmatch(stream_id)):
            raise ClientRequestError(("stream_id",), _STREAM_ID_RULE, code="invalid_stream_id")
        kind = payload.get("type")
        if type(kind) is not str:
            raise ClientRequestError(("type",), f'is required: send "{RESPONSE_CREATE}"')
        return cls(kind, stream_id, payload, len(data))

    @property
    def previous(self) -> str | None:
        """The id of the response that this one continues. Raises ClientRequestError."""
        previous = self.payload.get(_PREVIOUS)
        if previous is not None and type(previous) is not str:
            raise ClientRequestError((_PREVIOUS,), "expected a string")
        return previous

    @property
    def warm_up(self) -> bool:
        """True if no output is requested: the response is only to be continued."""
        options = self.payload.get("prompt_cache_options")
        return self.payload.get("generate") is False or (type(options) is dict and options.get("prewarm") is True)

    @property
    def length(self) -> int:
        """The number of the items of `input`."""
        content: Any = self.payload.get("input")
        return len(content) if type(content) is list else int(content is not None)

    def items(self) -> bytes:
        """Return the items of `input` as JSON, with commas between them. Raises ClientRequestError."""
        content = self.payload.get("input")
        if type(content) is str:
            content = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": content}]}]
        elif content is None:
            content = []
        elif type(content) is not list:
            raise ClientRequestError(("input",), "expected a string or an array of items")
        return dumps(content)[1:-1]

    def body(self, items: bytes | None = None) -> bytes:
        """Return the request body over HTTP, for a stream.

        `items` are those of the whole conversation, in place of `input` and `previous_response_id`; None to keep both.
        Raises ClientRequestError.
        """
        payload = self.payload
        if payload.get("background"):
            raise ClientRequestError(("background",), "is not supported over WebSocket")
        sent = {key: value for key, value in payload.items() if key not in _OWN}
        sent["stream"] = True
        if items is not None:
            sent.pop(_PREVIOUS, None)
            sent["input"] = Fragment(b"[%b]" % items)
        return dumps(sent)


def join_items(*parts: bytes) -> bytes:
    """Return items, as `ClientFrame.items` returns them, one after another."""
    return b",".join(part for part in parts if part)
