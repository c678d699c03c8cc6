"""`dragoman translate`: a request body, a whole reply or a recorded stream, without any network."""

from __future__ import annotations

from dragoman.context import ReplyContext
from dragoman.directions import Direction, direction
from dragoman.envelope import Seal
from dragoman.errors import ClientRequestError
from dragoman.jsontext import loads
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.profile import Profile
from dragoman.protocols import Dialect
from dragoman.translate import Translation, translate

KINDS = ("request", "reply", "stream")


def kind_of(data: bytes) -> str:
    """What the data is: `request`, `reply` or `stream`. Raises ClientRequestError if it is none of them."""
    head = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return "stream"
    try:
        body = loads(data)
    except ValueError as error:
        raise ClientRequestError("", f"neither an event stream nor JSON: {error}") from None
    if type(body) is dict:
        if "choices" in body or body.get("type") == "message" or body.get("object") == "response":
            return "reply"
        if "messages" in body or "input" in body:
            return "request"
    raise ClientRequestError("", "neither a request body nor a reply of any dialect; say which with --kind")


def convert(
    data: bytes,
    source: Dialect,
    target: Dialect,
    *,
    kind: str,
    model: str | None = None,
    profile: Profile,
    knobs: Knobs,
) -> tuple[bytes, Losses]:
    """The translated bytes and the losses.

    A request is read as one of a `source` client and written for a `target` upstream; a reply or a stream as one of a
    `source` upstream, written for a `target` client. Raises DragomanError.
    """
    if kind == "request":
        translation = translate(direction(source, target), data, upstream_model=model, profile=profile, knobs=knobs)
        return translation.body, translation.losses
    translation = _reply_translation(direction(target, source), model or "model", profile, knobs)
    if kind == "reply":
        return translation.reply(data), translation.losses
    machine = translation.stream_machine()
    out: bytes = machine.feed(data) + machine.finish()
    return out, translation.losses


def _reply_translation(way: Direction, model: str, profile: Profile, knobs: Knobs) -> Translation:
    """As for a client that asks for everything there is."""
    seal = None
    if way.client.unseal_history is not None:
        seal = Seal(profile.family or way.upstream.dialect, model)
    context = ReplyContext(
        model, include_usage=True, input_estimate=1, logprobs=True, seal=seal, profile=profile, knobs=knobs
    )
    return Translation(way, b"", True, context, model)
