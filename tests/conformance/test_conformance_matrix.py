"""Every cell of the matrix: a case in a direction, streamed or whole, through a live gateway, judged by the SDKs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from conformance.cases import Case, cells
from conformance.rounds import play
from conformance.served import Served, serving, speaking
from conformance.speaker import Speaker

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live() -> AsyncIterator[Served]:
    """One gateway and one upstream, which takes back no reasoning but its own, for the whole module."""
    async with serving(verify=True) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speakers(live: Served) -> AsyncIterator[dict[str, Speaker]]:
    async with speaking(live.url) as speakers:
        yield speakers


def _param(case: Case, *way: str) -> Any:
    client, upstream, mode = way
    report = f"{case.reports}_" if case.reports else ""
    return pytest.param(case, client, upstream, mode, id=f"{report}{case.name}-{client}-over-{upstream}-{mode}")


@pytest.mark.few
@pytest.mark.parametrize(("case", "client", "upstream", "mode"), [_param(*cell) for cell in cells()])
async def test_cell(
    live: Served, speakers: dict[str, Speaker], case: Case, client: str, upstream: str, mode: str
) -> None:
    for script in case.scripts:
        case.judge(await play(live, speakers[client], upstream, mode, script, case.ask, answered=case.answered))
