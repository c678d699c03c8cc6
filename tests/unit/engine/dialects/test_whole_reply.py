"""Complete replies that report a failure, or that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, Direction
from dragoman.canonical.events import Usage
from dragoman.dialects.whole_reply import WholeReply
from dragoman.errors import UpstreamProtocolError, UpstreamStatusError
from dragoman.gateway import DIRECTIONS
from support.directions import ALL, translated

EVERY = pytest.mark.parametrize("row", ALL, ids=str)


@EVERY
def test_what_cannot_be_read_names_no_reply(row: Direction) -> None:
    one = translated(row)
    with pytest.raises(UpstreamProtocolError):
        WholeReply(one.direction, one.context).read(b"<html>", None)
    assert one.response_id is None


@EVERY
def test_a_whole_reply_that_reports_a_failure_is_estimated_by_what_it_generated(row: Direction) -> None:
    """Only Responses has such replies: they have an error besides their output, and no counts."""
    if row.upstream.dialect is not Dialect.RESPONSES:
        return
    message: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "incomplete"}
    message["content"] = [{"type": "output_text", "text": "x" * 400, "annotations": []}]
    failed = {"id": "r", "object": "response", "created_at": 1, "status": "failed", "model": "m", "usage": None}
    failed |= {"error": {"code": "server_error", "message": "no"}, "output": [message], "service_tier": "flex"}
    one = translated(row)
    if row.passthrough:
        one.reply(json.dumps(failed).encode())
    else:
        with pytest.raises(UpstreamStatusError):
            one.reply(json.dumps(failed).encode())
    usage, estimated = one.usage_and_estimates()
    assert usage is not None
    assert (usage.output_total, "output_total" in estimated) == (100, True)
    assert one.context.service is not None
    assert one.context.service.tier == "flex"


def test_counts_of_a_whole_reply_whose_content_cannot_be_read_are_known() -> None:
    broken = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    function = {"name": "f", "arguments": '{"a": "b'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t", "type": "function", "function": function}],
    }
    broken["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    broken["usage"] = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    one = translated(DIRECTIONS[Dialect.RESPONSES, Dialect.CHAT])
    with pytest.raises(UpstreamProtocolError):
        one.reply(json.dumps(broken).encode())
    assert one.usage_and_estimates() == (Usage(9, None, None, 5), ())
