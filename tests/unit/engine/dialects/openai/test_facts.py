"""The facts that Chat Completions and Responses share."""

from __future__ import annotations

from dragoman.dialects import Dialect
from dragoman.dialects.openai.facts import BASE_URL, KEY_HEADERS, LIMITS, MAKER, REPLY_HEADERS, VENDOR


def test_both_dialects_have_them() -> None:
    for facts in (Dialect.CHAT.facts, Dialect.RESPONSES.facts):
        assert (facts.base_url, facts.key_headers, facts.limits) == (BASE_URL, KEY_HEADERS, LIMITS)
        assert (facts.maker, facts.reply_headers, facts.vendor) == (MAKER, REPLY_HEADERS, VENDOR)
