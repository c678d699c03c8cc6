"""Replies of vendors over Responses: those of the simulator, encrypted where the host does that on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from dragoman_server.simulator import render_responses
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.reply import SimulatedReply, named_frame
from dragoman_server.simulator.steps import Scenario
from vendors.hosts import Host

INCLUDE = "reasoning.encrypted_content"
KEY = "encrypted_content"


def frames(host: Host, scenario: Scenario, reply: SimulatedReply) -> list[bytes]:
    """The frames of a stream."""
    rendered = render_responses.frames(scenario, reply)
    if _encrypts(host, reply.body):
        return rendered
    return [named_frame(_plain(orjson.loads(frame.partition(b"data: ")[2]))) for frame in rendered]


def whole_reply(host: Host, scenario: Scenario, reply: SimulatedReply) -> Json:
    """A reply that is not streamed."""
    _, whole = render_responses.whole_reply(scenario, reply)
    found: Json = whole if _encrypts(host, reply.body) else _plain(whole)
    return found


def encrypted(value: Any) -> Iterator[str]:
    """Yield the encrypted contents in a request or a reply."""
    if isinstance(value, dict):
        if value.get(KEY):
            yield value[KEY]
        for item in value.values():
            yield from encrypted(item)
    elif isinstance(value, list):
        for item in value:
            yield from encrypted(item)


def _encrypts(host: Host, body: Json) -> bool:
    return host.encrypts and INCLUDE in (body.get("include") or ())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != KEY}
    return [_plain(item) for item in value] if isinstance(value, list) else value
