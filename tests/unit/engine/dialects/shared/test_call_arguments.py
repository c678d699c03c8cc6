"""The arguments of calls as JSON objects."""

from __future__ import annotations

import pytest

from dragoman.dialects.shared.call_arguments import embed_arguments
from dragoman.losses import Losses
from dragoman.wire.json_codec import dumps


@pytest.mark.parametrize(
    ("text", "sent", "lost"),
    [
        ("", b"{}", []),
        (" \n", b"{}", []),
        ("[]", b"{}", []),
        ('{"a": "\\ud800"}', b'{"a": "\\ud800"}', []),
        ('{"a": 1', b'{"invalid_arguments":"{\\"a\\": 1"}', ["calls.arguments"]),
        ("[1]", b'{"invalid_arguments":"[1]"}', ["calls.arguments"]),
    ],
)
def test_arguments_that_are_no_plain_object(text: str, sent: bytes, lost: list[str]) -> None:
    losses = Losses()
    assert dumps(embed_arguments(text, ("calls", "arguments"), losses)) == sent
    assert [row.path for row in losses.rows] == lost
