"""Responses streams for Responses clients whose calls or events have a form of the server's own.

Codex runs the item of `output_item.done`, LangChain joins the deltas, the SDKs return the last snapshot: all three have
the arguments that the model wrote. A right stream passes byte for byte.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent

from dragoman import direction
from oracles.grammar import Call
from regressions.repaired import restored, rows
from regressions.test_odd_calls import ODD, REPEATED, _stream
from regressions.wire import CHAT, chunk, events_of
from support.directions import Json, stream_through, translated

RESPONSES = "responses"
OBJECT = '{"f":"a"}'
PIECES = ['{"f":', '"a"}']
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "read", "status": "completed"}
OTHER = "an item lacked a member that clients read, or had it in another form"
NUMBERS = "events had no sequence_number"


def _ends() -> tuple[Json, Json]:
    """The first and the last event of a right stream: snapshots with all members."""
    written = stream_through(translated(direction(RESPONSES, CHAT)), _stream(CHAT, [OBJECT]))
    events = events_of(written)
    return events[0], events[-1]


def frames(*events: Json, numbers: bool = True) -> list[bytes]:
    lines = []
    for number, event in enumerate(events):
        stated = {key: value for key, value in event.items() if key != "sequence_number"}
        data = json.dumps(stated | {"sequence_number": number} if numbers else stated)
        lines.append(f"event: {event['type']}\ndata: {data}\n\n".encode())
    return lines


def called(
    pieces: list[Any], final: Any, *, numbers: bool = True, done: Json | None = None, start: Json | None = None
) -> list[bytes]:
    """A stream with one call, whose arguments come in these pieces and are repeated as `final`."""
    created, completed = _ends()
    item = {**CALL, "arguments": final} if done is None else done
    added = {**CALL, "arguments": "", "status": "in_progress"} if start is None else start
    place = {"item_id": "fc_1", "output_index": 0}
    name = "response.function_call_arguments"
    return frames(
        created,
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *[{"type": f"{name}.delta", **place, "delta": piece} for piece in pieces],
        {"type": f"{name}.done", **place, "name": "read", "arguments": final},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {**completed, "response": {**completed["response"], "output": [item]}},
        numbers=numbers,
    )


def read(stream: list[bytes]) -> tuple[list[str], list[Json]]:
    """Return the repairs and the client's events, of which every client makes the same call."""
    held, done, out = restored(RESPONSES, RESPONSES, *stream)
    assert held.error is None
    events = events_of(out)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = "".join(event["delta"] for event in events if event["type"].endswith("arguments.delta"))
    [item] = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        state.handle_event(cast("Any", construct_type(value=event, type_=ResponseStreamEvent)))
    [last] = cast("Any", state)._completed_response.output
    texts = [text for text in (deltas, item["arguments"], last.arguments) if text or text is not deltas]
    assert [json.loads(text) for text in texts] == [json.loads(last.arguments)] * len(texts)
    assert held.calls == [Call(item["call_id"], "read", item["arguments"])]
    assert last.call_id == item["call_id"] != ""
    return done, events


@pytest.mark.parametrize("again", [True, False], ids=["repeated as sent", "repeated as meant"])
@pytest.mark.parametrize(
    "sent", [sent for sent, *_ in ODD if not sent.startswith("{}")] + list(REPEATED.values()), ids=str
)
def test_T06_odd_arguments_with_one_meaning(sent: str | list[str], again: bool) -> None:
    """Encoded twice, null, sent again, with all before: the client's turn ended in an error of its own."""
    meant = next((meant for text, meant, _ in ODD if text == sent), OBJECT)
    pieces = [sent] if isinstance(sent, str) else sent
    done, events = read(called(pieces, "".join(pieces) if again else meant))
    assert done
    assert json.loads(events[-1]["response"]["output"][0]["arguments"]) == json.loads(meant)


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("final", ['{}{"f":"a"}', OBJECT])
def test_T06_an_empty_object_before_the_arguments_reaches_no_client(final: str, numbers: bool) -> None:
    """Its delta is held until the next event: calls without arguments have it. LangChain joined `{}{"f":"a"}`."""
    done, events = read(called(["{}", *PIECES], final, numbers=numbers))
    assert "an empty object came before the arguments" in done
    assert [event["delta"] for event in events if event["type"].endswith("arguments.delta")] == PIECES
    [stated] = [event["arguments"] for event in events if event["type"] == "response.function_call_arguments.done"]
    assert stated == events[-1]["response"]["output"][0]["arguments"] == OBJECT


BEGUN = {**CALL, "arguments": OBJECT, "status": "in_progress"}


@pytest.mark.parametrize("start", [None, BEGUN], ids=["", "also in the start"])
@pytest.mark.parametrize("pieces", [[], PIECES], ids=["no deltas", "deltas"])
def test_T04_a_call_whose_arguments_came_at_once_has_a_delta(start: Json | None, pieces: list[str]) -> None:
    """Servers send them in `.done` alone (earendil-works/pi#2745, lidge-jun/opencodex#4652): clients that join deltas
    ran the tool without arguments. Those in the start of a call came twice."""
    done, events = read(called(pieces, OBJECT, start=start))
    deltas = [event["delta"] for event in events if event["type"].endswith("arguments.delta")]
    assert deltas == (pieces or [OBJECT])
    assert ("a call had no deltas" in done) == (not pieces)


MESSAGE: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
PART: Json = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}


def texts(content: list[Json], part: Json, *without: str) -> list[bytes]:
    """A stream with a text whose finished item has this content, and whose part ends as `part`."""
    created, completed = _ends()
    place: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item, begun = {**MESSAGE, "content": content}, {**MESSAGE, "content": [], "status": "in_progress"}
    events = [
        created,
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **place, "part": {**PART, "text": ""}},
        *[{"type": "response.output_text.delta", **place, "delta": text, "logprobs": []} for text in ("Hel", "lo")],
        {"type": "response.output_text.done", **place, "text": "Hello", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {**completed, "response": {**completed["response"], "output": [item]}},
    ]
    return frames(*[event for event in events if event["type"] not in without])


STARTS = ("response.content_part.added",)
ALL = (*STARTS, "response.output_text.done", "response.content_part.done")
EMPTY = {**PART, "text": ""}


@pytest.mark.parametrize(
    "stream",
    [texts([], PART), texts([], EMPTY), texts([PART], PART, *STARTS), texts([], PART, *ALL), texts([PART], PART, *ALL)],
    ids=["empty item", "empty item and part", "no start of the part", "deltas only", "deltas and the item"],
)
def test_T20_a_finished_message_has_the_text_of_its_deltas(stream: list[bytes]) -> None:
    """Codex keeps the item, so it forgot the answer; the SDK found no part to which it could add a delta."""
    translation, data = translated(direction(RESPONSES, RESPONSES)), b"".join(stream)
    out = stream_through(translation, stream)
    pieces = [data[at : at + 1] for at in range(len(data))]
    assert stream_through(translated(direction(RESPONSES, RESPONSES)), pieces) == out
    assert rows(translation)
    events = events_of(out)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    [item] = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert item["content"] == events[-1]["response"]["output"][0]["content"] == [PART]
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        state.handle_event(cast("Any", construct_type(value=event, type_=ResponseStreamEvent)))
    assert cast("Any", state)._completed_response.output_text == "Hello"


def test_a_right_text_passes_byte_for_byte() -> None:
    stream = texts([PART], PART)
    assert stream_through(translated(direction(RESPONSES, RESPONSES)), stream) == b"".join(stream)


def test_a_call_without_arguments_passes_byte_for_byte() -> None:
    stream = called(["{}"], "{}")
    assert stream_through(translated(direction(RESPONSES, RESPONSES)), stream) == b"".join(stream)


def test_what_cannot_be_read_of_a_forwarded_stream_ends_it_in_an_error() -> None:
    """An item of which clients would misread the next event is read again, with those before. The stream ended here."""
    raw = (
        b'data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[[]]}}\n\n'
        b'data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}\n\n'
    )
    events = events_of(stream_through(translated(direction(RESPONSES, RESPONSES)), [raw]))
    assert events[-1]["type"] == "response.failed"


FORMS: dict[str, list[bytes]] = {
    "an object": called(PIECES, {"f": "a"}),
    "an object as the delta": called([{"f": "a"}], OBJECT),
    "in the deltas alone": called(PIECES, ""),
    "no arguments at the start and the end": called(PIECES, None, done=CALL, start={**CALL, "status": "in_progress"}),
    "no call_id": called(PIECES, OBJECT, done={**CALL, "call_id": None, "arguments": OBJECT}),
    "no numbers": called(PIECES, OBJECT, numbers=False),
}


@pytest.mark.parametrize("stream", FORMS.values(), ids=FORMS)
def test_T06_a_call_in_another_form(stream: list[bytes]) -> None:
    """The client failed on it, or ran the tool without arguments."""
    done, events = read(stream)
    assert done
    assert json.loads(events[-1]["response"]["output"][0]["arguments"]) == {"f": "a"}


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize(
    ("pieces", "final"), [(['{"f":'], '{"f":'), (['{"f":1}', '{"f":2}'], '{"f":1}{"f":2}'), (["text"], "text")]
)
def test_T06_broken_arguments_end_no_item(pieces: list[str], final: str, numbers: bool) -> None:
    """Codex runs an item that is done."""
    machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
    events = events_of(machine.feed(b"".join(called(pieces, final, numbers=numbers))) + machine.finish())
    assert events[-1]["type"] == "response.failed"
    assert not [event for event in events if event["type"] == "response.output_item.done"]
    assert machine.failure is not None


@pytest.mark.parametrize("after", [0, 1])
def test_T06_broken_arguments_in_the_last_event_only(after: int) -> None:
    """The missing end of the call would run it."""
    created, completed = _ends()
    text = {"type": "output_text", "text": "Hi", "annotations": []}
    hello: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    item = {"output_index": 0, "item": hello}
    stated = [{"type": f"response.output_item.{step}", **item} for step in ("added", "done")] if after else []
    output = [*[hello] * after, {**CALL, "arguments": '{"f":'}]
    last = {**completed, "response": {**completed["response"], "output": output}}
    machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
    events = events_of(machine.feed(b"".join(frames(created, *stated, last))) + machine.finish())
    assert events[-1]["type"] == "response.failed"
    assert all(event["item"]["type"] == "message" for event in events if "item" in event)


def test_arguments_of_a_cut_reply_may_be_broken() -> None:
    created, completed = _ends()
    item = {**CALL, "arguments": '{"f":', "status": "incomplete"}
    ended = {**completed["response"], "status": "incomplete", "output": [item]}
    ended["incomplete_details"] = {"reason": "max_output_tokens"}
    stream = frames(
        created,
        {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": '{"f":'},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.incomplete", "response": ended},
    )
    translation = translated(direction(RESPONSES, RESPONSES))
    assert stream_through(translation, stream) == b"".join(stream).replace(b'"model": "up"', b'"model": "m"')
    assert not translation.losses.rows


def test_T05_calls_without_ids_get_the_same_in_all_events() -> None:
    """The client had no id for the result, or another one than the item's."""
    bare = {key: value for key, value in CALL.items() if key not in ("id", "call_id")}
    created, completed = _ends()
    stream = frames(
        created,
        {"type": "response.output_item.added", "output_index": 0, "item": {**bare, "arguments": ""}},
        {"type": "response.output_item.done", "output_index": 0, "item": {**bare, "arguments": "{}"}},
        {**completed, "response": {**completed["response"], "output": [{**bare, "arguments": "{}"}]}},
    )
    events = events_of(stream_through(translated(direction(RESPONSES, RESPONSES)), stream))
    items = [event["item"] for event in events if "item" in event] + events[-1]["response"]["output"]
    assert len({(item["id"], item["call_id"]) for item in items}) == 1
    assert all(items[0][key] for key in ("id", "call_id"))


def test_an_object_that_begins_like_its_value_passes() -> None:
    """It is kept back until it is certain, and has no row."""
    done, _ = read(called(['{"f":', '{"f":"a"}', "}"], '{"f":{"f":"a"}}'))
    assert done == []


def test_right_calls_pass_byte_for_byte() -> None:
    stream = called(PIECES, OBJECT)
    translation = translated(direction(RESPONSES, RESPONSES))
    assert stream_through(translation, stream) == b"".join(stream)
    assert not translation.losses.rows


def test_texts_without_numbers_are_numbered() -> None:
    """Strict clients refuse an event without `sequence_number`."""
    hello = [chunk({"role": "assistant", "content": ""}), *[chunk({"content": word}) for word in ("Hel", "lo", "!")]]
    right = stream_through(translated(direction(RESPONSES, CHAT)), [*hello, chunk({}, "stop"), b"data: [DONE]\n\n"])
    held, done, out = restored(RESPONSES, RESPONSES, *frames(*events_of(right), numbers=False))
    assert (held.text, done) == ("Hello!", [NUMBERS])
    assert [event["sequence_number"] for event in events_of(out)] == list(range(len(events_of(out))))
