"""The history of the charts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dragoman import Usage, translate
from dragoman.gateway import DIRECTIONS
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.history import BINS, WIDTH, bins_of, history, merged, own_history
from dragoman_server.observability.metric_families import SECONDS, SHORT
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Facts, Receipt
from support import samples
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.samples import text_stream
from support.sockets import ScriptedServer, stream

NOW = 10_000.0


def with_ui(url: str = "http://127.0.0.1:9/v1", **server: Any) -> Config:
    config = config_for(url, CHAT)
    return replace(config, server=replace(config.server, ui=True, **server))


def receipt(arrived: float, duration: float = 0.0, ended: str = "completed", **fields: Any) -> Receipt:
    """A receipt of a request that arrived so many seconds ago."""
    return Receipt("req_1", CHAT, 1, ended=ended, opened_at=NOW - arrived, duration=duration, **fields)


def age(each: Receipt) -> float:
    return NOW - each.opened_at


def test_a_request_is_in_the_bin_of_its_end_and_open_before() -> None:
    bins = bins_of([receipt(3 * WIDTH + 1, 2 * WIDTH)], age)
    assert [each["requests"] for each in bins[-4:]] == [{}, {}, {"completed": 1}, {}]
    assert [each["open"] for each in bins[-4:]] == [1, 1, 0, 0]
    assert sum(each["open"] for each in bins) == 2


def test_an_open_request_is_open_until_now() -> None:
    bins = bins_of([receipt(WIDTH + 1, ended="open"), receipt(1e9, ended="open")], age)
    assert [each["open"] for each in bins] == [1] * (BINS - 2) + [2, 2]
    assert not any(each["requests"] for each in bins)


def test_requests_before_the_first_bin_are_left_out() -> None:
    assert not any(each["requests"] for each in bins_of([receipt(WIDTH * BINS + 1)], age))


def test_tokens_losses_and_times_are_counted() -> None:
    body = samples.request(MESSAGES, stream=True) | {"top_k": 4, "max_tokens": 9}
    one = receipt(5, 2.5, begun_at=NOW - 4.5)
    one.translation = translate(DIRECTIONS[MESSAGES, CHAT], samples.dump(body))
    one.keep_facts(one.translation)
    one.translation = None
    assert isinstance(one.facts, Facts)
    one.facts.usage = Usage(input_total=7, output_total=5)
    last = bins_of([one], age)[-1]
    assert (last["tokens_in"], last["tokens_out"], last["losses"]) == (7, 5, 1)
    assert last["first_event"][SECONDS.index(0.5)] == 1
    assert last["token_time"][SHORT.index(0.5)] == 1, "2 seconds for 4 tokens after the first"


def test_bins_of_workers_are_added() -> None:
    one, two = ({"width": WIDTH, "covered": covered, "bins": bins_of([receipt(1)], age)} for covered in (90.0, 30.0))
    found = merged(one, [two, {}, {"width": WIDTH + 1, "covered": 1.0, "bins": one["bins"]}])
    assert found["covered"] == 30.0
    assert found["bins"][-1]["requests"] == {"completed": 2}
    assert found["bins"][-1]["first_event"] == [0] * (len(SECONDS) + 2)


async def test_it_covers_what_the_receipts_do() -> None:
    async with ScriptedServer(*[stream(text_stream(CHAT))] * 2) as server, gate(with_ui(server.url, receipts=2)) as up:
        await up.stream(MESSAGES)
        metrics = up.gateway.metrics
        assert own_history(up.gateway)["covered"] <= round(metrics.uptime, 1)
        await up.stream(CHAT)
        oldest = list(up.gateway.receipts.newest())[-1]
        assert own_history(up.gateway)["covered"] <= round(metrics.seconds(oldest), 1)
        async with up.session.get(f"{up.url}/ui/api/history") as response:
            found = await response.json()
    assert sum(each["requests"].get("completed", 0) for each in found["bins"]) == 2
    assert len(found["bins"]) == BINS


async def test_other_workers_are_asked() -> None:
    other = own_history(Gateway(with_ui()))
    other["bins"][-1]["requests"] = {"failed": 3}

    class Siblings:
        async def console(self, question: Any) -> Any:
            assert question == {"kind": "history"}
            return [other]

    siblings: Any = Siblings()
    found = await history(Gateway(with_ui(), siblings=siblings))
    assert found["bins"][-1]["requests"] == {"failed": 3}
