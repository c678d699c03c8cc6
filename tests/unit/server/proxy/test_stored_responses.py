"""The responses that a client sees, and the targets that they are stored for. The rest is tested over HTTP."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.auth import owner_of
from dragoman_server.proxy.stored_responses import StoredResponses
from dragoman_server.routing.router import Router
from support.gateways import config_for
from support.named_keys import made

URL = "http://127.0.0.1:9/v1"


def test_a_named_key_owns_by_its_name_and_others_by_a_digest() -> None:
    _, alice = made("alice")
    _, again = made("alice")
    assert owner_of(alice.hash.digest, alice) == owner_of(again.hash.digest, again) == "key:alice"
    one, two = owner_of(b"1" * 32, None), owner_of(b"2" * 32, None)
    assert one != two
    assert one.startswith("digest:")
    assert (b"1" * 32).hex() not in one
    assert owner_of(b"", None) == ""


@pytest.mark.parametrize(
    ("client", "upstream", "state", "expected"),
    [
        (Dialect.RESPONSES, Dialect.CHAT, "upstream", True),
        (Dialect.RESPONSES, Dialect.RESPONSES, "upstream", False),
        (Dialect.RESPONSES, Dialect.RESPONSES, "gateway", True),
        (Dialect.CHAT, Dialect.MESSAGES, "gateway", False),
    ],
)
def test_the_targets_that_the_gateway_stores_for(
    client: Dialect, upstream: Dialect, state: str, expected: bool
) -> None:
    stored = StoredResponses(StateOptions(kind="memory"), Totals(), lambda: 0.0)
    target = Router(config_for(URL, upstream)).resolve("m", client)
    target = target._replace(provider=Provider("up", upstream, URL, state=state))
    assert stored.serves(client, target) is expected
