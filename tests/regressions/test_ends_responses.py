"""How the streams of Responses servers end, and what they leave out, repeat or put in the wrong place on the way there.

What can mean one thing only is read as that, and is a row; what could mean two is an error, and so is every cut.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction
from oracles.grammar import Accumulated, Call, sse
from regressions.repaired import mended, rows
from regressions.wire import CHAT, MESSAGES
from support import responses_frames as told
from support.directions import Json, judge, stream_through, translated
from support.responses_samples import numbered

RESPONSES = "responses"
A = Call("call_a", "read", '{"f":"a"}')
CALL = told.call(A.id, A.name, A.arguments)
TEXT = told.message(told.text_part("Hi there"))
NO_DONE, NO_ADDED = "an item ended without output_item.done", "an item came without output_item.added"
NO_DELTAS = "the deltas of a text left some of it out"
clients = pytest.mark.parametrize("client", [CHAT, MESSAGES])


def heard(client: str, *events: Json) -> tuple[Accumulated, list[str], bytes]:
    return mended(client, RESPONSES, *numbered(told.created(), *events))


def arguments(text: Any, index: int = 0) -> Json:
    return told.at(index, "function_call_arguments.delta", delta=text)


@clients
@pytest.mark.parametrize(
    ("events", "done"),
    [
        (
            [*told.says(0, "Hi", " there"), told.done(0, **TEXT), told.ended(TEXT)],
            [NO_ADDED, "a part came without content_part.added"],
        ),
        (
            [told.opens(0)[0], *told.says(0, "Hi there"), told.done(0, **TEXT), told.ended()],
            ["a part came without content_part.added"],
        ),
        ([*told.opens(0), *told.says(0, "Hi there"), told.ended(TEXT)], [NO_DONE]),
        (
            [*told.opens(0), *told.says(0, "Hi"), *told.closes(0, "Hi there"), told.ended()],
            [NO_DELTAS],
        ),
        ([told.done(0, **TEXT), told.ended()], [NO_ADDED]),
        ([told.ended(TEXT)], ["an item was in the last event only", NO_DONE]),
        (
            [*told.opens(0), *told.says(0, "Hi there"), told.at(0, "output_text.done", text="Hi there"), told.ended()],
            [NO_DONE],
        ),
        ([*told.opens(0), told.at(0, "output_text.done", text="Hi there"), told.ended()], [NO_DELTAS, NO_DONE]),
        (
            [*told.opens(0), told.at(0, "content_part.done", part=told.text_part("Hi there")), told.ended()],
            [NO_DELTAS, NO_DONE],
        ),
    ],
)
def test_T25_a_text_is_heard_whatever_events_are_left_out(client: str, events: list[Json], done: list[str]) -> None:
    """A finished answer is dropped for want of an event (jlcodes99/cockpit-tools#2328)."""
    held, rows, _ = heard(client, *events)
    assert (held.text, held.error) == ("Hi there", None)
    assert rows == done


@clients
@pytest.mark.parametrize(
    ("events", "done"),
    [
        ([arguments('{"f":'), arguments('"a"}'), told.done(0, **CALL), told.ended(CALL)], [NO_ADDED]),
        ([arguments('{"f":"a"}'), told.ended(CALL)], [NO_ADDED, NO_DONE]),
        (
            [
                told.at(0, "function_call_arguments.done", arguments=A.arguments, name=A.name),
                told.done(0, **CALL),
                told.ended(),
            ],
            [NO_ADDED, "arguments had no deltas"],
        ),
        (
            [told.added(0, **CALL), told.done(0, **CALL | {"arguments": {"f": "a"}}), told.ended()],
            ["arguments were an object instead of text"],
        ),
        (
            [told.ended(CALL)],
            ["an item was in the last event only", NO_DONE, "arguments had no deltas"],
        ),
    ],
)
def test_T04_a_call_is_heard_whatever_events_are_left_out(client: str, events: list[Json], done: list[str]) -> None:
    """The tool's name arrives, its arguments never do (BerriAI/litellm#25836), and here also the reverse."""
    held, rows, _ = heard(client, *events)
    assert (held.calls, held.error) == ([A], None)
    assert held.finish == {CHAT: "tool_calls", MESSAGES: "tool_use"}[client]
    assert rows == done


@clients
@pytest.mark.parametrize("last", [[], [told.ended()], [told.done(0, **told.call(name=""))]])
def test_T02_arguments_of_a_call_that_is_never_named_end_in_an_error(client: str, last: list[Json]) -> None:
    """A delta to a block that never started (Wei-Shaw/sub2api#4294): nothing is made up for it."""
    held, _, _ = heard(client, arguments("{}"), *last)
    assert held.error is not None
    assert not held.calls


@clients
def test_T17_calls_of_one_id_get_ids_of_their_own(client: str) -> None:
    """Duplicate ids are refused in the next request (microsoft/agent-framework-go#784)."""
    twins = [CALL | {"id": "fc_1"}, told.call(A.id, "list", "{}") | {"id": "fc_2"}, told.call("", "last", "{}")]
    events = [event for n, item in enumerate(twins) for event in (told.added(n, **item), told.done(n, **item))]
    held, rows, _ = heard(client, *events, told.ended(*twins))
    assert [call.name for call in held.calls] == ["read", "list", "last"]
    assert len({call.id for call in held.calls}) == 3
    assert held.calls[0].id == A.id
    assert {"a call with the id of another", "a call without an id"} <= set(rows)


@clients
def test_T05_events_without_an_output_index_are_told(client: str) -> None:
    """Indexes left out, as in zed-industries/zed#38412."""
    bare = arguments(A.arguments) | {"item_id": CALL["id"]}
    del bare["output_index"]
    held, rows, _ = heard(
        client, told.added(0, **CALL | {"arguments": ""}), bare, told.done(0, **CALL), told.ended(CALL)
    )
    assert held.calls == [A]
    assert rows == ["an event came without its output_index"]


@clients
@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_T25_the_alias_of_the_terminal_event_is_told(client: str, status: str) -> None:
    """A collector misses the alias `response.done` and drops a finished answer (jlcodes99/cockpit-tools#2328)."""
    last = told.ended(TEXT) if status == "completed" else told.cut("max_output_tokens", TEXT | {"status": status})
    events = (*told.opens(0), *told.says(0, "Hi there"), *told.closes(0, "Hi there", status))
    held, rows, _ = heard(client, *events, last | {"type": "response.done"})
    words = {CHAT: ("stop", "length"), MESSAGES: ("end_turn", "max_tokens")}[client]
    assert held.finish == words[status == "incomplete"]
    assert rows == [f"response.done was read as response.{status}"]


@clients
def test_T13_a_stream_that_does_not_begin_with_created_is_told(client: str) -> None:
    """The reverse of a start that is repeated for ever (LuthienResearch/luthien-proxy#59)."""
    held, rows, _ = mended(client, RESPONSES, *numbered(*told.opens(0), *told.closes(0, "Hi there"), told.ended(TEXT)))
    assert held.text == "Hi there"
    assert "the stream began without response.created" in rows


@clients
@pytest.mark.parametrize(("word", "told_as"), [("max_tokens", True), ("length", True), ("max_output_tokens", False)])
def test_other_dialects_words_for_a_cut(client: str, word: str, told_as: bool) -> None:
    held, rows, _ = heard(
        client, *told.opens(0), *told.says(0, "Hi"), told.cut(word, told.message(told.text_part("Hi")))
    )
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens"}[client]
    assert rows == ([f"read {word!r} as max_output_tokens"] if told_as else [])


@clients
def test_T22_half_a_call_in_a_cut_reply_is_never_told_as_whole(client: str) -> None:
    """Truncated answers reach the client as clean ones (ollama/ollama#18332)."""
    half = CALL | {"arguments": '{"f":', "status": "incomplete"}
    held, _, _ = heard(
        client, told.added(0, **half | {"arguments": ""}), arguments('{"f":'), told.cut("max_output_tokens", half)
    )
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens"}[client]
    held, _, _ = heard(client, told.added(0, **half | {"arguments": ""}), arguments('{"f":'), told.ended(half))
    assert held.error is not None
    none = half | {"arguments": ""}
    held, _, out = heard(client, told.added(0, **none), told.done(0, **none), told.cut("max_output_tokens", none))
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens"}[client]
    assert b'"{}"' not in out


def test_T23_what_was_done_before_a_cut_stays_in_the_failed_response() -> None:
    """An agent run ends without `response.completed` (router-for-me/CLIProxyAPI#4760): what passed through is told in
    our own `response.failed` as well."""
    events = [told.created(), told.added(0, **CALL), arguments(A.arguments), told.done(0, **CALL), *told.opens(1)]
    out = stream_through(translated(direction(RESPONSES, RESPONSES)), numbered(*events))
    last = json.loads(sse.split(out)[-1].data or b"")
    assert last["type"] == "response.failed"
    assert last["response"]["output"] == [CALL]


# --- numbers that do not fit ------------------------------------------------------------------------------------------


def numbered_part(number: int, *names: str) -> list[Json]:
    """A message whose only part has the number `number`, with the events `names` under that number and the others
    under 0."""
    events = [told.added(0, **told.message(status="in_progress"))]
    for name, fields in (
        ("content_part.added", {"part": told.text_part()}),
        ("output_text.delta", {"delta": "Hi"}),
        ("output_text.delta", {"delta": " there"}),
        ("output_text.done", {"text": "Hi there"}),
        ("content_part.done", {"part": told.text_part("Hi there")}),
    ):
        place = number if not names or name in names else 0
        events.append(told.at(0, name, **{**fields, "content_index": place}))
    return [*events, told.done(0, **TEXT), told.ended(TEXT)]


@clients
@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("names", [(), ("output_text.done",), ("output_text.done", "content_part.done")])
def test_a_part_under_another_number_than_its_place_is_sent_once(
    client: str, number: int, names: tuple[str, ...]
) -> None:
    """Bedrock's Mantle numbers the only part of a message 1."""
    held, _, _ = heard(client, *numbered_part(number, *names))
    assert (held.text, held.error) == ("Hi there", None)


@clients
def test_reasoning_under_another_number_than_its_place_is_sent_once(client: str) -> None:
    item = told.thought("Hm")
    events = [
        told.added(0, **told.thought()),
        told.at(0, "reasoning_text.delta", delta="Hm", content_index=1),
        told.done(0, **item),
        told.done(1, **TEXT),
        told.ended(item, TEXT),
    ]
    held, _, _ = heard(client, *events)
    assert (held.reasoning, held.text, held.error) == ("Hm", "Hi there", None)


@clients
@pytest.mark.parametrize("kind", ["mcp_list_tools", "web_search_call", "reasoning", "message"])
def test_an_item_that_the_client_does_not_run_may_be_left_open(client: str, kind: str) -> None:
    """OpenAI completes a response whose `mcp_list_tools` was never done."""
    item: Json = {"type": kind, "id": "x_1"}
    if kind == "message":
        item = told.message(status="in_progress", id="x_1")
    elif kind == "reasoning":
        item = told.thought()
    translation = translated(direction(client, RESPONSES))
    frames = numbered(told.created(), told.added(0, **item), told.done(1, **TEXT), told.ended(TEXT))
    held = judge(client, stream_through(translation, frames))
    assert (held.text, held.error) == ("Hi there", None)
    assert NO_DONE in rows(translation)


@clients
def test_T02_a_call_that_the_client_runs_must_be_done(client: str) -> None:
    """A call whose arguments never came is run with none (vllm-project/vllm#32713)."""
    frames = numbered(told.created(), told.added(0, **told.call()), told.done(1, **TEXT), told.ended(TEXT))
    assert judge(client, stream_through(translated(direction(client, RESPONSES)), frames)).error is not None
