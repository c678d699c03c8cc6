"""The default limits."""

from __future__ import annotations

from dragoman.threads import ThreadLimits


def test_a_conversation_is_kept_for_a_month_and_one_owner_cannot_fill_the_store() -> None:
    limits = ThreadLimits()
    assert limits.ttl == 30 * 86_400
    assert limits.owner_size < limits.size
