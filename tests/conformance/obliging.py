"""An upstream model that does what a judge's prompt asks for: calls tools with what the prompt names, or writes JSON.

Published judges bring prompts of their own and look at the arguments of the calls.
"""

from __future__ import annotations

import json
import re
from typing import Any

from dragoman_server.simulator.examples import example_value
from dragoman_server.simulator.parse_request import RequestTurn
from dragoman_server.simulator.steps import Finish, Reasoning, Scenario, Step, Text, ToolArgs, ToolEnd, ToolStart

NAME = "sim-obliging"
_NUMBER = re.compile(r"-?\d+")
_JOKE = {"setup": "Why?", "punchline": "Because."}
_PERSON = {"name": "Ada", "age": 1}
_QUOTED = re.compile(r"'([^']+)'")


def obliging(turn: RequestTurn) -> Scenario:
    """Return a call if tools are offered and no results wait for an answer, else JSON if asked for, else a text."""
    reasoned = (Reasoning("15 times 37"), Reasoning(" is 555.")) if _asked_to_think(turn.body) else ()
    must = turn.forced is not None or turn.body.get("tool_choice") in ("required", {"type": "any"})
    if turn.offers and turn.may_call and (must or not turn.results):
        tool = next((offer for offer in turn.offers if offer.name == turn.forced), turn.offers[0])
        everything = {**(schema := tool.schema or {}), "required": [*schema.get("properties", ())]}
        arguments = json.dumps(_filled(example_value(everything), turn), ensure_ascii=False)
        half = len(arguments) // 2
        call: tuple[Step, ...] = (ToolStart(0, tool), ToolArgs(0, arguments[:half]), ToolArgs(0, arguments[half:]))
        return Scenario((*reasoned, *call, ToolEnd(0), Finish("tool_calls")))
    if turn.schema is not None or "as a JSON" in turn.last_user:
        value = example_value(turn.schema) if turn.schema else _JOKE if "'setup'" in turn.last_user else _PERSON
        return Scenario((*reasoned, Text(json.dumps(_filled(value, turn), ensure_ascii=False)), Finish("stop")))
    quoted = " and ".join(turn.results) or turn.last_user or "nothing"
    return Scenario((*reasoned, Text("As you say: "), Text(quoted[:200]), Text("."), Finish("stop")))


def _asked_to_think(body: Any) -> bool:
    thinking = body.get("thinking") or {}
    effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
    return thinking.get("type") in ("enabled", "adaptive") or effort not in (None, "none")


def _filled(value: Any, turn: RequestTurn) -> Any:
    """Return the example with the prompt's first number and its first quoted text in place of the invented ones."""
    if isinstance(value, dict):
        return {key: _filled(inner, turn) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, turn) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool):
        found = _NUMBER.search(turn.last_user)
        return int(found[0]) if found else value
    if isinstance(value, str) and (found := _QUOTED.search(turn.last_user)):
        return found[1]
    return value
