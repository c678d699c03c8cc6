from __future__ import annotations

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.facts import Target

FACTS = Dialect.GENERATE.facts


def test_the_path_has_the_model_and_the_choice_of_a_stream() -> None:
    assert FACTS.target("gemini-3-pro", stream=False) == Target(
        "gemini-3-pro", False, "models/gemini-3-pro:generateContent"
    )
    assert FACTS.target("a/b:c", stream=True).path == "models/a%2Fb%3Ac:streamGenerateContent?alt=sse"


def test_only_upstreams_have_it() -> None:
    assert Dialect.GENERATE not in CLIENT_DIALECTS
    assert FACTS.count is not None
