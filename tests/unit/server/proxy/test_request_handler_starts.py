"""Of many requests that arrive at a time, a few begin in each turn, and a bounded number waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from dragoman.aio import FewPerTurn
from dragoman_server.proxy import request_handler
from dragoman_server.proxy.request_handler import STARTS, WAITING, RequestHandler
from support.gateways import CHAT
from support.waiting import turns


class Begun(Exception):
    """Raised by the first step of a request."""


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> RequestHandler:
    monkeypatch.setattr(request_handler, "Pipelines", lambda _: None)
    made = RequestHandler(cast("Any", None), cast("Any", None))
    made._starts = FewPerTurn(STARTS, clock=lambda: 0.0)
    return made


@pytest.mark.parametrize(
    ("count", "at_once"),
    [(STARTS, STARTS), (STARTS + 10, STARTS), (STARTS + WAITING, STARTS), (STARTS + WAITING + 10, STARTS + 10)],
)
async def test_few_begin_and_few_wait(
    handler: RequestHandler, count: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    class Pipelines:
        def translated(self, _: object) -> Callable[..., Any]:
            begun.append(1)
            raise Begun

    handler._pipelines = cast("Any", Pipelines())

    async def failure(scope: Any, error: Exception) -> Any:
        assert isinstance(error, Begun)
        scope.receipt.ended = "failed"

    monkeypatch.setattr(request_handler, "answer_failure", failure)
    scopes = [
        type("Scope", (), {"receipt": type("Receipt", (), {"ended": "open"})(), "run": None}) for _ in range(count)
    ]
    tasks = [asyncio.create_task(handler.answer(cast("Any", None), CHAT, cast("Any", each))) for each in scopes]
    await asyncio.sleep(0)
    assert len(begun) == at_once
    await turns(2 * count)
    assert len(begun) == count
    await asyncio.gather(*tasks)
