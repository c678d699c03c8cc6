"""The notes to the rows of the table."""

from __future__ import annotations

from dataclasses import replace

from dragoman import Failure
from dragoman.errors import FailureKind
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.endpoints.console.row_notes import RowNotes
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt
from support.gateways import CHAT, config_for


def test_rows_have_reasons_and_recordings() -> None:
    config = config_for("http://127.0.0.1:9/v1", CHAT)
    gateway = Gateway(replace(config, server=replace(config.server, ui=True)))
    recorder = Recorder(gateway.services.instruments)
    notes = RowNotes(gateway, recorder)
    assert notes.remaining == 0
    recorder.record_next(3)
    assert notes.remaining == 3
    reasons = gateway.services.instruments.reasons
    assert reasons is not None
    reasons.ended(Receipt("req_1", CHAT, 1), Failure(FailureKind.OVERLOADED, "no room", 529))
    whole = {"id": "req_1", "state": "failed", "reason": "overloaded"}
    other = {"id": "req_2", "state": "rejected", "reason": "own words"}
    assert notes.add([whole, other, {"id": "req_1", "stage": "open"}]) == [
        {"id": "req_1", "state": "failed", "reason": "no room", "recorded": False},
        {"id": "req_2", "state": "rejected", "reason": "own words", "recorded": False},
        {"id": "req_1", "stage": "open"},
    ]
