"""The facts of an exchange that has just ended."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dragoman import Dialect, Failure, Usage, translate
from dragoman.errors import FailureKind
from dragoman.gateway import DIRECTIONS, ReplyOptions, ServiceReport
from dragoman_server.accounts.usage.price import CallPrices, Price, TierPrice
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.receipt import AttemptRow, Facts, Receipt

BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
FAILURE = Failure(FailureKind.OVERLOADED, "", 529)


def price(usage: Usage, model: str, provider: str | None, service: ServiceReport | None) -> Decimal | None:
    if (model, provider) != ("up", "p"):
        return None
    return Decimal(usage.input_total or 0) * (2 if service is not None and service.tier == "priority" else 1)


def receipt(usage: Usage | None = None, ended: str = "completed") -> Receipt:
    """The receipt of a translated request, as it is when the exchange has ended."""
    found = Receipt("req_1", Dialect.CHAT, 1_790_000_000, provider="p", ended=ended, status=200, duration=2.0)
    direction = DIRECTIONS[Dialect.CHAT, Dialect.MESSAGES]
    found.translation = translate(
        direction, BODY, upstream_model="up", options=ReplyOptions(created=1, request_id="req_1")
    )
    found.translation.context.input_estimate = 9
    found.facts = Facts(Dialect.MESSAGES, "up", False, usage, (), None)
    return found


def test_usage_has_its_cost() -> None:
    ended = EndedExchange.of(receipt(Usage(input_total=5)), None, price)
    assert (ended.usage, ended.estimated, ended.cost) == (Usage(input_total=5), (), Decimal(5))
    assert (ended.duration, ended.first_event, ended.attempts) == (2.0, None, 1)
    served = receipt(Usage(input_total=5))
    assert served.facts is not None
    served.facts.service = ServiceReport("priority")
    ended = EndedExchange.of(served, None, price)
    assert (ended.cost, ended.record().service) == (Decimal(10), ServiceReport("priority"))
    assert EndedExchange.of(receipt(), None, price).record().service is None


def test_the_input_of_an_accepted_request_is_estimated() -> None:
    ended = EndedExchange.of(receipt(), None, price)
    assert (ended.usage, ended.estimated, ended.cost) == (Usage(input_total=9), ("input_total",), Decimal(9))
    refused = EndedExchange.of(receipt(ended="refused"), None, price)
    assert (refused.usage, refused.estimated, refused.cost, refused.partial) == (None, (), None, False)


def test_the_input_of_a_whole_reply_that_was_cut_is_estimated_after_any_attempt() -> None:
    given = receipt(ended="failed")
    given.attempts = (AttemptRow("p", "up", 0, "cut", None, 1.0, 0.0),)
    assert EndedExchange.of(given, None, price).usage is None
    given.cut = True
    ended = EndedExchange.of(given, None, price)
    assert (ended.usage, ended.estimated, ended.partial) == (Usage(input_total=9), ("input_total",), True)


def test_the_parts_of_other_models_have_their_own_cost_or_that_of_the_requested_model() -> None:
    table = PriceTable({"up": Price(input=1e6), "adviser": Price(input=5e6)})
    usage = Usage(10, other_models=(("adviser", Usage(3)), ("unknown", Usage(2)), ("", Usage(4))))
    ended = EndedExchange.of(receipt(usage), None, table.cost)
    assert (ended.cost, ended.other_costs) == (Decimal(22), (Decimal(15), Decimal(2), Decimal(4)))
    assert EndedExchange.of(receipt(usage), None, lambda *_: None).other_costs == ()
    assert EndedExchange.of(receipt(Usage(10)), None, table.cost).other_costs == ()


@pytest.mark.parametrize("stated", [ServiceReport("flex"), ServiceReport("flex", "fast", searches=2), None])
def test_the_parts_and_the_rest_add_up_to_the_cost(stated: ServiceReport | None) -> None:
    tiers = {"flex": TierPrice(factor=0.5), "fast": TierPrice(factor=6.0)}
    table = PriceTable(
        {
            "up": Price(input=1e6, output=2e6, tiers=tiers, calls=CallPrices(web_search=7.0)),
            "adviser": Price(input=5e6, tiers=tiers, calls=CallPrices(web_search=9.0)),
        }
    )
    given = receipt(Usage(10, output_total=4, other_models=(("adviser", Usage(3)), ("unknown", Usage(2)))))
    assert given.facts is not None
    given.facts.service = stated
    ended = EndedExchange.of(given, None, table.cost)
    own = table.cost(Usage(5, output_total=4), "up", "p", stated)
    assert ended.cost is not None
    assert own is not None
    assert sum((cost for cost in ended.other_costs if cost is not None), own) == ended.cost


def test_the_failure_is_the_gateways_or_that_of_the_reply() -> None:
    given = receipt()
    assert given.translation is not None
    given.translation.context.failure = FAILURE
    assert EndedExchange.of(given, None, price).failure is FAILURE
    own = Failure(FailureKind.TIMEOUT, "", 504)
    assert EndedExchange.of(given, own, price).record().error_kind is FailureKind.TIMEOUT


def test_a_request_that_was_rejected_has_no_attempt() -> None:
    ended = EndedExchange.of(Receipt("req_1", Dialect.CHAT, 1, ended="rejected"), FAILURE, price)
    record = ended.record()
    assert (record.attempts, record.upstream, record.usage, record.cost) == (0, None, None, None)
    assert record.error_kind is FailureKind.OVERLOADED
    assert EndedExchange.of(receipt(ended="rejected"), FAILURE, price).attempts == 0
