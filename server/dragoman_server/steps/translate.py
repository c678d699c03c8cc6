"""The translation of a request for its provider, or for the best provider of its plan that can express it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from dragoman import ClientRequestError, Translation, translate
from dragoman.gateway import DIRECTIONS, ReplyOptions, conversation_digest
from dragoman.wire import Json
from dragoman_server.draft import Draft, StoredTurn
from dragoman_server.proxy.auth import owner_at
from dragoman_server.proxy.betas import NONE, betas_of
from dragoman_server.proxy.configured_fields import with_fields
from dragoman_server.proxy.issuer_search import learn_issuer
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.proxy.long_bodies import LONG_BODY, compute
from dragoman_server.proxy.request_body import apply_header_overrides
from dragoman_server.routing.client_pauses import party_of
from dragoman_server.routing.plan import STICKY, Candidate, Plan
from dragoman_server.routing.response_issuers import continued_by
from dragoman_server.routing.router import RoutedTarget
from dragoman_server.scope import RequestScope
from dragoman_server.steps.read import parse


def translate_request(scope: RequestScope, draft: Draft) -> Awaitable[None]:
    """Translate a request that is to be sent."""
    plan = draft.target.plan
    return translate_unsent(scope, draft) if plan is None else _translate_for_plan(scope, draft, plan)


def translate_unsent(scope: RequestScope, draft: Draft) -> Awaitable[None]:
    """Translate a request for its target alone: for its first candidate, if it has a plan."""
    return translate_for(scope, draft, draft.target)


async def translate_counted(scope: RequestScope, draft: Draft) -> None:
    """Translate a request whose tokens are counted: for the provider that has the response which it continues."""
    target = draft.target
    if target.plan is not None and scope.receipt.client.facts.stored:
        eligible = await _eligible(scope, draft, [*target.plan.candidates])
        first = min(eligible, key=lambda each: each.priority)
        draft.target = target._replace(provider=first.provider, upstream_model=first.upstream_model)
    await translate_unsent(scope, draft)


async def _translate_for_plan(scope: RequestScope, draft: Draft, plan: Plan) -> None:
    """Translate a request for the best candidate of a plan that can express it. Raises DragomanError."""
    receipt, routing, target = scope.receipt, scope.services.routing, draft.target
    # A request with one attempt is not kept, so it is too late to know its conversation once it has failed.
    sticky = plan.balance == STICKY and len(plan.candidates) > 1
    if sticky or plan.attempts == 1 or routing.knows_clients(plan.candidates):
        draft.conversation = conversation_digest(receipt.client, draft.payload, receipt.owner)
    owner = owner_at(target.provider, receipt.owner, draft.request.headers)
    party = party_of(owner, draft.conversation)
    routing.budget.count_request(owner)
    draft.ranking = ranking = routing.ranking(plan, draft.conversation)
    if receipt.client.facts.stored:
        draft.ranking = ranking = await _eligible(scope, draft, ranking)
    usable = routing.usable(ranking, party)
    if not usable:
        raise routing.unavailable(ranking, party)
    if usable[0] is not ranking[0]:
        before = ranking[: ranking.index(usable[0])]
        paused = [each.provider.name for each in before if routing.remaining(each, party) > 0.0]
        receipt.skipped = tuple(dict.fromkeys(paused))
    first: ClientRequestError | None = None
    for candidate in usable:
        draft.candidate = candidate
        draft.target = target._replace(provider=candidate.provider, upstream_model=candidate.upstream_model)
        try:
            await translate_for(scope, draft, draft.target)
        except ClientRequestError as error:
            first = first or error
            error.__traceback__ = None  # its frames would keep the request until a garbage collection: 3 × its body
            # Reading a request may complete it in place: the next one gets it as the client sent it.
            await parse(scope, draft)
        else:
            return
    assert first is not None
    raise first


async def _eligible(scope: RequestScope, draft: Draft, ranking: list[Candidate]) -> list[Candidate]:
    """Return the candidates that may get a request of a client whose responses are stored."""
    services, owner, payload = scope.services, scope.receipt.owner, draft.payload
    if (continued := continued_by(payload)) is not None:
        is_learnt = await learn_issuer(services, owner, continued.id, draft.request.headers, ranking)
        scope.unknown = None if is_learnt else continued
    return services.routing.issuers.eligible(ranking, owner, payload)


async def translate_again(scope: RequestScope, draft: Draft, target: RoutedTarget) -> None:
    """Translate a request for another candidate, and build the request to it. Raises DragomanError."""
    await parse(scope, draft)
    await translate_for(scope, draft, target)
    draft.payload = {}
    build = scope.services.upstream_requests.build
    draft.call = build(draft.request, scope.translation, target.provider, draft.loaded)


async def translate_for(scope: RequestScope, draft: Draft, target: RoutedTarget) -> None:
    """Translate a request for a target, in a thread if it is long. Raises DragomanError.

    The thread changes only the payload and what it makes: the receipt of a request that was cancelled may be in use.
    """
    receipt, request, turn, body = scope.receipt, draft.request, draft.turn, draft.body
    receipt.provider, receipt.route = target.provider.name, target.route
    job = translation_of(scope, draft.loaded, target, body, draft.payload, request.headers, turn)
    try:
        if len(body) <= LONG_BODY:
            receipt.translation = job()
        else:
            receipt.translation = await compute(len(body), job, receipt.owner, request)
    except ClientRequestError as error:
        if turn is not None:
            turn.relocate(error)
        raise


def translation_of(
    scope: RequestScope,
    loaded: LoadedConfig,
    target: RoutedTarget,
    body: bytes,
    payload: Json,
    headers: Mapping[str, str],
    turn: StoredTurn | None,
) -> Callable[[], Translation]:
    """Return a function that translates a request for a target. Raises ClientRequestError, and so does the function."""
    receipt, provider, server = scope.receipt, target.provider, loaded.config.server
    profile, key = provider.profile, receipt.key
    # Clients that must set a limit have set one.
    if provider.dialect.facts.output_cap and not receipt.client.facts.output_cap:
        profile = loaded.output_limits.profile(provider, target.upstream_model)
    sampled = receipt.client, provider.dialect, provider.name
    direction = DIRECTIONS[receipt.client, provider.dialect]
    knobs = apply_header_overrides(target.knobs_for(receipt.client_profile), headers)
    options = ReplyOptions(
        created=receipt.created,
        request_id=receipt.request_id,
        validate=scope.recording is not None or partial(loaded.validation.take, *sampled),
        clock=scope.services.now,
        secrets=loaded.secrets_of(provider, headers),
        own_key=provider.own_key,
        request_usage=loaded.requests_usage or (key is not None and key.limits.count_tokens),
        stored=turn.reply if turn is not None else None,
    )

    job = partial(
        translate,
        direction,
        body,
        payload=payload,
        upstream_model=target.upstream_model,
        profile=profile,
        knobs=knobs,
        limits=server.limits,
        options=options,
    )
    if not provider.changes_requests:
        return job
    return partial(with_fields, job, provider, betas_of(provider, headers) if receipt.client.facts.betas else NONE)
