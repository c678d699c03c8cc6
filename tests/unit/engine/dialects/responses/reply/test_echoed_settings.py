"""Settings of a request that its Response repeats."""

from __future__ import annotations

from dragoman.canonical.request import Json
from support.responses_fields import read


def test_the_echo_has_nothing_that_was_not_given() -> None:
    for fields in ({}, {"instructions": None, "tools": None, "tool_choice": None, "text": None, "metadata": None}):
        assert read(**fields)[0].echo == {}


def test_the_echo_repeats_what_was_given() -> None:
    given: Json = {
        "instructions": "be brief",
        "max_output_tokens": 50,
        "max_tool_calls": 2,
        "metadata": {"k": "v"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": None, "mode": "pro"},
        "temperature": 0.0,
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "f"}]}],
        "top_p": 0.5,
        "truncation": "auto",
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
    }
    echo = read(**given, store=True, text={"verbosity": "low"}, client_metadata={"path": "/home"})[0].echo
    assert {key: echo[key] for key in given} == given
    assert echo["tools"] is given["tools"]
    assert echo["text"] == {"verbosity": "low", "format": {"type": "text"}}
    assert "store" not in echo  # Nothing is stored, whatever the request sets.
    assert "client_metadata" not in echo
