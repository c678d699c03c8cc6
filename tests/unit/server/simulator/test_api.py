"""The simulator's table of APIs agrees with the engine's facts, although neither imports the other."""

from __future__ import annotations

import pytest

from dragoman import Dialect
from dragoman.gateway import DEFAULT_DIALECT
from dragoman_server.simulator.api import APIS, DEFAULT


def test_it_has_all_dialects() -> None:
    assert {*APIS} == {*Dialect}
    assert Dialect(DEFAULT) is DEFAULT_DIALECT


@pytest.mark.parametrize("dialect", Dialect)
def test_it_agrees_with_the_facts(dialect: Dialect) -> None:
    api, facts = APIS[dialect], dialect.facts
    assert api.path == f"/{facts.version}/{facts.path}"
    assert api.count_path == (f"/{facts.version}/{facts.count.path}" if facts.count else "")
    assert api.count_object == ((facts.count and facts.count.named) or "")
    assert (api.vendor, api.conversation, api.stored) == (facts.vendor, facts.conversation, facts.stored)
    assert (api.instructions, api.version_header) == (facts.instructions or "", facts.version_header)
    path, _, query = facts.stream_path.partition("?")
    assert (api.stream_path, api.stream_query) == (path and f"/{facts.version}/{path}", query)
