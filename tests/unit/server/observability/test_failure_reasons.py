"""The reasons of failures that the console shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman import Dialect, Failure, translate
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import DIRECTIONS
from dragoman_server.observability.failure_reasons import KEPT_MAX, QUOTE_MAX, FailureReasons, without_texts
from dragoman_server.receipt import TEXT_MAX, Receipt
from support import samples
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.sockets import ScriptedServer, answer

LONG = "a text of the client's request, which is long enough to be one"


def failure(message: str, origin: FailureOrigin = FailureOrigin.UPSTREAM) -> Failure:
    return Failure(FailureKind.INVALID_REQUEST, message, 400, origin=origin)


def test_the_failure_of_the_gateway_and_that_of_a_stream_are_kept() -> None:
    reasons = FailureReasons()
    reasons.ended(Receipt("req_1", CHAT, 1), failure("it does not fit"))
    streamed = Receipt("req_2", MESSAGES, 1)
    streamed.translation = translate(DIRECTIONS[MESSAGES, CHAT], samples.dump(samples.request(MESSAGES)))
    streamed.translation.context.failure = failure("it broke")
    reasons.ended(streamed, None)
    reasons.ended(Receipt("req_3", CHAT, 1), None)
    assert [reasons.get(f"req_{number}") for number in (1, 2, 3)] == ["it does not fit", "it broke", None]


def test_reasons_are_bounded() -> None:
    reasons = FailureReasons()
    for number in range(KEPT_MAX + 2):
        reasons.ended(Receipt(f"req_{number}", CHAT, 1), failure("x" * 2 * TEXT_MAX, FailureOrigin.PROXY))
    assert reasons.get("req_1") is None
    assert reasons.get("req_2") == "x" * TEXT_MAX


@pytest.mark.parametrize("mark", ["'", '"', "`"])
def test_long_quotations_of_an_upstream_are_left_out(mark: str) -> None:
    assert len(LONG) > QUOTE_MAX
    message = f"the value {mark}{LONG}{mark} is not allowed for {mark}model{mark}"
    assert without_texts(message) == f"the value “…” is not allowed for {mark}model{mark}"


def test_two_short_quotations_are_not_one_long_one() -> None:
    message = "unknown parameter 'reasoning' for the model of the request; did you mean 'effort' or 'thinking'?"
    assert without_texts(message) == message


def test_a_key_in_a_message_is_masked() -> None:
    assert "sk-live" not in without_texts("Incorrect API key provided: sk-live-0123456789abcdef0123456789abcdef.")


def test_own_messages_are_whole() -> None:
    reasons = FailureReasons()
    reasons.ended(Receipt("req_1", CHAT, 1), failure(f"expected '{LONG}'", FailureOrigin.CLIENT))
    assert reasons.get("req_1") == f"expected '{LONG}'"


@pytest.mark.parametrize("ui", [False, True])
async def test_they_are_kept_with_the_console_only(ui: bool) -> None:
    body = samples.dump({"error": {"message": "too many requests", "type": "x", "code": None, "param": None}})
    async with ScriptedServer(answer(429, body)) as server:
        config = config_for(server.url, Dialect.CHAT)
        config = replace(config, server=replace(config.server, ui=ui))
        async with gate(config) as up:
            await up.refusal(CHAT)
            reasons, (receipt,) = up.gateway.services.instruments.reasons, up.gateway.receipts.newest()
            assert (reasons is not None) is ui
            assert receipt.error is None or "message" not in receipt.error
            if reasons is not None:
                assert reasons.get(receipt.request_id) == "too many requests"
