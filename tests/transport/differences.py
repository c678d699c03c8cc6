"""Tests that aiohttp's client fails, and what that means. Strict: a test that it passes must be removed here.

A key is a test, or a test with the id of its parameters.
"""

from __future__ import annotations

_TERMINAL = "; a stream's terminal event and a JSON body's end still tell"

AIOHTTP: dict[str, str] = {
    "test_an_until_close_body_that_is_reset_is_truncated": "takes RST for the end of the body" + _TERMINAL,
    "test_an_until_close_body_without_close_notify_is_truncated": "does not look for it" + _TERMINAL,
    "test_cancelled_while_the_request_is_sent": "sends what it had already taken, or waits until the server leaves",
    "test_a_malformed_head_is_no_answer[a folded line]": "unfolds it, in its lenient mode",
    "test_a_malformed_head_is_no_answer[a space before the colon]": "lets it pass, in its lenient mode",
    "test_a_malformed_head_is_no_answer[another coding]": "takes the rest of the connection for the body",
    "test_a_malformed_head_is_no_answer[a coding over chunks]": "gives the coded bytes as they came",
    "test_a_switch_of_protocols_is_no_answer": "gives it as an answer of that status, which is an error",
}
