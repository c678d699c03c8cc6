"""The transcript of a stream of Responses."""

from __future__ import annotations

import pytest

from dragoman_server.cli.demo.transcript import Transcript
from dragoman_server.cli.demo.transcript_responses import read


def test_texts_are_added() -> None:
    out = Transcript()
    for _ in range(2):
        read({"type": "response.output_text.delta", "delta": "Hi"}, out)
    assert out.text == "HiHi"
    assert out.error is None


@pytest.mark.parametrize("error", [{"type": "error", "error": {"message": "No"}}])
def test_an_error_is_read(error: dict[str, object]) -> None:
    out = Transcript()
    read(error, out)
    assert out.error == "No"
    assert not out.ended
