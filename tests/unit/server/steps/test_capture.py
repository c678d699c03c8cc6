"""The recording of a captured exchange begins with its request and ends with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

from dragoman import Dialect
from dragoman.aio import ObservedTransport, Transport
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.capture import capture, capture_calls
from support.gateways import CHAT, config_for
from support.scopes import drafted


def scope_at(folder: Path, share: float) -> RequestScope:
    config = replace(config_for("http://up", CHAT), capture=CaptureOptions(str(folder), share=share))
    return RequestScope(Gateway(config).services, Receipt("req_1", Dialect.CHAT, 7))


async def test_a_recording_is_closed_at_the_end(tmp_path: Path) -> None:
    scope = scope_at(tmp_path, 1.0)
    draft = drafted(b"{}")
    capture(scope, draft)
    recording = scope.recording
    assert recording is not None
    assert (recording.request_id, recording.reason, recording.method) == ("req_1", "share", "POST")
    capture(scope, draft)
    assert scope.recording is recording, "a run in the background has that of its request"
    draft.transport = transport = Mock(spec=Transport)
    capture_calls(scope, draft)
    assert isinstance(draft.transport, ObservedTransport)
    assert draft.transport is not transport
    scope.end("rejected", 400)
    captures = scope.services.instruments.captures
    assert captures is not None
    job = captures._writer._jobs.get_nowait()
    assert job is not None
    assert (job[0], job[2]["ended"]) == (recording, "rejected")
    assert captures._writer._jobs.empty()


async def test_an_exchange_that_is_not_captured_keeps_its_transport(tmp_path: Path) -> None:
    scope = scope_at(tmp_path, 0.0)
    draft = drafted(b"{}")
    capture(scope, draft)
    draft.transport = transport = Mock(spec=Transport)
    capture_calls(scope, draft)
    assert (scope.recording, draft.transport) == (None, transport)
