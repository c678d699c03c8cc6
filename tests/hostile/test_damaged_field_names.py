"""Law: garbage within the name of a `data` field ends the client's stream in an error: no frame is lost silently.

Not tried is garbage that makes the line a comment of valid UTF-8: nothing distinguishes it from a keep-alive.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Direction
from support.directions import ALL, stream_through, translated
from support.samples import text_stream, tool_stream
from support.strategies import splits

PLAIN = bytes(range(0x20, 0x7F))
GARBAGE = st.builds(
    lambda colon, rest: colon + rest,
    st.sampled_from((b"", b":")),
    st.binary(min_size=1, max_size=6).map(lambda data: data.translate(None, PLAIN + b"\t\r\n") or b"\xff"),
) | st.sampled_from((b"\n", b"\r", b"\r\n", b"x", b" "))


@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data())
def test_garbage_within_a_field_name_is_an_error(row: Direction, data: st.DataObject) -> None:
    frames = data.draw(st.sampled_from((text_stream, tool_stream)))(row.upstream.dialect)
    which = data.draw(st.integers(1, len(frames) - 2))  # the frames before and after it are whole
    at = frames[which].index(b"data:") + data.draw(st.integers(1, 3))
    garbage = data.draw(GARBAGE)
    damaged = frames[which][:at] + garbage + frames[which][at:]
    pieces = data.draw(splits(b"".join([*frames[:which], damaged, *frames[which + 1 :]])))
    out = stream_through(translated(row), pieces)
    assert b'"error":{' in out.replace(b" ", b""), (garbage, damaged)
