"""The client's program is known by its headers."""

from __future__ import annotations

import pytest

from dragoman import Dialect
from dragoman_server.receipt import Receipt
from dragoman_server.steps.recognise import recognise
from support.scopes import drafted, scope_of


@pytest.mark.parametrize(("agent", "profile"), [("claude-cli/2.0.1 (external, cli)", "claude-code"), ("curl/8", None)])
async def test_the_profile_is_in_the_receipt(agent: str, profile: str | None) -> None:
    scope = scope_of(Receipt("req_1", Dialect.MESSAGES, 7))
    recognise(scope, drafted(headers={"user-agent": agent}))
    assert scope.receipt.client_profile == profile
