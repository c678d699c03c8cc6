"""Scripts of the simulated models: replies as sequences of steps that are independent of any dialect.

A model name that contains a script's name selects it; any other name selects `sim-text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest

import orjson

from dragoman_server.simulator.examples import PATCH, example_value
from dragoman_server.simulator.parse_request import Offer, RequestTurn
from dragoman_server.simulator.steps import (
    Ending,
    Failure,
    Finish,
    Reasoning,
    Refusal,
    Scenario,
    Step,
    Text,
    ToolArgs,
    ToolEnd,
    ToolStart,
)
from dragoman_server.simulator.tool_plan import Unplayable, count_images, next_calls

WEATHER = Offer("get_weather", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
TIME = Offer("get_time", {"type": "object", "properties": {"tz": {"type": "string"}}, "required": ["tz"]})


def scenario_for(turn: RequestTurn) -> Scenario:
    """Return the scenario that the turn's model name selects, with the turn's stop sequences applied."""
    model = turn.model
    if found := _ERROR.search(model):
        return Scenario(status=int(found[1]), variant=found[2] or "")
    if turn.empty:
        return Scenario((Finish("length"),))
    if found := _LONG.search(model):
        return _long(turn, int(found[1]), found[2] or "")
    if found := _CALL.search(model):
        return _named_call(turn, found[1])
    name = max((name for name in SCRIPTS if name in model), key=len, default="sim-text")
    scenario = SCRIPTS[name](turn)
    if not turn.thinks:
        scenario = replace(scenario, steps=tuple(s for s in scenario.steps if type(s) is not Reasoning))
    # An echo must remain valid JSON although it contains the stop sequences.
    if turn.stops and name != "sim-echo":
        scenario = replace(scenario, steps=_cut_at_stop(scenario.steps, turn.stops))
    return scenario


def _long(turn: RequestTurn, count: int, form: str) -> Scenario:
    """Return a reply of so many fragments: text, text behind as much reasoning, or the arguments of a call."""
    texts = [f"token{number} " for number in range(count)]
    if form == "thinking":
        half = count // 2 if turn.thinks else 0
        return Scenario((*map(Reasoning, texts[:half]), *map(Text, texts[half:]), Finish("stop")))
    if form == "call":
        tool = (_tools_to_call(turn, 1) or [WEATHER])[0]
        pieces = ['{"city":"', *texts, '"}']
        return Scenario(
            (ToolStart(0, tool), *(ToolArgs(0, piece) for piece in pieces), ToolEnd(0), Finish("tool_calls"))
        )
    return Scenario((*map(Text, texts), Finish("stop")))


def _text(turn: RequestTurn) -> Scenario:
    quoted = turn.last_user.strip()[:200] or "nothing"
    stop = "" if quoted[-1] in ".!?" else "."
    # U+2028 does not end a line of an event stream; a reader that splits there fails on this text.
    return Scenario(
        (*_texts("You said: ", quoted, f"{stop} Grüße", " 👋🏽", " aus 東京", "\u2028—", " done."), Finish("stop"))
    )


def _tools(turn: RequestTurn) -> Scenario:
    if turn.results:
        return _quote_results(turn)
    offers = _tools_to_call(turn, 1)
    if not offers:
        return _text(turn)
    return Scenario((*_texts("I will ", "look it up."), *_call(0, offers[0]), Finish("tool_calls")))


def _parallel(turn: RequestTurn) -> Scenario:
    if turn.results:
        return _quote_results(turn)
    offers = _tools_to_call(turn, 2 if turn.parallel else 1)
    if not offers:
        return _text(turn)
    calls = [_call(number, offer) for number, offer in enumerate(offers)]
    return Scenario((*_texts("Looking ", "up both."), *_side_by_side(calls), Finish("tool_calls")))


def _parallel_in_turn(turn: RequestTurn) -> Scenario:
    """Return the calls of `sim-parallel` one after the other, as the vendors send them."""
    scenario = _parallel(turn)
    calls = sorted((step for step in scenario.steps if isinstance(step, ToolStart | ToolArgs | ToolEnd)), key=_number)
    around = [step for step in scenario.steps if not isinstance(step, ToolStart | ToolArgs | ToolEnd)]
    return Scenario((*around[:-1], *calls, *around[-1:]))


def _number(step: ToolStart | ToolArgs | ToolEnd) -> int:
    return step.call


def _thinking(turn: RequestTurn) -> Scenario:
    reasoning = (Reasoning("The user needs"), Reasoning(" a look-up"), Reasoning(" – naïvely, one call. 🤔"))
    after = _tools(turn)
    return Scenario((*reasoning, *after.steps))


def _refusal(turn: RequestTurn) -> Scenario:
    return Scenario((Refusal("I can't"), Refusal(" help with that."), Finish("refusal")))


def _late_refusal(turn: RequestTurn) -> Scenario:
    return Scenario((*_texts("Step one", " is to"), Finish("content_filter")))


def _length(turn: RequestTurn) -> Scenario:
    return Scenario((*_texts("Writing. "), *_cut_call(turn), Finish("length")))


def _length_text(turn: RequestTurn) -> Scenario:
    return Scenario((*_texts("This answer ", "is too long and ends in the mid"), Finish("length")))


def _stop(turn: RequestTurn) -> Scenario:
    # A model without the stop sequence goes on after it; the sequence arrives in two fragments.
    wanted = turn.stops[0] if turn.stops else "###"
    return Scenario((*_texts("one, ", "two, ", f"three{wanted[:1]}", f"{wanted[1:]} never", " shown"), Finish("stop")))


def _empty(turn: RequestTurn) -> Scenario:
    return Scenario((Finish("stop"),))


def _json(turn: RequestTurn) -> Scenario:
    value = example_value(turn.schema) if turn.schema else {"answer": turn.last_user[:200]}
    return Scenario((*map(Text, _pieces(orjson.dumps(value).decode())), Finish("stop")))


def _echo(turn: RequestTurn) -> Scenario:
    return Scenario((Text(orjson.dumps(turn.body).decode()), Finish("stop")))


def _slow(turn: RequestTurn) -> Scenario:
    return replace(_text(turn), slow=True)


def _split(turn: RequestTurn) -> Scenario:
    return replace(_text(turn), split=7)


def _split_characters(turn: RequestTurn) -> Scenario:
    return replace(_text(turn), split_characters=True)


def _usage(turn: RequestTurn) -> Scenario:
    reasoning = (Reasoning("Counting"), Reasoning(" tokens"))
    return Scenario((*reasoning, *_texts("It ", "adds ", "up."), Finish("stop")), cache_write=3)


def _agent(turn: RequestTurn) -> Scenario:
    """Return the calls of the prompt's plan, with reasoning and text between them; at the end, the tools' results."""
    try:
        planned = next_calls(turn)
    except Unplayable as error:
        return Scenario((*_texts("The plan ", f"cannot be played: {error}."), Finish("stop")))
    if not planned:
        quoted = " and ".join(turn.answered) or "nothing"
        if seen := count_images(turn.body):
            quoted += f" (pictures: {seen})"
        reasoning = (Reasoning("That is"), Reasoning(" all there was to do."))
        return Scenario((*reasoning, *_texts("The tools", " said: ", *_pieces(quoted), "."), Finish("stop")))
    calls = [_call(number, call.tool, call.arguments) for number, call in enumerate(planned)]
    reasoning = (Reasoning("The plan says"), Reasoning(" what is next – naïvely, a call. 🤔"))
    words: tuple[Step, ...] = (*_texts("Now ", "as planned. "), Reasoning("It is there"), Reasoning(" to be called."))
    return Scenario((*reasoning, *words, *_side_by_side(calls), Finish("tool_calls")))


def _silent_agent(turn: RequestTurn) -> Scenario:
    return replace(_agent(turn), slow=True, silent=True)


def _named_call(turn: RequestTurn, name: str) -> Scenario:
    """Return one call of the tool `name` and nothing else, whatever precedes it."""
    tool = next((offer for offer in (*turn.offers, *turn.searches) if offer.name == name), Offer(name))
    return Scenario((*_call(0, tool), Finish("tool_calls")))


def _broken(ending: Ending, *last: Step, in_tool: bool = False) -> Callable[[RequestTurn], Scenario]:
    def script(turn: RequestTurn) -> Scenario:
        begun = _cut_call(turn) if in_tool else ()
        return Scenario((*_texts("Hel", "lo, here"), *begun, *last), ending)

    return script


SCRIPTS: dict[str, Callable[[RequestTurn], Scenario]] = {
    "sim-text": _text,
    "sim-tools": _tools,
    "sim-parallel": _parallel,
    "sim-parallel-in-turn": _parallel_in_turn,
    "sim-thinking": _thinking,
    "sim-agent": _agent,
    "sim-agent-cut": _agent,
    "sim-agent-silent": _silent_agent,
    "sim-refusal": _refusal,
    "sim-late-refusal": _late_refusal,
    "sim-length": _length,
    "sim-length-text": _length_text,
    "sim-stop": _stop,
    "sim-empty": _empty,
    "sim-json": _json,
    "sim-echo": _echo,
    "sim-slow": _slow,
    "sim-split": _split,
    "sim-split-characters": _split_characters,
    "sim-usage": _usage,
    "sim-error-mid": _broken(Ending.WHOLE, Failure()),
    "sim-error-mid-event": _broken(Ending.WHOLE, Failure(as_event=True)),
    "sim-error-mid-tools": _broken(Ending.WHOLE, Failure(), in_tool=True),
    "sim-cut": _broken(Ending.CUT),
    "sim-cut-tools": _broken(Ending.CUT, in_tool=True),
    "sim-cut-reset": _broken(Ending.RESET),
    "sim-missing": _broken(Ending.WHOLE),
    "sim-missing-tools": _broken(Ending.WHOLE, in_tool=True),
    "sim-stall": _broken(Ending.STALL),
    "sim-stall-tools": _broken(Ending.STALL, in_tool=True),
}
"""Scripts by name. Further names have parameters: `sim-error-STATUS[-quota|-context]`, `sim-long-N[-thinking|-call]`,
`sim-call-TOOL`.
`sim-agent-cut` plays `CUT_ONCE` for the first stream of each plan, then `sim-agent` (`app.py`)."""
CUT_ONCE = "sim-cut-tools"
"""The script of the first stream of each plan with `sim-agent-cut`."""

_ERROR = re.compile(r"sim-error-(\d{3})(?:-(quota|context))?")
_LONG = re.compile(r"sim-long-(\d+)(?:-(thinking|call))?")
_CALL = re.compile(r"sim-call-([a-zA-Z0-9_-]+)")


def _texts(*texts: str) -> tuple[Text, ...]:
    return tuple(Text(text) for text in texts if text)


def _quote_results(turn: RequestTurn) -> Scenario:
    quoted = " and ".join(result[:200] or "nothing" for result in turn.results)
    return Scenario((*_texts("The tool says: ", quoted, "."), Finish("stop")))


def _tools_to_call(turn: RequestTurn, count: int) -> list[Offer]:
    """Return the tools to call: the forced one, else the first ones offered, else weather and time."""
    if not turn.may_call:
        return []
    if turn.forced is not None:
        return [offer for offer in turn.offers if offer.name == turn.forced][:1] or [Offer(turn.forced)]
    if not turn.offers:
        return [WEATHER, TIME][:count]
    return [turn.offers[n % len(turn.offers)] for n in range(count)]


def _call(number: int, tool: Offer, arguments: str | None = None) -> tuple[Step, ...]:
    pieces = _pieces(_arguments(tool) if arguments is None else arguments)
    return (ToolStart(number, tool), *(ToolArgs(number, piece) for piece in pieces), ToolEnd(number))


def _side_by_side(calls: list[tuple[Step, ...]]) -> list[Step]:
    """Return the steps of parallel calls, interleaved fragment by fragment."""
    return [step for steps in zip_longest(*calls) for step in steps if step is not None]


def _cut_call(turn: RequestTurn) -> tuple[Step, ...]:
    """Return a call whose arguments end in the middle of a string."""
    tool = (_tools_to_call(turn, 1) or [WEATHER])[0]
    return ToolStart(0, tool), ToolArgs(0, '{"path":"no'), ToolArgs(0, "tes")


def _arguments(tool: Offer) -> str:
    if tool.custom:
        return PATCH
    value = example_value(tool.schema) if isinstance(tool.schema, dict) else {}
    return orjson.dumps(value if isinstance(value, dict) else {}).decode()


def _pieces(text: str) -> list[str]:
    size = max(4, -(-len(text) // 4))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _cut_at_stop(steps: tuple[Step, ...], stops: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the steps up to the first stop sequence in the visible text, without the sequence."""
    visible = "".join(step.text for step in steps if type(step) is Text)
    found = [(at, stop) for stop in stops if stop and (at := visible.find(stop)) >= 0]
    if not found:
        return steps
    left, stop = min(found)
    kept: list[Step] = []
    for step in steps:
        if type(step) is not Text:
            kept.append(step)
        elif len(step.text) < left:
            kept.append(step)
            left -= len(step.text)
        else:
            if left:
                kept.append(Text(step.text[:left]))
            break
    return (*kept, Finish("stop_sequence", stop))
