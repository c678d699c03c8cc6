"""The last steps before a request is sent: the request to its upstream, and the transport that sends it."""

from __future__ import annotations

import logging
from functools import partial

from dragoman.aio import ObservedTransport
from dragoman.gateway import PromptDigest, quote
from dragoman_server.draft import Draft
from dragoman_server.proxy.booked_transport import BookedTransport
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.output_cap_retry import OutputCapTransport
from dragoman_server.routing.plan import Candidate
from dragoman_server.scope import RequestScope

log = logging.getLogger("dragoman")


async def diagnose_cache(scope: RequestScope, draft: Draft) -> None:
    """Compare the prompt with the one before it in its conversation (`server.prefix_diagnostics`)."""
    receipt, translation, diagnostics = scope.receipt, scope.translation, scope.services.prompt_cache
    upstream = translation.direction.upstream.dialect
    digest = partial(PromptDigest.of, upstream, translation.body, translation.upstream_model)
    prompt = await compute(len(translation.body), digest, receipt.owner, draft.request)
    receipt.cache = diagnostics.compare(
        prompt, translation, draft.payload, draft.request.headers, receipt.owner, receipt.request_id
    )


def connect(scope: RequestScope, draft: Draft) -> None:
    """Build the request to the upstream, and take the transport."""
    receipt, translation, target = scope.receipt, scope.translation, draft.target
    provider, request = target.provider, draft.request
    if target.warning:
        log.warning("%s %s", receipt.request_id, target.warning)
    draft.transport = scope.services.upstream.transport
    draft.call = call = scope.services.upstream_requests.build(request, translation, provider, draft.loaded)
    if log.isEnabledFor(logging.DEBUG):
        client = receipt.client_profile or "none"
        sent = f"{'stream' if translation.stream else 'request'} of {len(draft.body)} bytes, client profile {client}"
        route = f"model {quote(translation.model)} by route {quote(target.route)} to {provider.name}"
        profile = provider.profile_name or "of its own"
        place = f"{provider.address()}, {len(call.body)} bytes, profile {profile}"
        log.debug("%s %s %s; %s at %s", receipt.request_id, receipt.client, sent, route, place)


def attach_run(scope: RequestScope, draft: Draft) -> None:
    """Let the upstream generate the response of a run in the background, if its provider has such responses.

    One that is not to be stored stays as it is: an upstream stores what it generates in the background. So does one
    whose conversation was compacted: no other process could make its reply again.
    """
    attachment, payload = scope.attachment, draft.payload
    if attachment is None or not scope.translation.stream or payload.get("store") is False:
        return
    from dragoman_server.proxy.attached.background_transport import BackgroundTransport
    from dragoman_server.proxy.attached.handover import can_hand_over

    if can_hand_over(draft.turn):
        draft.transport = BackgroundTransport(draft.transport, scope, draft, attachment)


def book_begun(scope: RequestScope, draft: Draft) -> None:
    """Book the exchange from its beginning. It is a step of gateways that keep a journal of usage.

    The entry of a run that other processes know is in their store, and the process that ends the run books it.
    """
    if scope.run is None or scope.run.share is None:
        draft.transport = BookedTransport(draft.transport, scope.services.instruments.usage, scope.receipt)


def trace_call(scope: RequestScope, draft: Draft) -> None:
    """Begin the first attempt in the trace, and add the headers of the trace. It is a step of gateways with tracing."""
    if scope.trace is not None:
        provider, model = draft.target.provider, scope.translation.upstream_model
        draft.call = scope.trace.start_attempt(draft.call, provider, model)


def lower_output_cap(scope: RequestScope, draft: Draft) -> None:
    """Send the request once more if the upstream refuses the output cap of a client that set none."""
    if draft.target.provider.dialect.facts.output_cap or draft.ranking is not None:
        draft.transport = OutputCapTransport(draft.transport, scope)


def expect_response(scope: RequestScope, draft: Draft) -> None:
    """Expect the id of a response that the upstream is to store: requests that continue it go to the same one."""
    provider = draft.target.provider
    if provider.dialect.facts.stored or draft.loaded.router.has_plans:
        created_at = draft.candidate or Candidate(provider, scope.translation.upstream_model)
        scope.expected = scope.services.routing.issuers.expect(scope.receipt.owner, draft.payload, created_at)


def record_stream(scope: RequestScope, draft: Draft) -> None:
    """Record both sides of the stream, while the console shows it. It is a step of gateways with a console."""
    recorder, instruments = scope.services.instruments.recorder, scope.services.instruments
    if recorder is not None:
        clock = partial(instruments.metrics.seconds, scope.receipt)
        if (recording := recorder.begin(draft.request, scope.receipt.request_id, clock)) is not None:
            draft.transport = ObservedTransport(draft.transport, recording.observe)
            scope.record = recording.sent
