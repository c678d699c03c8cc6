"""The judges of replies that come to their end: each one for all twelve directions, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from conformance import arrived
from conformance.judges import ANSWER, CHAT_TOOLS, REASONING, REFUSED
from conformance.rounds import RESULTS, City, Round
from conformance.samples import PNG
from conformance.speaker import Spent
from dragoman_server.simulator.render_generate import call_signature
from oracles.requests.generate import SKIP

LATE = "The answer was stopped by a safety classifier."
WITHHELD = "The upstream withheld the reply (SAFETY)."
OSLO = ("get_weather", {"city": "Oslo"})
CET = ("get_time", {"tz": "CET"})
TAG = "dgm1."
"""Begins reasoning that the gateway sealed for a client of another dialect."""
FINISH: dict[str, dict[str, str]] = {
    "end": {"chat": "stop", "messages": "end_turn", "responses": "completed"},
    "stop_sequence": {"chat": "stop", "messages": "stop_sequence"},
    "tool_calls": {"chat": "tool_calls", "messages": "tool_use", "responses": "completed"},
    "length": {"chat": "length", "messages": "max_tokens", "responses": "incomplete/max_output_tokens"},
    "refusal": {"chat": "stop", "messages": "refusal", "responses": "completed"},
    "filtered": {"chat": "content_filter", "messages": "refusal", "responses": "incomplete/content_filter"},
}
"""The reason for the end of a reply in each client's words (mapping §9.2)."""
_PREFIX = {"chat": "chatcmpl-", "messages": "msg_", "responses": "resp_"}


def _check(r: Round, finish: str, *, text: str = "", reasoning: str = "", calls: tuple[Any, ...] = ()) -> None:
    """Check what every reply has: the model's name, an id of the client's dialect, the text, the calls and the end."""
    received = r.received
    assert received.trouble is None
    assert received.model == r.model
    prefix = _PREFIX[r.client]
    assert received.id.startswith(prefix)
    assert not received.id.removeprefix(prefix).startswith(tuple(_PREFIX.values())), "one prefix in place of the other"
    assert len(received.id) > 20
    assert (received.text, received.reasoning) == (text, reasoning)
    assert [(call.name, json.loads(call.arguments)) for call in received.calls] == list(calls)
    assert len({call.id for call in received.calls}) == len(calls)
    assert received.finish == FINISH[finish][r.client]
    for body in r.bodies:
        if r.upstream != "generate":  # whose path has both
            assert body["model"] == r.script
            assert bool(body.get("stream")) is r.streamed
        if not r.same:
            _check_cross(r, body)


def _check_cross(r: Round, body: Any) -> None:
    """Return what the gateway owes an upstream of another dialect, whatever was asked."""
    match r.upstream:
        case "chat":
            assert (body.get("stream_options") or {}).get("include_usage") is (True if r.streamed else None)
        case "messages":
            assert body["max_tokens"] > 0, "Messages demands a cap"
        case "generate":
            assert not {"model", "stream"} & body.keys(), "Google refuses fields that it does not know"
        case _:
            assert body["store"] is False, "Responses keeps what nobody asked it to keep"


def _tokens(r: Round, output: int, *, reasoning: int = 0, written: int = 0) -> None:
    """The prompt has 12 tokens, 4 of them from a cache (mapping §9.4; T-31)."""
    assert r.received.spent == Spent(12, 4, written, output, reasoning)


def _order(r: Round, *kinds: str) -> None:
    """Of a whole Chat reply nothing reports it. Gemini's signature is reasoning where its part is signed."""
    if r.upstream == "generate" and r.client != "chat":
        kinds = _with_signature(r, kinds)
    if r.client != "chat" or r.streamed:
        assert r.received.order == list(kinds)


def _with_signature(r: Round, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds with the block that carries a signature: in front of the first call, or behind the text."""
    if "call" in kinds:
        first = kinds.index("call")
        return *kinds[:first], "reasoning", *kinds[first:]
    if not r.streamed and kinds[:1] == ("reasoning",):
        return kinds
    return *kinds, "reasoning"


def text(r: Round) -> None:
    """Words, and the cap that was asked for."""
    _check(r, "end", text=ANSWER)
    _tokens(r, 7)
    _order(r, "text")
    assert arrived.cap(r.upstream, r.sent) == r.ask.cap


def one_call(r: Round) -> None:
    """The tools arrive as they were declared; the call keeps the upstream's id."""
    _check(r, "tool_calls", text="I will look it up.", calls=(OSLO,))
    _tokens(r, 6)
    _order(r, "text", "call")
    _declared(r)
    [call] = r.received.calls
    assert call.id.startswith({"messages": "toolu_", "generate": ""}.get(r.upstream, "call_"))


def _declared(r: Round) -> None:
    plain = [tool["function"] for tool in CHAT_TOOLS]
    wanted = [(tool["name"], tool["description"], tool["parameters"]) for tool in plain]
    assert arrived.tools(r.upstream, r.sent) == wanted


def two_calls(r: Round) -> None:
    """T-01, T-02, T-03: each fragment lands in its own call, and none is closed by the other's start.

    Messages clients may know one open block only, and OpenAI's Chat helper takes a call for done when another one
    uses: they get them one after the other, the second as far as it had come in one piece.
    """
    _check(r, "tool_calls", text="Looking up both.", calls=(OSLO, CET))
    _tokens(r, 9)
    _order(r, "text", "call", "call")
    if r.streamed:
        order = r.received.fragments
        assert set(order) == {0, 1}
        whole = r.upstream == "generate"
        in_turn = whole or (r.client != "responses" and not r.same)
        assert order.count(0) >= (1 if whole else 3)
        assert order.count(1) >= (1 if in_turn else 3)
        assert (order == sorted(order)) is in_turn, "else they come as the upstream interleaved them"
    assert "parallel_tool_calls" not in r.sent or r.sent["parallel_tool_calls"] is True


def no_parallel(r: Round) -> None:
    """One call at most was asked for, in the upstream's own words."""
    both = r.upstream == "generate"  # which has no such switch
    _check(r, "tool_calls", text="Looking up both.", calls=(OSLO, CET) if both else (OSLO,))
    if r.upstream == "messages":
        assert r.sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    elif not both:
        assert r.sent["parallel_tool_calls"] is False


def thinking(r: Round) -> None:
    """T-12, T-14: reasoning is neither lost nor shown as the answer; only the upstream's own proof is passed on."""
    _check(r, "tool_calls", text="I will look it up.", reasoning=REASONING, calls=(OSLO,))
    _tokens(r, 9, reasoning=3)
    _order(r, "reasoning", "text", "call")
    assert arrived.effort(r.upstream, r.sent) == "high"
    # T-10: an invented proof would be refused on replay, a foreign one must be known as such.
    if r.client == "chat" or r.upstream == "chat":
        assert r.received.proof == ""
    else:
        assert r.received.proof.startswith(TAG) is not r.same
        assert r.received.proof


def not_thinking(r: Round) -> None:
    """Switched off explicitly, in the upstream's own words."""
    _check(r, "tool_calls", text="I will look it up.", calls=(OSLO,))
    assert arrived.effort(r.upstream, r.sent) == ("low" if r.upstream == "generate" else "none")
    assert bool(r.received.proof) is (r.upstream == "generate" and r.client != "chat")


def replayed(r: Round) -> None:
    """The upstream refuses every proof that it did not make, and checks its own: it got it back untouched, or not."""
    _check(r, "end", text=f"The tool says: {RESULTS[0]}.", reasoning=REASONING)
    assert r.first is not None
    assert arrived.results(r.upstream, r.sent) == [(r.first.calls[0].id, RESULTS[0])]
    replay = arrived.reasoning(r.upstream, r.sent)
    if r.upstream == "generate":
        assert replay == [SKIP if r.client == "chat" else call_signature(*OSLO)]
        return
    if "chat" in (r.client, r.upstream):
        assert replay == ([REASONING] if r.same else [])
        return
    [block] = replay
    if r.upstream == "messages":
        assert (block["type"], block["thinking"]) == ("thinking", REASONING)
        assert block["signature"]
    else:
        assert block["summary"] == [{"type": "summary_text", "text": REASONING}]
        assert block["encrypted_content"]
        assert not block.get("content"), "the API takes no plain reasoning"


def results(r: Round) -> None:
    """Both results, each for its call, behind what the client saw."""
    _check(r, "end", text=f"The tool says: {RESULTS[0]} and {RESULTS[1]}.")
    assert r.first is not None
    ids = [call.id for call in r.first.calls]
    assert arrived.results(r.upstream, r.sent) == list(zip(ids, RESULTS, strict=True))
    _declared(r)


def refusal(r: Round) -> None:
    """A refusal is a result, not an error (mapping §9.3; knob `refusal_terminal`)."""
    wording = REFUSED if r.client == "messages" != r.upstream else ""
    _check(r, "refusal", text=wording)
    _tokens(r, 0 if r.upstream in ("messages", "generate") else 2)
    assert r.received.refusal == REFUSED


def late_refusal(r: Round) -> None:
    """A filter that stopped an answer is never a clean end."""
    _check(r, "filtered", text="Step one is to")
    _tokens(r, 2)
    noted = {"messages": LATE, "generate": WITHHELD}.get(r.upstream, "")
    if r.client == "chat" and r.streamed:
        noted = ""
    assert r.received.refusal == noted


def truncated(r: Round) -> None:
    """The cap ended it, and states it."""
    _check(r, "length", text="This answer is too long and ends in the mid")
    _tokens(r, 2)
    assert arrived.cap(r.upstream, r.sent) == r.ask.cap


def truncated_call(r: Round) -> None:
    """T-05: what the model had stated of the call, and no bracket more."""
    received = r.received
    assert received.trouble is None
    assert received.finish == FINISH["length"][r.client]
    assert received.text == "Writing. "
    if not r.streamed and not r.same and r.client == "messages":
        assert received.calls == []
        return
    if r.upstream == "generate":
        assert received.calls == []
        return
    [call] = received.calls
    assert call.name == "get_weather"
    # A whole Messages reply has an object, so the simulated model loses what it had stated; none are made up.
    lost = "{}" if r.same else ""
    assert call.arguments == (lost if not r.streamed and r.upstream == "messages" else '{"path":"notes')
    _tokens(r, 3)


def stopped(r: Round) -> None:
    """The text before the sequence, of which no character shows; Messages reports the sequence if it is known."""
    noted = not (r.client == "messages" and r.upstream in ("chat", "generate"))
    _check(r, "stop_sequence" if noted else "end", text="one, two, three")
    assert r.received.stop == ("###" if r.client == "messages" and noted else None)
    assert arrived.stops(r.upstream, r.sent) == ([] if r.upstream == "responses" else list(r.ask.stops))
    if r.upstream != "responses":
        _tokens(r, 3)
    elif not r.streamed:
        _tokens(r, 5)
    elif r.client == "chat":
        assert r.received.spent is None
    else:
        assert r.received.spent is not None
        assert r.received.spent.input > 0
        assert r.received.spent.output > 0


def usage(r: Round) -> None:
    """Read from a cache, written to one, and spent on reasoning: no count is lost or counted twice."""
    if r.upstream == "generate":
        _check(r, "end", text="It adds up.")
        _tokens(r, 5, reasoning=2)
        return
    _check(r, "end", text="It adds up.", reasoning="Counting tokens")
    _tokens(r, 5, reasoning=2, written=3)


def empty(r: Round) -> None:
    """Legal, and no error (mapping §9.1)."""
    _check(r, "end")
    _tokens(r, 0)


def image(r: Round) -> None:
    """The very picture arrives."""
    _check(r, "end", text=ANSWER)
    assert arrived.images(r.upstream, r.sent) == [PNG]


def structured(r: Round) -> None:
    """The schema arrives in the upstream's form, and the SDK parses the answer."""
    _check(r, "end", text='{"city":"Oslo","population":1}')
    assert r.received.parsed == City(city="Oslo", population=1)
    for body in r.bodies:
        asked = arrived.schema(r.upstream, body)
        assert set(asked["properties"]) == {"city", "population"}
        assert asked["required"] == ["city", "population"]
        assert asked["additionalProperties"] is False
