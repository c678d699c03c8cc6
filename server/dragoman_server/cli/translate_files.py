"""`dragoman translate`: translates a request body, a whole reply or a recorded stream, without any network."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

from dragoman import ClientRequestError, Dialect, Failure, Knobs, Losses, Profile, Translation, direction, translate
from dragoman.gateway import CLIENT_DIALECTS
from dragoman.wire import Json, json_loads
from dragoman_server.cli.named_files import read_input, write_result
from dragoman_server.cli.options import add_dialect
from dragoman_server.cli.translation_options import add_translation, knobs_of, profile_of

KINDS = ("request", "reply", "stream")


class Converted(NamedTuple):
    """Bytes and losses of a translation; `failure` is the error that a translated stream ends with, if any."""

    data: bytes
    losses: Losses
    failure: Failure | None = None


_MODEL_FIELDS = tuple(dict.fromkeys(dialect.facts.model_field for dialect in Dialect))
NO_MODEL = "unknown"
"""Model name in a translated reply whose input has no model name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_dialect(parser, "--from", dest="source", required=True, help="dialect of the input")
    add_dialect(parser, "--to", dest="target", required=True, help="dialect to translate into")
    parser.add_argument("--kind", choices=KINDS, help="kind of the input (default: detected)")
    add_translation(parser)
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Translate the file. Return 1 if a stream ends in an error. Raises CommandError, DragomanError, OSError."""
    source, target = Dialect(args.source), Dialect(args.target)
    data = read_input(args.file)
    kind = args.kind or kind_of(data)
    profile = profile_of(args, target if kind == "request" else source)
    converted = convert(data, source, target, kind=kind, model=args.model, profile=profile, knobs=knobs_of(args.knob))
    write_result(converted.data)
    for loss in converted.losses:
        print(f"loss {loss}", file=sys.stderr)
    if not converted.losses:
        print("no losses", file=sys.stderr)
    if converted.failure is not None:
        print(f"dragoman: the stream ends in an error: {converted.failure.message}", file=sys.stderr)
        return 1
    return 0


def kind_of(data: bytes) -> str:
    """Return the kind of the data: `request`, `reply` or `stream`. Raises ClientRequestError for other data."""
    head = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return "stream"
    try:
        body = json_loads(data)
    except ValueError as error:
        raise ClientRequestError("", f"neither an event stream nor JSON: {error}") from None
    if type(body) is dict:
        if _dialect_of(body) is not None:
            return "reply"
        if any(dialect.facts.conversation in body for dialect in Dialect):
            return "request"
    raise ClientRequestError("", "neither a request body nor a reply of any dialect; use --kind to set its kind")


def convert(
    data: bytes,
    source: Dialect,
    target: Dialect,
    *,
    kind: str,
    model: str | None = None,
    profile: Profile,
    knobs: Knobs,
) -> Converted:
    """Translate a request body, a whole reply or a recorded stream.

    A request is read as one of a `source` client and written for a `target` upstream; a reply or a stream as one of a
    `source` upstream, written for a `target` client. `model` replaces the input's own. Raises DragomanError.
    """
    client = source if kind == "request" else target
    if client not in CLIENT_DIALECTS:
        raise ClientRequestError("", f"clients do not use {client}: it is a dialect of upstreams only")
    if kind == "request":
        translation = translate(direction(source, target), data, upstream_model=model, profile=profile, knobs=knobs)
        return Converted(translation.body, translation.losses)
    found, named = None, None
    for payload in _payloads(data, kind):
        found, named = found or _dialect_of(payload), named or _model_of(payload)
        if found and named:
            break
    if found is not None and found is not source:
        raise ClientRequestError("", f"this is a {kind} of the dialect {found}, not of {source}; use --from {found}")
    way = direction(target, source)
    translation = Translation.for_reply(way, named or NO_MODEL, model=model, profile=profile, knobs=knobs)
    if kind == "reply":
        return Converted(translation.reply(data), translation.losses)
    machine = translation.stream_machine()
    return Converted(machine.feed(data) + machine.finish(), translation.losses, machine.failure)


def _payloads(data: bytes, kind: str) -> Iterator[Json]:
    """Yield the JSON object of a reply, or the objects of a stream's frames."""
    if kind == "reply":
        texts = [data]
    else:
        texts = [line[5:] for line in data.splitlines() if line.startswith(b"data:")]
    for text in texts:
        try:
            payload = json_loads(text)
        except ValueError:
            continue
        if type(payload) is dict:
            yield payload


def _dialect_of(payload: Json) -> Dialect | None:
    """Return the dialect of a whole reply or of an event's payload, or None if it is not recognizable."""
    kind = payload.get("type")
    word = kind if type(kind) is str else ""
    for dialect in Dialect:
        signs = dialect.facts.reply_signs
        if word in signs.types or word.startswith(signs.type_prefix) or payload.get("object") == signs.object:
            return dialect
        if not signs.fields.isdisjoint(payload):
            return dialect
    return None


def _model_of(payload: Json) -> str | None:
    """Return the model that a whole reply or an event's payload names: at the top, in its message or its response."""
    for place in (payload, payload.get("message"), payload.get("response")):
        for field in _MODEL_FIELDS:
            if type(place) is dict and type(model := place.get(field)) is str and model:
                return model
    return None
