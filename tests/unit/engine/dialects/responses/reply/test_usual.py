"""Complete responses and items that clients read as they were meant, and others."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.responses.reply.usual import is_usual, is_usual_item
from dragoman.reply_context import ReplyContext
from support import responses_frames as emitted

CALL = emitted.call()


def response(*items: Any, **more: Any) -> dict[str, Any]:
    return emitted.response("completed", list(items), object="response") | more


@pytest.mark.parametrize(
    "reply",
    [
        response(emitted.message(emitted.text_part("Hi")), CALL, {"type": "odd"}),
        response(status="queued", model=None),
        response(object="response.compaction", status=None),
    ],
)
def test_a_usual_response(reply: dict[str, Any]) -> None:
    assert is_usual(reply, ReplyContext("m"))


@pytest.mark.parametrize(
    "reply",
    [response(None), response(CALL, CALL), response(object=None), response(output=None), response(output_text="Hi")],
)
def test_a_response_that_clients_would_misread(reply: dict[str, Any]) -> None:
    assert not is_usual(reply, ReplyContext("m"))


def test_arguments_may_be_cut() -> None:
    cut = emitted.call(arguments="{")
    assert is_usual_item(cut, cut=True)
    assert not is_usual_item(cut, cut=False)
    assert not is_usual_item(emitted.call(arguments={}), cut=True)
