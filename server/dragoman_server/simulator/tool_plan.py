"""Plans: tool calls that the prompt lists, for `sim-agent` with a client that runs its tools.

    Do as planned. [[call Bash {"command": "ls"}]] [[call Write {"path": "a"} + Write {"path": "b"}]]

Each pair of brackets is one turn of the model, `+` joins parallel calls, and the arguments are JSON: an object, or a
string for a free-text tool. The number of results in the request selects the next calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson

from dragoman_server.simulator.parse_request import PLAN_MARK, Offer, RequestTurn

_PICTURES = ("image_url", "image", "input_image")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """An offered tool and its arguments: JSON, or the input of a free-text tool."""

    tool: Offer
    arguments: str


class Unplayable(Exception):
    """The plan cannot be played with the request's tools. The message becomes part of the reply."""


def next_calls(turn: RequestTurn) -> list[PlannedCall]:
    """Return the calls of this turn: none without a plan, at its end, or if the request allows no calls.

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


def count_images(part: Any) -> int:
    """Return the number of images in a body of any dialect."""
    if isinstance(part, list):
        return sum(map(count_images, part))
    if not isinstance(part, dict):
        return 0
    if part.get("type") in _PICTURES or str(part.get("mimeType")).startswith("image/"):
        return 1
    return sum(map(count_images, part.values()))


def _rounds(plan: str) -> list[list[tuple[str, Any]]]:
    rounds = []
    for part in plan.split(PLAN_MARK)[1:]:
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
    offer = _offered_tool(name, offers)
    if isinstance(arguments, str) and not offer.custom:
        # In a dialect without free-text tools, the tool is a function with one string parameter.
        field = next(iter((offer.schema or {}).get("properties") or {"input": None}))
        arguments = {field: arguments}
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return PlannedCall(offer, text)


def _offered_tool(name: str, offers: list[Offer]) -> Offer:
    """Return the tool `name`, or the only one whose name ends with it: a member of a flattened namespace."""
    for offer in offers:
        if offer.name == name:
            return offer
    suffixed = [offer for offer in offers if offer.name.endswith(name) and not offer.name[-len(name) - 1].isalnum()]
    if len(suffixed) != 1:
        raise Unplayable(f"no tool {name} is offered, only {', '.join(offer.name for offer in offers)}")
    return suffixed[0]
