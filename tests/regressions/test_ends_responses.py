"""The ends of streams of Responses servers, and the parts that they leave out, repeat or misplace before.

What can mean one thing only is read as that, and is a row; what could mean two is an error, and so is every cut.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction
from oracles.grammar import Accumulated, Call, sse
from regressions.repaired import replied, restored, rows
from regressions.wire import CHAT, MESSAGES
from support import responses_frames as emitted
from support.directions import Json, judge, stream_through, translated
from support.responses_samples import numbered

RESPONSES = "responses"
A = Call("call_a", "read", '{"f":"a"}')
CALL = emitted.call(A.id, A.name, A.arguments)
TEXT = emitted.message(emitted.text_part("Hi there"))
NO_DONE, NO_ADDED = "an item ended without output_item.done", "an item came without output_item.added"
NO_DELTAS = "the deltas of a text left some of it out"
clients = pytest.mark.parametrize("client", [CHAT, MESSAGES])


def received(client: str, *events: Json) -> tuple[Accumulated, list[str], bytes]:
    return restored(client, RESPONSES, *numbered(emitted.created(), *events))


def arguments(text: Any, index: int = 0) -> Json:
    return emitted.at(index, "function_call_arguments.delta", delta=text)


@clients
@pytest.mark.parametrize(
    ("events", "done"),
    [
        (
            [*emitted.writes(0, "Hi", " there"), emitted.done(0, **TEXT), emitted.ended(TEXT)],
            [NO_ADDED, "a part came without content_part.added"],
        ),
        (
            [emitted.opens(0)[0], *emitted.writes(0, "Hi there"), emitted.done(0, **TEXT), emitted.ended()],
            ["a part came without content_part.added"],
        ),
        ([*emitted.opens(0), *emitted.writes(0, "Hi there"), emitted.ended(TEXT)], [NO_DONE]),
        (
            [*emitted.opens(0), *emitted.writes(0, "Hi"), *emitted.closes(0, "Hi there"), emitted.ended()],
            [NO_DELTAS],
        ),
        ([emitted.done(0, **TEXT), emitted.ended()], [NO_ADDED]),
        ([emitted.ended(TEXT)], ["an item was in the last event only", NO_DONE]),
        (
            [
                *emitted.opens(0),
                *emitted.writes(0, "Hi there"),
                emitted.at(0, "output_text.done", text="Hi there"),
                emitted.ended(),
            ],
            [NO_DONE],
        ),
        (
            [*emitted.opens(0), emitted.at(0, "output_text.done", text="Hi there"), emitted.ended()],
            [NO_DELTAS, NO_DONE],
        ),
        (
            [
                *emitted.opens(0),
                emitted.at(0, "content_part.done", part=emitted.text_part("Hi there")),
                emitted.ended(),
            ],
            [NO_DELTAS, NO_DONE],
        ),
    ],
)
def test_T25_a_text_is_read_whatever_events_are_left_out(client: str, events: list[Json], done: list[str]) -> None:
    """A finished answer is dropped for want of an event (jlcodes99/cockpit-tools#2328)."""
    held, rows, _ = received(client, *events)
    assert (held.text, held.error) == ("Hi there", None)
    assert rows == done


@clients
@pytest.mark.parametrize(
    ("events", "done"),
    [
        ([arguments('{"f":'), arguments('"a"}'), emitted.done(0, **CALL), emitted.ended(CALL)], [NO_ADDED]),
        ([arguments('{"f":"a"}'), emitted.ended(CALL)], [NO_ADDED, NO_DONE]),
        (
            [
                emitted.at(0, "function_call_arguments.done", arguments=A.arguments, name=A.name),
                emitted.done(0, **CALL),
                emitted.ended(),
            ],
            [NO_ADDED, "arguments had no deltas"],
        ),
        (
            [emitted.added(0, **CALL), emitted.done(0, **CALL | {"arguments": {"f": "a"}}), emitted.ended()],
            ["arguments were an object instead of text"],
        ),
        (
            [emitted.ended(CALL)],
            ["an item was in the last event only", NO_DONE, "arguments had no deltas"],
        ),
    ],
)
def test_T04_a_call_is_read_whatever_events_are_left_out(client: str, events: list[Json], done: list[str]) -> None:
    """The tool's name arrives, its arguments never do (BerriAI/litellm#25836), and here also the reverse."""
    held, rows, _ = received(client, *events)
    assert (held.calls, held.error) == ([A], None)
    assert held.finish == {CHAT: "tool_calls", MESSAGES: "tool_use"}[client]
    assert rows == done


@clients
@pytest.mark.parametrize("last", [[], [emitted.ended()], [emitted.done(0, **emitted.call(name=""))]])
def test_T02_arguments_of_a_call_that_is_never_named_end_in_an_error(client: str, last: list[Json]) -> None:
    """A delta to a block that never started (Wei-Shaw/sub2api#4294): nothing is made up for it."""
    held, _, _ = received(client, arguments("{}"), *last)
    assert held.error is not None
    assert not held.calls


@clients
def test_T17_calls_of_one_id_get_ids_of_their_own(client: str) -> None:
    """Duplicate ids are refused in the next request (microsoft/agent-framework-go#784)."""
    twins = [CALL | {"id": "fc_1"}, emitted.call(A.id, "list", "{}") | {"id": "fc_2"}, emitted.call("", "last", "{}")]
    events = [event for n, item in enumerate(twins) for event in (emitted.added(n, **item), emitted.done(n, **item))]
    held, rows, _ = received(client, *events, emitted.ended(*twins))
    assert [call.name for call in held.calls] == ["read", "list", "last"]
    assert len({call.id for call in held.calls}) == 3
    assert held.calls[0].id == A.id
    assert {"a call with the id of another", "a call without an id"} <= set(rows)


@clients
def test_T05_events_without_an_output_index_are_reported(client: str) -> None:
    """Indexes left out, as in zed-industries/zed#38412."""
    bare = arguments(A.arguments) | {"item_id": CALL["id"]}
    del bare["output_index"]
    held, rows, _ = received(
        client, emitted.added(0, **CALL | {"arguments": ""}), bare, emitted.done(0, **CALL), emitted.ended(CALL)
    )
    assert held.calls == [A]
    assert rows == ["an event came without its output_index"]


def nameless(event: Json) -> Json:
    return {key: value for key, value in event.items() if key not in ("output_index", "item_id", "content_index")}


@clients
@pytest.mark.parametrize(
    "last", [[emitted.done(0, **TEXT), emitted.ended(TEXT)], [emitted.ended(TEXT)], [emitted.ended()]]
)
def test_T05_a_text_whose_events_name_no_item_is_read_once(client: str, last: list[Json]) -> None:
    """A server sends the deltas of a text and the terminal event alone (openai/codex#12798)."""
    held, rows, _ = received(client, *map(nameless, [*emitted.writes(0, "Hi", " there"), *last]))
    assert (held.text, held.error) == ("Hi there", None)
    assert "an event came without its output_index" in rows


@clients
def test_T05_calls_whose_events_name_no_item_follow_a_text(client: str) -> None:
    """The calls are in the terminal event only (openai/codex#12798), or their arguments come before their names."""
    other = emitted.call("call_b", "list", '{"f":"b"}') | {"id": "fc_b"}
    texts = [nameless(event) for event in emitted.writes(0, "Hi there")]
    held, _, _ = received(client, *texts, emitted.ended(TEXT, CALL, other))
    assert (held.text, [call.id for call in held.calls], held.error) == ("Hi there", [A.id, "call_b"], None)
    named = [arguments(A.arguments), emitted.at(0, "function_call_arguments.done", arguments=A.arguments)]
    later = [arguments('{"f":"b"}'), emitted.done(0, **CALL), emitted.done(1, **other)]
    held, _, _ = received(client, *texts, *map(nameless, [*named, *later]), emitted.ended(TEXT, CALL, other))
    assert [(call.id, call.arguments) for call in held.calls] == [(A.id, A.arguments), ("call_b", '{"f":"b"}')]


@clients
def test_T25_a_text_in_output_text_alone_is_read(client: str) -> None:
    """The last snapshot has a text and no items (NousResearch/hermes-agent#5707); so has a whole reply."""
    last = emitted.ended()
    last["response"]["output_text"] = "Hi there"
    held, done, _ = received(client, last)
    assert held.text == "Hi there"
    assert done[0] == "the text was in output_text only"
    whole, translation = replied(client, RESPONSES, last["response"])
    assert "Hi there" in json.dumps(whole)
    assert rows(translation) == done[:1]


@clients
@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_T25_the_alias_of_the_terminal_event_is_reported(client: str, status: str) -> None:
    """A collector misses the alias `response.done` and drops a finished answer (jlcodes99/cockpit-tools#2328)."""
    last = emitted.ended(TEXT) if status == "completed" else emitted.cut("max_output_tokens", TEXT | {"status": status})
    events = (*emitted.opens(0), *emitted.writes(0, "Hi there"), *emitted.closes(0, "Hi there", status))
    held, rows, _ = received(client, *events, last | {"type": "response.done"})
    words = {CHAT: ("stop", "length"), MESSAGES: ("end_turn", "max_tokens")}[client]
    assert held.finish == words[status == "incomplete"]
    assert rows == [f"response.done was read as response.{status}"]


@clients
def test_T13_a_stream_that_does_not_begin_with_created_is_reported(client: str) -> None:
    """The reverse of a start that is repeated for ever (LuthienResearch/luthien-proxy#59)."""
    held, rows, _ = restored(
        client, RESPONSES, *numbered(*emitted.opens(0), *emitted.closes(0, "Hi there"), emitted.ended(TEXT))
    )
    assert held.text == "Hi there"
    assert "the stream began without response.created" in rows


@clients
@pytest.mark.parametrize(
    ("word", "reported_as"), [("max_tokens", True), ("length", True), ("max_output_tokens", False)]
)
def test_other_dialects_words_for_a_cut(client: str, word: str, reported_as: bool) -> None:
    held, rows, _ = received(
        client, *emitted.opens(0), *emitted.writes(0, "Hi"), emitted.cut(word, emitted.message(emitted.text_part("Hi")))
    )
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens"}[client]
    assert rows == ([f"read {word!r} as max_output_tokens"] if reported_as else [])


@clients
def test_T22_half_a_call_in_a_cut_reply_is_never_reported_as_whole(client: str) -> None:
    """Truncated answers reach the client as clean ones (ollama/ollama#18332)."""
    half = CALL | {"arguments": '{"f":', "status": "incomplete"}
    held, _, _ = received(
        client, emitted.added(0, **half | {"arguments": ""}), arguments('{"f":'), emitted.cut("max_output_tokens", half)
    )
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens"}[client]
    held, _, _ = received(client, emitted.added(0, **half | {"arguments": ""}), arguments('{"f":'), emitted.ended(half))
    assert held.error is not None
    none = half | {"arguments": ""}
    held, _, out = received(
        client, emitted.added(0, **none), emitted.done(0, **none), emitted.cut("max_output_tokens", none)
    )
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens"}[client]
    assert b'"{}"' not in out


def test_T23_what_was_done_before_a_cut_stays_in_the_failed_response() -> None:
    """An agent run ends without `response.completed` (router-for-me/CLIProxyAPI#4760): what passed through is in our
    own `response.failed` as well."""
    events = [
        emitted.created(),
        emitted.added(0, **CALL),
        arguments(A.arguments),
        emitted.done(0, **CALL),
        *emitted.opens(1),
    ]
    out = stream_through(translated(direction(RESPONSES, RESPONSES)), numbered(*events))
    last = json.loads(sse.split(out)[-1].data or b"")
    assert last["type"] == "response.failed"
    assert last["response"]["output"] == [CALL]


# --- numbers that do not fit ------------------------------------------------------------------------------------------


def numbered_part(number: int, *names: str) -> list[Json]:
    """A message whose only part has the number `number`, with the events `names` under that number and the others
    under 0."""
    events = [emitted.added(0, **emitted.message(status="in_progress"))]
    for name, fields in (
        ("content_part.added", {"part": emitted.text_part()}),
        ("output_text.delta", {"delta": "Hi"}),
        ("output_text.delta", {"delta": " there"}),
        ("output_text.done", {"text": "Hi there"}),
        ("content_part.done", {"part": emitted.text_part("Hi there")}),
    ):
        place = number if not names or name in names else 0
        events.append(emitted.at(0, name, **{**fields, "content_index": place}))
    return [*events, emitted.done(0, **TEXT), emitted.ended(TEXT)]


@clients
@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("names", [(), ("output_text.done",), ("output_text.done", "content_part.done")])
def test_a_part_under_another_number_than_its_place_is_sent_once(
    client: str, number: int, names: tuple[str, ...]
) -> None:
    """Bedrock's Mantle numbers the only part of a message 1."""
    held, _, _ = received(client, *numbered_part(number, *names))
    assert (held.text, held.error) == ("Hi there", None)


@clients
def test_reasoning_under_another_number_than_its_place_is_sent_once(client: str) -> None:
    item = emitted.reasoned("Hm")
    events = [
        emitted.added(0, **emitted.reasoned()),
        emitted.at(0, "reasoning_text.delta", delta="Hm", content_index=1),
        emitted.done(0, **item),
        emitted.done(1, **TEXT),
        emitted.ended(item, TEXT),
    ]
    held, _, _ = received(client, *events)
    assert (held.reasoning, held.text, held.error) == ("Hm", "Hi there", None)


@clients
@pytest.mark.parametrize("kind", ["mcp_list_tools", "web_search_call", "reasoning", "message"])
def test_an_item_that_the_client_does_not_run_may_be_left_open(client: str, kind: str) -> None:
    """OpenAI completes a response whose `mcp_list_tools` was never done."""
    item: Json = {"type": kind, "id": "x_1"}
    if kind == "message":
        item = emitted.message(status="in_progress", id="x_1")
    elif kind == "reasoning":
        item = emitted.reasoned()
    translation = translated(direction(client, RESPONSES))
    frames = numbered(emitted.created(), emitted.added(0, **item), emitted.done(1, **TEXT), emitted.ended(TEXT))
    held = judge(client, stream_through(translation, frames))
    assert (held.text, held.error) == ("Hi there", None)
    assert NO_DONE in rows(translation)


@clients
def test_T02_a_call_that_the_client_runs_must_be_done(client: str) -> None:
    """A call whose arguments never came is run with none (vllm-project/vllm#32713)."""
    frames = numbered(
        emitted.created(), emitted.added(0, **emitted.call()), emitted.done(1, **TEXT), emitted.ended(TEXT)
    )
    assert judge(client, stream_through(translated(direction(client, RESPONSES)), frames)).error is not None
