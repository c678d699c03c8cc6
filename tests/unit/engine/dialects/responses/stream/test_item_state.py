"""Items of a Responses stream are found by index or by id."""

from __future__ import annotations

from dragoman.canonical.events import (
    Delta,
)
from support.responses_bodies import BARE, HELLO, TEXT, WHOLE, body
from support.responses_frames import (
    Json,
    added,
    done,
    ended,
    message,
    opens,
    text_part,
    writes,
)


def test_events_that_name_their_item_by_id_only() -> None:
    def nameless(event: Json) -> Json:
        return {key: value for key, value in event.items() if key != "output_index"}

    stream = [nameless(event) | {"item_id": "msg_a"} for event in [*opens(0), *writes(0, "Hello"), done(0, **HELLO)]]
    assert body(*stream, ended(HELLO)) == TEXT


def test_ids_that_change_with_every_event_and_indexes_with_gaps() -> None:
    renamed = [HELLO | {"id": "other"}, WHOLE | {"id": "another"}]
    stream = [*opens(3), *writes(3, "Hello"), done(3, **HELLO | {"id": "msg_b"}), added(5, **BARE), ended(*renamed)]
    assert [event.text for event in body(*stream) if isinstance(event, Delta)] == ["Hello", '{"a":1}']


def test_two_streamed_items_of_one_id_do_not_hide_a_third() -> None:
    received = body(done(0, **HELLO), done(1, **HELLO), ended(HELLO, HELLO, message(text_part("Bye"))))
    assert [event.text for event in received if isinstance(event, Delta)] == ["Hello", "Hello", "Bye"]
