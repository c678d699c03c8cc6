"""One call for a translation in any direction, and one for a whole stream through it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from dragoman import Dialect, Direction, Knobs, Translation, builtin_profile, translate
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.gateway import DIRECTIONS, ReplyOptions
from oracles.grammar import Accumulated, chat, messages, responses
from oracles.grammar.responses import check_failure
from oracles.grammar.sse import Item

from .generate_upstreams import generate_streams
from .responses_upstreams import responses_streams
from .upstreams import Upstream, chat_streams, messages_streams

Json = dict[str, Any]

CROSS = [row for row in DIRECTIONS.values() if not row.passthrough]
PASSTHROUGH = [row for row in DIRECTIONS.values() if row.passthrough]
ALL = list(DIRECTIONS.values())
DIALECTS = list(CLIENT_DIALECTS)

profiles = st.sampled_from((None, "compatible"))
"""Names of the shipped profiles; None is the dialect's own vendor's."""


def ask(dialect: str, **fields: Any) -> Json:
    """A small valid request of a client dialect that asks for a stream."""
    stated = [{"role": "user", "content": "Hi"}]
    if dialect == "responses":
        return {"model": "m", "input": stated, "max_output_tokens": 1000, "stream": True, **fields}
    body: Json = {"model": "m", "messages": stated, "max_tokens": 1000, "stream": True}
    if dialect != "messages":
        body["stream_options"] = {"include_usage": True}
    return body | fields


def translated(
    row: Direction, body: Json | None = None, *, profile: str | None = None, knobs: Knobs | None = None, **fields: Any
) -> Translation:
    """A translated request (a small one with `fields`, unless `body` is given), ready for its reply."""
    return translate(
        row,
        json.dumps(ask(row.client.dialect, **fields) if body is None else body).encode(),
        profile=builtin_profile(row.upstream.dialect, profile),
        knobs=knobs or Knobs(),
        options=ReplyOptions(created=1_790_000_000, request_id="req_1"),
    )


def stream_through(translation: Translation, pieces: Iterable[bytes]) -> bytes:
    """Return what the client gets, by the drivers' rule: nothing is read behind a stage that is done."""
    machine = translation.stream_machine()
    out = []
    for piece in pieces:
        out.append(machine.feed(piece))
        if machine.done:
            break
    out.append(machine.finish())
    return b"".join(out)


def judge(dialect: str, data: bytes, *, own: bool = True) -> Accumulated:
    """The strict grammar of a client's stream, `own` if it was translated. Raises GrammarError."""
    if dialect == "responses":
        return responses.check(data, own=own)
    return messages.check(data) if dialect == "messages" else chat.check(data, include_usage=True, stops=True)


def error_of(dialect: str, item: Item) -> Json | None:
    """The in-band error that an item of a client's stream is, or None."""
    if item.data is None or item.data == b"[DONE]":
        return None
    payload = json.loads(item.data)
    if type(payload) is not dict:
        return None
    if dialect == "responses":
        return _failed_response(payload, item.event)
    if "error" not in payload:
        return None
    if dialect == "messages":
        assert item.event == "error"
        return messages.check_error(payload)
    return chat.check_error(payload["error"])


def _failed_response(payload: Json, event: str) -> Json | None:
    """The failure in a Responses stream; what an upstream sends nested or flat passes through as it is."""
    match payload.get("type"):
        case "response.failed":
            assert event in ("response.failed", "")
            return check_failure(payload["response"]["error"])
        case "error":
            error = payload.get("error")
            return error if type(error) is dict else payload
        case _:
            return None


def upstream_streams(dialect: Dialect, *, quirks: bool = True) -> st.SearchStrategy[Upstream]:
    """Legal (and tolerated) streams of an upstream dialect."""
    if dialect is Dialect.RESPONSES:
        return responses_streams(quirks=quirks)
    if dialect is Dialect.GENERATE:
        return generate_streams(quirks=quirks)
    return messages_streams(quirks=quirks) if dialect is Dialect.MESSAGES else chat_streams(quirks=quirks)
