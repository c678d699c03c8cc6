"""The betas of clients: those that the provider takes, and where they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from multidict import CIMultiDict

from dragoman import ClientRequestError
from dragoman.dialects import Dialect
from dragoman.profiles.profile import BUILTIN_PROFILES, builtin_profile
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Provider
from dragoman_server.proxy.betas import Betas, betas_of, fields_of, header_of


def provider(place: str | None = None, **flags: Any) -> Provider:
    profile = builtin_profile("messages").replace(flags)
    return Provider("p", Dialect.MESSAGES, "http://h", profile=profile, door=Door(betas=place))


def test_all_lines_of_the_header_count_once() -> None:
    headers = CIMultiDict([("Anthropic-Beta", "a-1, b-1,"), ("anthropic-beta", "b-1,c-1"), ("x", "y")])
    assert betas_of(provider(), headers) == (("a-1", "b-1", "c-1"), ())
    assert betas_of(provider(), {"Anthropic-Beta": "a-1,,b-1"}) == (("a-1", "b-1"), ())
    assert betas_of(provider(), {}) == ((), ())


@pytest.mark.parametrize("name", ["\udcff", "é", "a\x7f"])
def test_a_name_that_no_header_can_carry(name: str) -> None:
    with pytest.raises(ClientRequestError, match="the header anthropic-beta has characters that a header cannot carry"):
        betas_of(provider(), {"anthropic-beta": f"a-1,{name}"})


def test_a_profile_names_what_it_takes_and_under_which_name() -> None:
    limited = provider(betas=["a-*", "b-1=other-1"])
    found = betas_of(limited, {"anthropic-beta": "c-1,b-1,a-2,other-1,d"})
    assert found == (("other-1", "a-2"), ("c-1", "other-1", "d"))


@pytest.mark.parametrize(
    ("place", "header", "fields"),
    [(None, "a,b", {}), ("header", "a,b", {}), ("body", "", {"anthropic_beta": ["a", "b"]})],
)
def test_where_they_are_sent(place: str | None, header: str, fields: dict[str, list[str]]) -> None:
    betas = Betas(("a", "b"))
    assert header_of(provider(place), betas) == header
    assert {name: json.loads(value) for name, value in fields_of(provider(place), betas).items()} == fields


def test_both_places() -> None:
    betas = Betas(("a",))
    assert header_of(provider("both"), betas) == "a"
    assert fields_of(provider("both"), betas) == {"anthropic_beta": b'["a"]'}
    assert fields_of(provider("both"), Betas((), ("b",))) == {}


def test_only_clouds_limit_them() -> None:
    limited = {name for (dialect, name), each in BUILTIN_PROFILES.items() if dialect == "messages" and each.betas}
    assert limited == {"amazon-bedrock", "vertex"}
