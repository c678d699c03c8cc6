"""Captures: the recording of an exchange that is captured. They are no steps of a gateway without captures."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from dragoman import Failure, Translation
from dragoman.aio import ObservedTransport
from dragoman.gateway import is_secret
from dragoman_server.draft import Draft
from dragoman_server.observability.captures.attempt_recorder import AttemptRecorder
from dragoman_server.observability.captures.captures import HEADER, VIOLATION, Captures
from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.known_secrets import configured_secrets
from dragoman_server.proxy.auth import presented_keys
from dragoman_server.proxy.web_origins import may_capture
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope


def capture(scope: RequestScope, draft: Draft) -> None:
    """Begin the recording of a request that was admitted, if it is to be captured."""
    captures, request, key = scope.services.instruments.captures, draft.request, scope.caller.key
    if captures is not None and scope.recording is None:  # a run in the background has that of its request
        value, admin = _header_of(scope, request)
        reason = captures.reason(value, admin=admin, by_key=key is not None and key.capture)
        if reason is not None:
            _begin(scope, captures, request, reason)


def capture_validated(scope: RequestScope, draft: Draft) -> None:
    """Begin the recording of a stream that will be validated, unless its client asks for none.

    It is kept only if the stream breaks the grammar of its client's dialect.
    """
    captures, request, translation = scope.services.instruments.captures, draft.request, scope.translation
    if captures is None or scope.recording is not None or translation.passthrough or not translation.stream:
        return
    value, admin = _header_of(scope, request)
    if translation.context.validates() and not captures.declined(value, admin=admin):
        recording = _begin(scope, captures, request, VIOLATION)
        if recording is not None:
            recording.received(draft.body)


def capture_calls(scope: RequestScope, draft: Draft) -> None:
    """Record what is sent upstream, and what comes back."""
    if (recording := scope.recording) is not None:
        receipt = scope.receipt
        observe = partial(AttemptRecorder, recording, partial(_current, receipt), forwarded=bool(receipt.endpoint))
        draft.transport = ObservedTransport(draft.transport, observe)


def _header_of(scope: RequestScope, request: web.Request) -> tuple[str | None, bool]:
    """Return the value of the header that asks for a capture, and whether its client may ask for one."""
    value = request.headers.get(HEADER)
    return value, value is not None and may_capture(request, scope.caller)


def _begin(scope: RequestScope, captures: Captures, request: web.Request, reason: str) -> Recording | None:
    """Begin the recording of a request. Return None if too many are open."""
    secrets = (*configured_secrets(), *filter(is_secret, presented_keys(request.headers)))
    recording = captures.record(scope.receipt.request_id, reason, secrets, scope.receipt.endpoint)
    if recording is not None:
        recording.requested(request.method, request.path_qs, request.headers.items())
        scope.recording = recording
        scope.at_end(partial(_close, recording))
    return recording


def _current(receipt: Receipt) -> tuple[Translation, str]:
    """Return the translation and the provider of the upstream request that is sent."""
    assert receipt.translation is not None
    return receipt.translation, receipt.provider or ""


def _close(recording: Recording, receipt: Receipt, _: Failure | None) -> None:
    recording.secrets += configured_secrets()  # a credential may have been renewed since
    recording.close(receipt)
