"""Events that are corrected, and those that are left as they came."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.responses.stream.repairs import Repairs, is_odd
from dragoman.errors import UpstreamProtocolError
from dragoman.wire.json_codec import dumps
from support import responses_frames as emitted


def read(repairs: Repairs, event: dict[str, Any]) -> dict[str, Any]:
    repairs.read(event["type"], event.get("output_index"), event, dumps(event), ())
    return event


@pytest.mark.parametrize(
    ("item", "odd"),
    [(emitted.message(), False), (emitted.reasoned("Hm"), False), (emitted.call(), True), (None, False), ({}, True)],
)
def test_which_first_item_is_looked_at(item: Any, odd: bool) -> None:
    assert is_odd(item) == odd


def test_a_right_call_is_not_changed() -> None:
    repairs = Repairs("resp_1")
    call = emitted.call()
    delta = emitted.at(0, "function_call_arguments.delta", delta=call["arguments"])
    for event in (emitted.added(0, **call | {"arguments": ""}), delta, emitted.done(0, **call)):
        read(repairs, event)
        assert repairs.changed is None
        assert not repairs.dropped
    assert repairs.note == ""


def test_a_call_gets_what_it_lacks() -> None:
    repairs = Repairs("resp_1")
    item = {key: value for key, value in emitted.call(arguments="").items() if key != "call_id"}
    started = read(repairs, emitted.added(0, **item))["item"]
    done = read(repairs, emitted.done(0, **item | {"arguments": {"a": 1}}))["item"]
    assert (done["call_id"], done["arguments"]) == (started["call_id"], '{"a":1}')


def test_a_broken_call_is_an_error() -> None:
    with pytest.raises(UpstreamProtocolError):
        read(Repairs("resp_1"), emitted.done(0, **emitted.call(arguments="{")))
