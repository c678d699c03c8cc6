"""Calls that a prompt dictates: what `sim-agent` does for a client whose tools really run.

    Do as planned. [[call Bash {"command": "ls"}]] [[call Write {"path": "a"} + Write {"path": "b"}]]

Each pair of brackets is one turn of the model, `+` joins parallel calls, and the arguments are JSON: an object, or a
string for a free-text tool. What is called next follows from how many results came back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson

from dragoman_server.simulator.parse_request import PLANNED, Offer, Turn

_PICTURES = ("image_url", "image", "input_image")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool that was offered, and what to give it: JSON, or a free-text tool's input."""

    tool: Offer
    arguments: str


class Unplayable(Exception):
    """The plan cannot go on with what the request offers. The message says why, for whoever reads the reply."""


def next_calls(turn: Turn) -> list[PlannedCall]:
    """The calls of this turn; none where there is no plan, where it is done, or where nothing may be called.

    Raises Unplayable if a tool is not offered or the plan is malformed.
    """
    offers = [*turn.offers, *turn.searches]
    if not offers or not turn.may_call:
        return []
    answered = len(turn.answered)
    for calls in _rounds(turn.plan):
        if answered <= 0:
            return [_planned(name, arguments, offers) for name, arguments in calls]
        answered -= len(calls)
    return []


def pictures(part: Any) -> int:
    """How many pictures stand anywhere in a body, of whatever dialect."""
    if isinstance(part, list):
        return sum(map(pictures, part))
    if not isinstance(part, dict):
        return 0
    return 1 if part.get("type") in _PICTURES else sum(map(pictures, part.values()))


def _rounds(plan: str) -> list[list[tuple[str, Any]]]:
    rounds = []
    for part in plan.split(PLANNED)[1:]:
        calls = []
        rest = part
        while True:
            name, _, rest = rest.strip().partition(" ")
            try:
                arguments, end = _DECODER.raw_decode(rest)
            except ValueError as error:
                raise Unplayable(f"the arguments of {name} are not JSON: {error}") from None
            calls.append((name, arguments))
            rest = rest[end:].lstrip()
            if not rest.startswith("+"):
                break
            rest = rest[1:]
        rounds.append(calls)
    return rounds


def _planned(name: str, arguments: Any, offers: list[Offer]) -> PlannedCall:
    offer = _found(name, offers)
    if isinstance(arguments, str) and not offer.custom:
        # A free-text tool where the dialect has none comes as a function with one string.
        field = next(iter((offer.schema or {}).get("properties") or {"input": None}))
        arguments = {field: arguments}
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return PlannedCall(offer, text)


def _found(name: str, offers: list[Offer]) -> Offer:
    """The tool of that name, or the only one whose name ends with it: a member of a namespace that was flattened."""
    for offer in offers:
        if offer.name == name:
            return offer
    behind = [offer for offer in offers if offer.name.endswith(name) and not offer.name[-len(name) - 1].isalnum()]
    if len(behind) != 1:
        raise Unplayable(f"no tool {name} is offered, only {', '.join(offer.name for offer in offers)}")
    return behind[0]
