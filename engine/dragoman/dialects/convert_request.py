"""The conversion of a request that does not pass through: it is read, adapted to its upstream, and written."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json, Request
from dragoman.dialects.directions import Direction
from dragoman.dialects.shared.request_size import check_parts, check_stops
from dragoman.errors import ClientRequestError, TooMany
from dragoman.policies import apply
from dragoman.policies.token_budget import fit_budget
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.stages.null_arguments import nullable
from dragoman.tokens.by_body_size import by_body
from dragoman.tools.bridge import bridge_tools
from dragoman.tools.built_in_tools import built_in_names
from dragoman.tools.duplicate_call_ids import deduplicate_call_ids, pair_calls
from dragoman.tools.encrypted_arguments import remove_encryption
from dragoman.tools.names import NameTable, all_valid
from dragoman.wire.json_codec import dumps, has_float, has_long_number, parse_exactly


def convert_request(
    direction: Direction, body: bytes, payload: Json, context: ReplyContext, *, upstream_model: str, stream: bool
) -> tuple[bytes, bool]:
    """Return the upstream's request body, and whether the client requested a stream.

    `payload` is the parsed `body`. The context of the reply gets what the request determines. Raises ClientRequestError
    and LimitExceeded.
    """
    profile, knobs, limits = context.profile, context.knobs, context.limits
    losses, stored = context.losses, context.stored
    dialect = direction.upstream.dialect
    names = NameTable(profile.tool_name_max, knobs.tool_prefixes)
    client = direction.client.dialect.facts
    conversation = client.conversation
    may_be_rounded = _may_be_rounded(payload, (client.instructions, conversation))
    if may_be_rounded and has_long_number(body):
        payload = parse_exactly(body, payload)
    try:
        check_parts(len(body), payload, conversation, limits)
        request: Request = direction.client.read_request(payload, losses, knobs, limits)
        if losses.may_be_rounded and not may_be_rounded and has_long_number(body):
            losses.restart()
            request = direction.client.read_request(parse_exactly(body, payload), losses, knobs, limits)
        distinct, settled, ids, whole, calls = pair_calls(request.turns)
        if calls > limits.calls:
            raise TooMany((conversation,), f"{calls} tool calls", "calls", limits.calls)
        if len(request.tools) > limits.tools:
            raise TooMany(("tools",), f"{len(request.tools)} tools", "tools", limits.tools)
        if request.stop:
            check_stops(request, limits)
        names.ids_fit = distinct and all_valid(ids, profile.call_id_max)
        if not distinct and dialect.facts.pairs_by_id:
            deduplicate_call_ids(request, losses)
        if stored is not None and direction.passthrough:
            request.store = False  # it is stored here, and must not be stored by the upstream too
        if knobs.null_arguments == "strip":
            context.nullable = nullable(request.tools)
        if client.agent_tools and request.tools:
            context.built_in = built_in_names(request.tools)
            if not profile.agent_messages:
                context.plain_calls = remove_encryption(request.tools)
        if ids or whole or request.tools or request.tool_choice is not None:
            context.tools = bridge_tools(request, whole, profile, knobs, losses, names)
        apply(request, dialect=dialect, profile=profile, knobs=knobs, losses=losses, settled=settled)
        if knobs.token_budget != "off":
            fit_budget(request, dialect=dialect, profile=profile, knobs=knobs, losses=losses)
        written = direction.upstream.write_request(
            request, model=upstream_model, profile=profile, knobs=knobs, losses=losses, names=names
        )
        sent = dumps(written)
    except ClientRequestError as error:
        error.name_field_of(payload)
        raise
    except RecursionError:
        raise ClientRequestError("", "the body is nested too deeply") from None
    losses.stop_rejecting()
    if stored is not None:
        stream = stream or stored.stream
        for row in stored.evicted:
            losses.add(*row)
    context.names = names.back
    context.include_usage = request.include_usage
    context.logprobs = request.logprobs
    context.moderation_requested = request.moderation is not None
    context.echo = request.echo
    if direction.client.restore_reasoning is not None:
        context.envelope = Envelope(profile.family or dialect, upstream_model)
    context.input_estimate = by_body(request, sent, dialect)
    if request.stop:
        context.sent_stops = _stops_sent(written, dialect.facts.stop_path)
        if knobs.stop_emulation == "on":
            already = frozenset(context.sent_stops)
            context.stops = tuple(stop for stop in request.stop if stop.strip() and stop not in already)
    return sent, stream


def _may_be_rounded(payload: Json, prompt: tuple[str | None, str]) -> bool:
    """True if there is a float in a schema or another option of the request, outside its `prompt`."""
    for key, value in payload.items():
        kind = type(value)
        if (kind is list or kind is dict) and key not in prompt and has_float(value):
            return True
    return False


def _stops_sent(written: Json, path: tuple[str, ...]) -> tuple[str, ...]:
    stops: Any = written if path else ()
    for name in path:
        stops = stops.get(name) or {}
    return (stops,) if type(stops) is str else tuple(stops)
