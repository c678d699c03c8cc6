"""The translation of a request: from a client's body to a `Translation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.canonical.request import Json
from dragoman.dialects import DEFAULT_DIALECT
from dragoman.dialects.convert_request import convert_request
from dragoman.dialects.directions import DIRECTIONS, Direction
from dragoman.dialects.openai.refused_fields import without_refused
from dragoman.dialects.passthrough_request import check_keys, rename_model, restore
from dragoman.errors import ClientRequestError, LimitExceeded
from dragoman.knobs import DEFAULT_KNOBS, Knobs
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.reply_context import ReplyContext, ReplyOptions
from dragoman.translation import Translation
from dragoman.wire.json_codec import loads

if TYPE_CHECKING:
    from dragoman.dialects.codec import Codec

__all__ = ("Translation", "forward", "parse_body", "translate")

_DEFAULT: Final = ReplyOptions()


def parse_body(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Json:
    """Return a request body's JSON object.

    Raises LimitExceeded for a body larger than `limits.request_body`, ClientRequestError if it is not a JSON object.
    """
    if len(body) > limits.request_body:
        raise LimitExceeded("request_body", limits.request_body, upstream=False)
    try:
        payload = loads(body)
    except ValueError as error:
        raise ClientRequestError("", f"the body is not valid JSON: {error}") from None
    if type(payload) is not dict:
        raise ClientRequestError("", "the body must be a JSON object")
    return payload


def translate(
    direction: Direction,
    body: bytes,
    *,
    payload: Json | None = None,
    upstream_model: str | None = None,
    profile: Profile | None = None,
    knobs: Knobs = DEFAULT_KNOBS,
    limits: Limits = DEFAULT_LIMITS,
    options: ReplyOptions = _DEFAULT,
) -> Translation:
    """Translate a request body for an upstream.

    Args:
        direction: the client's dialect and the upstream's; see `dragoman.direction`.
        body: the client's request body. Its `stream` field decides whether the reply is a stream.
        payload: the parsed body, if the caller has parsed it already.
        upstream_model: the model's name at the upstream. Default: the name in the body.
        profile: what the upstream's server supports. Default: the built-in profile of the dialect's vendor.
        knobs: the operator's choices.
        limits: size limits of the request and its reply.
        options: the parameters of its reply that the request does not have.

    Return the translation. Nothing may be sent upstream if this raises: ClientRequestError, which names the client's
    field, or LimitExceeded.
    """
    payload = parse_body(body, limits) if payload is None else payload
    profile = profile if profile is not None else builtin_profile(direction.upstream.dialect)
    model = payload.get("model")
    if type(model) is not str or not model:
        raise ClientRequestError(("model",), "is required (a string)")
    stream = payload.get("stream") or False
    if type(stream) is not bool:
        raise ClientRequestError(("stream",), "expected a boolean")
    losses = Losses(limits.losses)
    losses.strict = knobs.on_loss == "reject"
    # By position: keywords cost as much as the object itself.
    context = ReplyContext(model, options.created, options.request_id, profile, knobs, limits, losses, options.validate)
    context.clock, context.secrets, context.own_key = options.clock, options.secrets, options.own_key
    context.stored = stored = options.stored
    context.same_dialect = direction.passthrough
    if stored is not None:
        stored.losses = losses
    target = upstream_model or model
    passthrough = direction.passthrough
    if passthrough and not profile.rewrite and stored is None and _takes(direction.client, profile, body, payload):
        check_keys(body, payload)
        strip = knobs.request_noise == "strip" and not profile.billing_line
        body = restore(direction.client, body, payload, profile, losses, strip_noise=strip)
        if profile.refused_fields:
            body = without_refused(body, payload, profile.refused_fields, direction.client.dialect, losses)
        losses.stop_rejecting()
        context.several = direction.client.several is not None and direction.client.several(payload)
        of_stream = payload.get("stream_options")
        context.include_usage = type(of_stream) is dict and of_stream.get("include_usage") is True
        if options.request_usage and stream and profile.stream_usage and (requester := direction.client.request_usage):
            counted = requester(body, payload)
            if counted is not None:
                body, context.remove_usage = counted, True
        return Translation(direction, rename_model(body, payload, target), stream, context, target)
    sent, stream = convert_request(direction, body, payload, context, upstream_model=target, stream=stream)
    return Translation(direction, sent, stream, context, target, passthrough)


def _takes(codec: Codec, profile: Profile, body: bytes, payload: Json) -> bool:
    """True unless a body of the upstream's own dialect holds what its profile excludes: images, items of agents."""
    # Images have the types `image`, `image_url` and `input_image`.
    if not profile.images and (b'"image' in body or b'"input_image"' in body):
        return False
    return profile.agent_messages or codec.has_agent_items is None or not codec.has_agent_items(payload)


def forward(
    body: bytes,
    payload: Json | None,
    *,
    model: str,
    upstream_model: str,
    knobs: Knobs = DEFAULT_KNOBS,
    limits: Limits = DEFAULT_LIMITS,
    options: ReplyOptions = _DEFAULT,
) -> Translation:
    """Return the exchange of a request to one of OpenAI's other endpoints, such as embeddings: nothing is translated.

    Errors and headers are those of Chat Completions, which these endpoints share. `Translation.forwarded_reply` reads
    the token counts of a complete reply.

    Args:
        body: the client's request body; empty if it is a form, which is forwarded while it arrives.
        payload: the parsed body; None for a form.
        model: the name of the model that the client requested; empty if the request has none.
        upstream_model: the model's name at the upstream.
        knobs: the operator's choices. Only those that concern errors have an effect.
        limits: size limits of the reply.
        options: the parameters of the reply. It is not validated.

    Raises ClientRequestError for a body with a repeated key.
    """
    stream = False
    if payload is not None:
        check_keys(body, payload)
        stream = payload.get("stream") is True or payload.get("stream_format") == "sse"
        if model:
            body = rename_model(body, payload, upstream_model)
    context = ReplyContext(model, options.created, options.request_id, knobs=knobs, limits=limits, validate=False)
    context.clock, context.secrets, context.own_key = options.clock, options.secrets, options.own_key
    return Translation(DIRECTIONS[DEFAULT_DIALECT, DEFAULT_DIALECT], body, stream, context, upstream_model)
