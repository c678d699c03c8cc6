"""A request to a forwarded endpoint: its provider is the best of its plan, and its body gets that provider's model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dragoman.aio import UpstreamRequest
from dragoman.gateway import DEFAULT_DIALECT, ReplyOptions, forward
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.draft import Draft
from dragoman_server.proxy.auth import owner_at
from dragoman_server.proxy.configured_fields import with_fields
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.routing.client_pauses import party_of
from dragoman_server.routing.plan import Plan
from dragoman_server.routing.router import RoutedTarget
from dragoman_server.scope import RequestScope
from dragoman_server.steps.read import parse


async def forward_request(scope: RequestScope, draft: Draft) -> None:
    """Choose the candidate, and put its model's name into the request."""
    if (plan := draft.target.plan) is not None:
        _choose_candidate(scope, draft, plan)
    await forward_for(scope, draft, draft.target)


def _choose_candidate(scope: RequestScope, draft: Draft, plan: Plan) -> None:
    """Choose the best candidate of a plan at the moment. Raises DragomanError if all pause.

    Only candidates that serve the endpoint count.
    """
    receipt, routing, target = scope.receipt, scope.services.routing, draft.target
    group = FORWARDED[receipt.endpoint]
    # The address separates clients of the same key, as a conversation does elsewhere.
    draft.conversation = (draft.request.remote or "").encode()
    owner = owner_at(target.provider, receipt.owner, draft.request.headers)
    party = party_of(owner, draft.conversation)
    routing.budget.count_request(owner)
    draft.ranking = ranking = [each for each in routing.ranking(plan, None) if each.provider.serves(group)]
    usable = routing.usable(ranking, party)
    if not usable:
        raise routing.unavailable(ranking, party)
    draft.candidate = candidate = usable[0]
    receipt.provider = candidate.provider.name
    if draft.form is not None:  # it goes upstream while it arrives, so it cannot be sent again
        target = target._replace(plan=plan._replace(attempts=1))
    draft.target = target._replace(provider=candidate.provider, upstream_model=candidate.upstream_model)


async def forward_for(scope: RequestScope, draft: Draft, target: RoutedTarget) -> None:
    """Make the exchange of a request with a target; it has the body for the upstream unless that is a form.

    Raises ClientRequestError.
    """
    receipt, form = scope.receipt, draft.form
    job = partial(
        forward,
        draft.body,
        draft.payload if form is None else None,
        model=receipt.model or "",
        upstream_model=target.upstream_model,
        knobs=target.knobs_for(receipt.client_profile),
        limits=draft.loaded.config.server.limits,
        options=ReplyOptions(
            created=receipt.created,
            request_id=receipt.request_id,
            clock=scope.services.now,
            secrets=draft.loaded.secrets_of(target.provider, draft.request.headers),
            own_key=target.provider.own_key,
        ),
    )
    if form is None and target.provider.door.changes_body:
        job = partial(with_fields, job, target.provider)
    translation = await compute(len(draft.body), job, receipt.owner, draft.request)
    receipt.translation, receipt.provider = translation, target.provider.name
    if form is not None:
        translation.context.input_estimate = form.estimate(draft.request)


async def forward_again(scope: RequestScope, draft: Draft, target: RoutedTarget) -> None:
    """Put another candidate's model into a request of JSON, and build the request to it. Raises DragomanError."""
    await parse(scope, draft)
    await forward_for(scope, draft, target)
    draft.payload = {}
    draft.call = _call_to(scope, draft, target.provider)


def connect_forwarded(scope: RequestScope, draft: Draft) -> None:
    """Build the request to the upstream, whose body may be a form, and take the transport."""
    draft.transport = scope.services.upstream.transport
    draft.call = call = _call_to(scope, draft, draft.target.provider)
    if (form := draft.form) is not None:
        draft.upload = form.upload(draft.target.upstream_model, scope.translation)
        draft.call = replace(call, headers={**call.headers, "content-type": form.content_type}, stream=True)


def _call_to(scope: RequestScope, draft: Draft, provider: Provider) -> UpstreamRequest:
    """Return the request for a provider. Raises ClientRequestError."""
    endpoint, translation = scope.receipt.endpoint, scope.translation
    same_dialect = provider.dialect.facts.vendor == DEFAULT_DIALECT.facts.vendor
    headers = scope.services.upstream_requests.headers(provider, draft.request.headers, same_dialect=same_dialect)
    # Audio is not compressed, and events must not wait for a compressor.
    stream = translation.stream or endpoint == "audio/speech"
    timeouts = draft.loaded.config.server.timeouts
    return request_to(provider, provider.endpoint(endpoint), headers, translation.body, stream, timeouts)
