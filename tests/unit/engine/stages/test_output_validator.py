"""A stream that ends within a frame is a violation in every dialect."""

from __future__ import annotations

from dragoman.dialects import Dialect
from support.verdicts import golden_frames, verdict

CHAT, MESSAGES, RESPONSES = Dialect


def test_half_a_frame_at_the_end_is_a_breach() -> None:
    for dialect, other in ((CHAT, MESSAGES), (MESSAGES, CHAT), (RESPONSES, CHAT)):
        data = b"".join(golden_frames(f"{dialect}_from_{other}/text"))
        found = verdict(dialect, data[:-1])
        assert found is not None
        assert found.rule == "a frame without its end"
