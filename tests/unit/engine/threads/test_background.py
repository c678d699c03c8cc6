"""The objects of responses in the background that no stream has."""

from __future__ import annotations

from dragoman.gateway import StoredReply
from dragoman.reply_context import ReplyContext
from dragoman.threads import cancelled_response, failed_response, lagging_event, queued_response, terminal_event


def test_the_states_are_whole_objects() -> None:
    context = ReplyContext("m", 5, "req_1")
    context.stored = StoredReply({"store": True, "background": True, "previous_response_id": None})
    queued = queued_response(context)
    assert (queued["id"], queued["object"], queued["status"], queued["output"]) == ("resp_1", "response", "queued", [])
    assert (queued["background"], queued["store"], queued["created_at"], queued["error"]) == (True, True, 5, None)
    assert cancelled_response(queued) == {**queued, "status": "cancelled"}
    error = {"code": "server_error", "message": "x"}
    assert failed_response(queued, "x") == {**queued, "status": "failed", "error": error}
    assert queued["status"] == "queued"


def test_the_events_that_end_a_stream() -> None:
    for status in ("completed", "failed", "incomplete", "cancelled"):
        response = {"id": "r", "status": status}
        event = {
            "type": f"response.{'incomplete' if status == 'cancelled' else status}",
            "sequence_number": 7,
            "response": response,
        }
        assert terminal_event(response, 7) == event
    event = lagging_event(3)
    assert (event["type"], event["sequence_number"], event["param"]) == ("error", 3, None)
