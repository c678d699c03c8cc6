"""Items of a Responses stream are found by index or by id."""

from __future__ import annotations

from dragoman.canonical.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Event,
    Finish,
    Start,
)
from dragoman.reply_context import ReplyContext
from support.responses_frames import (
    Json,
    added,
    call,
    created,
    done,
    ended,
    message,
    opens,
    read,
    says,
    text_part,
)

HELLO = message(text_part("Hello"))
TEXT = [BlockStart(0, BlockKind.TEXT), Delta(0, "Hello"), BlockEnd(0)]

WHOLE = call(arguments='{"a":1}')
BARE = WHOLE | {"arguments": ""}


def body(*events: Json, context: ReplyContext | None = None) -> list[Event]:
    """The events between the start and the finish, which must be a good one."""
    out = read(created(), *events, context=context)
    assert isinstance(out[0], Start)
    assert isinstance(out[-2], Finish), out
    assert isinstance(out[-1], End)
    return out[1:-2]


def test_events_that_name_their_item_by_id_only() -> None:
    def nameless(event: Json) -> Json:
        return {key: value for key, value in event.items() if key != "output_index"}

    stream = [nameless(event) | {"item_id": "msg_a"} for event in [*opens(0), *says(0, "Hello"), done(0, **HELLO)]]
    assert body(*stream, ended(HELLO)) == TEXT


def test_ids_that_change_with_every_event_and_indexes_with_gaps() -> None:
    renamed = [HELLO | {"id": "other"}, WHOLE | {"id": "another"}]
    stream = [*opens(3), *says(3, "Hello"), done(3, **HELLO | {"id": "msg_b"}), added(5, **BARE), ended(*renamed)]
    assert [event.text for event in body(*stream) if isinstance(event, Delta)] == ["Hello", '{"a":1}']


def test_two_streamed_items_of_one_id_do_not_hide_a_third() -> None:
    received = body(done(0, **HELLO), done(1, **HELLO), ended(HELLO, HELLO, message(text_part("Bye"))))
    assert [event.text for event in received if isinstance(event, Delta)] == ["Hello", "Hello", "Bye"]
