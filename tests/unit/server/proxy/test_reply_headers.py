"""Headers of replies."""

from __future__ import annotations

from dragoman import LossCode, Losses
from dragoman_server.proxy.reply_headers import LOSS_HEADER, add_loss_header, event_stream


def test_losses_are_in_a_header_if_there_are_any() -> None:
    headers: dict[str, str] = {}
    add_loss_header(headers, None)
    add_loss_header(headers, Losses())
    assert not headers
    losses = Losses()
    for path in ("a", "b"):
        losses.add(LossCode.TOP_K, path)
    add_loss_header(headers, losses)
    assert headers == {LOSS_HEADER: "top_k=2"}


def test_an_event_stream_is_held_back_by_no_proxy() -> None:
    response = event_stream({"x-request-id": "req_1"})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-request-id"] == "req_1"
