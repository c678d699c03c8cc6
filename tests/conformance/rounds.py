"""One round: a question asked in one direction and one mode, what was read, and what reached the upstream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from conformance.served import Served, model_at, path_at
from conformance.speaker import Ask, Call, Received, Speaker

DIALECTS = ("chat", "messages", "responses")
"""The dialects of clients."""
UPSTREAMS = (*DIALECTS, "generate")
OVERLOADED = {"chat": 503, "messages": 529, "responses": 503, "generate": 503}
"""The status by which each vendor states that it is overloaded."""
RESULTS = ("-3 °C, sunny ☀", "09:30")


class City(BaseModel):
    """A structured answer."""

    city: str
    population: int


@dataclass(frozen=True, slots=True)
class Round:
    """`heard` is the judged reply, `bodies` what reached the upstream for it, oldest first."""

    client: str
    upstream: str
    streamed: bool
    script: str
    model: str
    ask: Ask
    received: Received
    bodies: Sequence[Any]
    first: Received | None = None
    """Of a case with two requests: the first reply."""

    @property
    def same(self) -> bool:
        """True for a passthrough."""
        return self.client == self.upstream

    @property
    def sent(self) -> Any:
        """The last body that reached the upstream."""
        return self.bodies[-1]


async def play(
    served: Served, speaker: Speaker, upstream: str, mode: str, script: str, ask: Ask, *, answered: bool = False
) -> Round:
    """Ask, streamed or whole; streamed twice, by the SDK's helper and by its plain iterator, which must agree."""
    script = script.format(overloaded=OVERLOADED[upstream])
    model = model_at(upstream, script)
    first = None
    if answered:
        first = await _receive(speaker, mode, model, ask)
        ask = replace(ask, after=first, results=RESULTS[: len(first.calls)])
    served.requests.clear()
    received = await _receive(speaker, mode, model, ask)
    path = path_at(upstream, script, streamed=mode == "stream")
    assert {request.path for request in served.requests} == {path}
    bodies = [request.body for request in served.requests]
    assert all(body == bodies[0] or _but_usage(body) == _but_usage(bodies[0]) for body in bodies)
    return Round(speaker.dialect, upstream, mode == "stream", script, model, ask, received, bodies, first)


def _but_usage(body: Any) -> Any:
    return {key: value for key, value in body.items() if key not in ("stream_options", "response_format", "text")}


async def _receive(speaker: Speaker, mode: str, model: str, ask: Ask) -> Received:
    if mode == "whole":
        return await speaker.whole(model, ask)
    plain = await speaker.raw(model, ask)
    received = await speaker.stream(model, ask)
    reset = model.endswith("sim-cut-reset")  # How much of it arrives is chance.
    if not reset:
        assert _essence(plain) == _essence(received)
    return received


def _essence(received: Received) -> tuple[object, ...]:
    """Return what both ways of reading a stream must agree on. Ids are the upstream's, which are fresh each time."""
    trouble = received.trouble and (
        received.trouble.raised,
        received.trouble.status,
        received.trouble.type,
        received.trouble.code,
    )
    return received.text, received.reasoning, _written(received.calls), received.finish, trouble


def _written(calls: list[Call]) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in calls]
