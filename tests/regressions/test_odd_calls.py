"""Calls that servers write in a form of their own, whole and streamed: what they mean is certain, so they are read.

The arguments that reach a client are always those that the model wrote, and each call is run once.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError
from oracles.grammar import Accumulated, Call
from regressions import wire
from regressions.repaired import REPAIRED, replied, restored, rows
from regressions.test_ends_whole import called
from regressions.wire import CHAT, DONE, MESSAGES, ROLE, USAGE, calls, chunk, more_call, start_call
from support import responses_frames as emitted
from support.directions import Json
from support.responses_samples import numbered

RESPONSES = "responses"
CLIENTS = {CHAT: [MESSAGES, RESPONSES], MESSAGES: [CHAT, RESPONSES], RESPONSES: [CHAT, MESSAGES]}
cross = pytest.mark.parametrize(
    ("client", "upstream"), [(client, upstream) for upstream, clients in CLIENTS.items() for client in clients]
)
clients = pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
every = pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
streamed = pytest.mark.parametrize(
    ("client", "upstream"),
    [(client, upstream) for upstream in (CHAT, MESSAGES) for client in (CHAT, MESSAGES, RESPONSES)]
    + [(CHAT, RESPONSES), (MESSAGES, RESPONSES)],
)
"""All directions but from Responses to Responses."""
CALLS, USED = chunk({}, "tool_calls"), chunk(None, usage=USAGE)
ODD = [
    ('{}{"f":"a"}', '{"f":"a"}', "an empty object came before the arguments"),
    ('"{\\"f\\":\\"a\\"}"', '{"f":"a"}', "arguments were encoded twice"),
    ("null", "{}", "arguments were null"),
]
odd = pytest.mark.parametrize(("sent", "meant", "repair"), ODD, ids=["empty first", "encoded twice", "null"])


def _stream(upstream: str, pieces: list[str]) -> list[bytes]:
    """A stream with one call, whose arguments come in these pieces."""
    if upstream == CHAT:
        fragments = [calls(more_call(0, piece)) for piece in pieces]
        return [ROLE, calls(start_call(0, "call_a", "read")), *fragments, CALLS, USED, DONE]
    if upstream == MESSAGES:
        deltas = [wire.delta(0, "input_json", piece) for piece in pieces]
        return [wire.begin(), wire.tool(0, "call_a", "read"), *deltas, wire.stop(0), wire.end("tool_use")]
    item = emitted.call("call_a", "read", "".join(pieces))
    events = [emitted.at(0, "function_call_arguments.delta", delta=piece) for piece in pieces]
    start = emitted.added(0, **{**item, "arguments": "", "status": "in_progress"})
    whole = emitted.response("completed", [item], usage=emitted.USAGE)
    end = {"type": "response.completed", "response": whole}
    return list(numbered(emitted.created(), start, *events, emitted.done(0, **item), end))


def _whole(upstream: str, arguments: str) -> Json:
    if upstream == CHAT:
        return wire.chat_reply("tool_calls", tool_calls=[start_call(0, "call_a", "read", arguments)])
    if upstream == MESSAGES:
        use = {"type": "tool_use", "id": "call_a", "name": "read", "input": arguments}
        return wire.messages_reply("tool_use", use)
    return emitted.response("completed", [emitted.call("call_a", "read", arguments)])


def _arguments(client: str, got: Json) -> Any:
    if client == CHAT:
        return json.loads(got["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    if client == MESSAGES:
        return got["content"][0]["input"]
    return json.loads(got["output"][0]["arguments"])


@streamed
@odd
@pytest.mark.parametrize("size", [1, 2, 100])
def test_T06_odd_arguments_with_one_meaning(
    client: str, upstream: str, sent: str, meant: str, repair: str, size: int
) -> None:
    """`{}` before the real arguments (openai/openai-agents-js#712), a JSON text of the JSON text
    (vllm-project/vllm#54964), `null` (1jehuang/jcode#225): each ended the turn in an error."""
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    if sent.startswith("{}"):  # servers send the empty object in a fragment of its own
        pieces = ["{}", *(meant[at : at + size] for at in range(0, len(meant), size))]
    held, done, _ = restored(client, upstream, *_stream(upstream, pieces))
    assert held.error is None
    assert [(call.name, json.loads(call.arguments)) for call in held.calls] == [("read", json.loads(meant))]
    assert done == [repair]


@cross
@odd
def test_T06_odd_arguments_of_a_whole_reply(client: str, upstream: str, sent: str, meant: str, repair: str) -> None:
    """A call whose arguments had another form ended the turn."""
    got, translation = replied(client, upstream, _whole(upstream, sent))
    assert called(client, got) == [("call_a", "read")]
    assert _arguments(client, got) == json.loads(meant)
    assert repair in rows(translation, REPAIRED)


@cross
@pytest.mark.parametrize("sent", ['{"f":"a"}{"f":"b"}', '"{\\"f\\""', '"text"', "nul", "[{}]", '{} {"f"'])
def test_T06_arguments_that_mean_nothing_certain_stay_an_error(client: str, upstream: str, sent: str) -> None:
    """A guess would run a tool with arguments that the model did not write."""
    held, _, _ = restored(client, upstream, *_stream(upstream, [sent]))
    assert held.error is not None
    with pytest.raises(DragomanError):
        replied(client, upstream, _whole(upstream, sent))


AGAIN = "arguments were sent again"
REPEATED = {
    "each fragment repeats those before": ['{"f"', '{"f":', '{"f":"a"', '{"f":"a"}'],
    "repeated in the place of a value": ['{"f":', '{"f":"a"}'],
    "an object behind its fragments": ['{"f":', '"a"}', '{"f":"a"}'],
    "in another format": ['{"f":', '"a"}', '{"f": "a"}'],
    "in fragments": ['{"f":', '"a"}', '{"f":', '"a"}'],
    "in one fragment": ['{"f":"a"}{"f":"a"}'],
}


@streamed
@pytest.mark.parametrize("pieces", REPEATED.values(), ids=REPEATED)
def test_T06_arguments_that_are_sent_again(client: str, upstream: str, pieces: list[str]) -> None:
    """Fragments that each hold all of the arguments so far, and a whole object behind its own fragments, ended the turn
    in an error."""
    held, done, _ = restored(client, upstream, *_stream(upstream, pieces))
    assert held.error is None
    assert [(call.name, json.loads(call.arguments)) for call in held.calls] == [("read", {"f": "a"})]
    assert done == [AGAIN]


@cross
def test_T06_arguments_that_are_twice_in_a_whole_reply(client: str, upstream: str) -> None:
    """As streamed (E.24)."""
    got, translation = replied(client, upstream, _whole(upstream, '{"f":"a"} {"f":"a"}'))
    assert _arguments(client, got) == {"f": "a"}
    assert AGAIN in rows(translation, REPAIRED)


@streamed
@pytest.mark.parametrize("pieces", [['{"f":', "1}", '{"f":2}'], ['{"f":', '{"f":1', '{"f":2}'], ['{"f":', '{"f":1']])
def test_T06_other_arguments_are_no_repetition(client: str, upstream: str, pieces: list[str]) -> None:
    """The call would run with one of two."""
    held, _, _ = restored(client, upstream, *_stream(upstream, pieces))
    assert held.error is not None


@streamed
@pytest.mark.parametrize("pieces", [['{"f":', '{"f":1}', "}"], ['{"f":', '{"f":', "1}}"], ["{", '"f":', '{"f":1}}']])
def test_T06_an_object_that_holds_one_like_its_beginning(client: str, upstream: str, pieces: list[str]) -> None:
    """Its fragments repeat those before, and mean what they are."""
    held, done, _ = restored(client, upstream, *_stream(upstream, pieces))
    assert [json.loads(call.arguments) for call in held.calls] == [{"f": {"f": 1}}]
    assert done == []


@streamed
def test_T06_an_empty_object_alone_is_passed_on(client: str, upstream: str) -> None:
    """A call without arguments must not wait for others."""
    held, done, _ = restored(client, upstream, *_stream(upstream, ["{}"]))
    assert [json.loads(call.arguments) for call in held.calls] == [{}]
    assert done == []


@every
def test_T06_an_empty_object_with_the_name_repeated_is_one_call(client: str) -> None:
    """Gemini behind a compatible endpoint sends `{}` and then the arguments (microsoft/autogen#7549), each with the
    name and the id."""
    stated = [calls(start_call(0, "call_a", "read", text)) for text in ("{}", '{"f":"a"}')]
    held, _, _ = restored(client, CHAT, ROLE, *stated, CALLS, USED, DONE)
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]


@every
@pytest.mark.parametrize("named", [False, True])
def test_T05_the_id_of_a_call_may_change_in_its_fragments(client: str, named: bool) -> None:
    """The first fragment has one id, all others have another (poolsideai/pool#9)."""
    rest = [more_call(0, piece) | {"id": f"call_{n}"} for n, piece in enumerate(('{"f"', ':"a"}')[named:])]
    first = start_call(0, "call_a", "read", '{"f"' if named else "")
    if named:
        rest[0]["function"]["name"] = "read"
    held, done, _ = restored(client, CHAT, ROLE, calls(first), *map(calls, rest), CALLS, USED, DONE)
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    assert "the id of a call changed in the middle of it" in done


@every
def test_T05_a_name_and_an_id_in_every_fragment_are_sent_once(client: str) -> None:
    """MiniMax behind NVIDIA repeats the name (NousResearch/hermes-agent#8259), LiteLLM the id (BerriAI/litellm#20480):
    OpenAI's Python SDK joins them."""
    pieces = [calls(start_call(0, "call_a", "read", text)) for text in ('{"f"', ":", '"a"}')]
    held, _, out = restored(client, CHAT, ROLE, *pieces, CALLS, USED, DONE)
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    assert client != CHAT or out.count(b"call_a") == 1


@every
@pytest.mark.parametrize("index", ["0", 0.0])
def test_T05_an_index_that_is_no_integer(client: str, index: Any) -> None:
    """Strict clients take an integer only (chenyme/grok2api#239)."""
    fragment = start_call(0, "call_a", "read", '{"f":"a"}') | {"index": index}
    held, done, _ = restored(client, CHAT, ROLE, calls(fragment), CALLS, USED, DONE)
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    assert done == ["the index of a call was not an integer"]


def _finished(client: str, held: Accumulated) -> None:
    assert held.error is None
    assert held.calls == [Call("call_a", "read", '{"f":"a"}')]
    assert held.finish == {CHAT: "tool_calls", MESSAGES: "tool_use", RESPONSES: "completed"}[client]


@every
def test_T27_arguments_after_the_finish_reason(client: str) -> None:
    """A gateway states `tool_calls` before the last fragments (ducks/claux#43)."""
    parts = [calls(start_call(0, "call_a", "read", '{"f"')), CALLS, calls(more_call(0, ':"a"}'))]
    held, done, _ = restored(client, CHAT, ROLE, *parts, USED, DONE)
    _finished(client, held)
    assert done == ["a call continued after the finish_reason"]


@clients
def test_T27_a_finish_reason_behind_every_chunk(client: str) -> None:
    """Open WebUI's proxy sends `stop` after each chunk (1jehuang/jcode#1326): the calls ran with `{}`."""
    parts = [calls(start_call(0, "call_a", "read")), *(calls(more_call(0, text)) for text in ('{"f"', ':"a"}'))]
    frames = [frame for part in parts for frame in (part, chunk({}, "stop"))]
    held, _, _ = restored(client, CHAT, ROLE, *frames, CALLS, USED, DONE)
    _finished(client, held)


@every
@pytest.mark.parametrize("text", ["", '{"f"'])
def test_T27_a_call_that_is_cut_after_its_finish_reason_is_no_call(client: str, text: str) -> None:
    """A call that was cut would be run."""
    frames = [calls(start_call(0, "call_a", "read", text)), CALLS]
    held, _, _ = restored(client, CHAT, ROLE, *frames, b'data: {"error":{"message":"died"}}\n\n')
    assert held.error is not None


def _choices(*messages: Json) -> Json:
    choices = [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", **m}} for m in messages]
    return wire.chat_reply() | {"choices": choices}


@clients
def test_T04_the_text_and_the_calls_of_a_turn_in_choices_of_their_own(client: str) -> None:
    """GitHub Copilot answers so for Claude (HKUDS/nanobot#1555): the calls were lost."""
    one, other = (start_call(n, f"call_{n}", "read", "{}") for n in range(2))
    body = _choices({"content": "Let me"}, {"content": None, "tool_calls": [one]}, {"tool_calls": [other]})
    got, translation = replied(client, CHAT, body)
    assert called(client, got) == [("call_0", "read"), ("call_1", "read")]
    assert "Let me" in json.dumps(got)
    assert rows(translation, REPAIRED) == ["the parts of one turn came as several choices"]


@clients
def test_T04_alternatives_are_not_joined(client: str) -> None:
    """Parts of two answers would become one."""
    with pytest.raises(DragomanError, match="2 choices"):
        replied(client, CHAT, _choices({"content": "Yes"}, {"content": "No"}))


@clients
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("called", [False, True])
def test_T04_what_only_the_message_in_the_last_chunk_has(client: str, before: bool, called: bool) -> None:
    """Servers end a stream with the whole message in place of a delta (MoonshotAI/kosong#5): it is a copy, or all that
    there is."""
    message: Json = {"role": "assistant", "content": "Hi"}
    if called:
        message["tool_calls"] = [start_call(0, "call_a", "read", '{"f":"a"}')]
    last = {"index": 0, "delta": None, "message": message, "finish_reason": "tool_calls" if called else "stop"}
    end = chunk(None).replace(b'"choices": []', b'"choices": ' + json.dumps([last]).encode())
    held, done, _ = restored(client, CHAT, ROLE, *([chunk({"content": "Hi"})] if before else []), end, USED, DONE)
    assert (held.error, held.text) == (None, "Hi")
    assert held.calls == ([Call("call_a", "read", '{"f":"a"}')] if called else [])
    assert done == ([] if before and not called else ["a chunk had a message instead of a delta"])
