"""The line of a request, as text."""

from __future__ import annotations

import pytest

from dragoman import Dialect, LossCode, Translation, Usage, direction, translate
from dragoman_server.observability.access_log import RequestLine, direction_text, request_line
from dragoman_server.receipt import Receipt
from support.scopes import end

CHAT, MESSAGES, *_ = Dialect


def translated(model: str = "client-model") -> Translation:
    """A translated request of a stream."""
    body = b'{"model":"%s","messages":[{"role":"user","content":"Hi"}],"stream":true,"max_tokens":9}'
    return translate(direction(CHAT, MESSAGES), body % model.encode(), upstream_model="up-model")


def line_of(receipt: Receipt, *, cause: str = "", note: str = "") -> RequestLine:
    return request_line(receipt, "chat→messages a → b completed", "completed", 200, 1.25, cause=cause, note=note)


def test_a_request_without_a_translation() -> None:
    assert str(line_of(Receipt("req_1", CHAT, 7))) == ("req_1 chat→messages a → b completed status=200 duration=1.250")


def test_the_parts_are_in_order() -> None:
    receipt = Receipt("req_1", CHAT, 7, provider="up", route="claude-*\n", client_profile="codex")
    receipt.translation = translation = translated()
    translation.context.usage = Usage(12, 3, None, 7)
    translation.context.losses.add(LossCode.TOP_K, "top_k")
    translation.context.losses.add(LossCode.CACHE_HINT, "a")
    receipt.opened_at, receipt.begun_at = 5.0, 5.5
    line = line_of(receipt, cause="it broke", note="; a note")
    line.trace_id = "abc"
    text = (
        "req_1 chat→messages a → b completed status=200 duration=1.250 first_event=0.500 tokens_in=12 tokens_out=7"
        r" provider=up route=claude-*\n client=codex trace_id=abc: it broke; losses: cache_hint=1, top_k=1; a note"
    )
    assert str(line) == text
    end(receipt, "completed", 200)
    assert str(line) == text


@pytest.mark.parametrize("estimated", [(), ("input_total",), ("output_total",), ("input_total", "output_total")])
@pytest.mark.parametrize(
    "usage", [None, Usage(), Usage(12, None, None, 7), Usage(0, None, None, 0), Usage(12), Usage(output_total=7)]
)
def test_tokens_that_are_known_and_whether_they_are_estimates(usage: Usage | None, estimated: tuple[str, ...]) -> None:
    receipt = Receipt("req_1", CHAT, 7)
    receipt.translation = translated()
    receipt.keep_facts(receipt.translation)
    assert receipt.facts is not None
    receipt.facts.usage, receipt.facts.estimated = usage, estimated
    counts = (
        {} if usage is None else {"in": (usage.input_total, "input_total"), "out": (usage.output_total, "output_total")}
    )
    tokens = "".join(
        f" tokens_{name}={'~' * (attribute in estimated)}{count}"
        for name, (count, attribute) in counts.items()
        if count is not None
    )
    assert str(line_of(receipt)) == f"req_1 chat→messages a → b completed status=200 duration=1.250{tokens}"


def test_the_direction_and_the_models() -> None:
    translation = translated()
    assert direction_text(translation) == f"{translation.direction} client-model → up-model"
    assert str(translation.direction) == "chat→messages"
