"""The steps from a client's HTTP request to the translated request. Proxy, token counts and explanations share them.

    admit → read → parse → recognise the client → choose the target → apply header overrides → translate

Each step raises a `DragomanError` for a request that it rejects. Nothing is sent upstream before all have succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiohttp import web

from dragoman import ClientRequestError, Dialect, Knobs, Limits, Profile, Translation, translate
from dragoman.gateway import DIRECTIONS, conversation_digest, parse_body
from dragoman.wire import Json
from dragoman_server.config.provider import Provider
from dragoman_server.observability.receipts import Receipt, StoredTurn
from dragoman_server.proxy.auth import WITHOUT_KEY, Caller, check_inbound, check_model, check_named, owner_at
from dragoman_server.proxy.hooks import NO_HOOKS, Hooks, authorized, chosen
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.proxy.long_bodies import LONG_BODY, compute
from dragoman_server.proxy.request_body import RequestBodies, apply_header_overrides, read_model
from dragoman_server.routing.client_pauses import party_of
from dragoman_server.routing.plan import STICKY, Candidate, Plan
from dragoman_server.routing.response_issuers import ResponseIssuers
from dragoman_server.routing.router import Target
from dragoman_server.routing.routing_state import RoutingState

if TYPE_CHECKING:
    from dragoman.threads import StoredRequest
    from dragoman_server.accounts.accounts import Accounts
    from dragoman_server.proxy.compaction import Compactions
    from dragoman_server.proxy.stored_responses import StoredResponses

_tuple: Final = tuple.__new__
"""Makes a `ResolvedRequest` of its values. A call of the class takes eight times the instructions."""
Complete = Callable[[Json, Dialect, Provider], Json]
"""Adds fields to a payload that its endpoint does not require and its translation does."""


class Continued(NamedTuple):
    """The response `previous` that a request continues whose input has the whole conversation.

    The last `own` items of the input are the request's own. Connections send such requests, as they keep what their
    clients continue.
    """

    previous: str
    own: int


CLIENT_REQUEST: Final = web.RequestKey("dragoman.client_request", web.Request)
"""Where a request that outlives its connection has the one on the connection."""
CONTINUED: Final = web.RequestKey("dragoman.continued", Continued)
"""Where such a request has it."""


class ResolvedRequest(NamedTuple):
    """A translated request. `body` and `payload` are the client's.

    `ranking` are the candidates of the target's plan in the order of this request; the translation is for `candidate`.
    `conversation` is the digest of the conversation, if it was needed.
    """

    target: Target
    translation: Translation
    body: bytes
    payload: Json
    ranking: list[Candidate] | None = None
    candidate: Candidate | None = None
    conversation: bytes | None = None


async def identify(
    request: web.Request, loaded: LoadedConfig, hooks: Hooks[Any], accounts: Accounts | None, now: Callable[[], float]
) -> Caller:
    """Return the client of a request. `accounts` are those of a gateway with named keys; `now` returns Unix seconds.

    Raises DragomanError for a client that may not use the gateway.
    """
    if loaded.web_origins is not None:
        loaded.web_origins.check(request)
    if hooks.authorize is not None:
        return Caller(*await authorized(hooks.authorize, request))
    if not loaded.requires_key:
        return WITHOUT_KEY
    if accounts is not None and loaded.named_keys:
        return check_named(accounts, loaded.config, request.headers, now())
    return Caller(check_inbound(loaded.config, request.headers))


class RunInBackground(Exception):
    """A `request` asks for a run in the background. `stored` has the fields of its `payload` about the store."""

    def __init__(self, request: web.Request, payload: Json, stored: StoredRequest) -> None:
        self.request = request
        self.payload = payload
        self.stored = stored


async def resolve_request(
    request: web.Request,
    receipt: Receipt,
    loaded: LoadedConfig,
    bodies: RequestBodies,
    hooks: Hooks[Any] = NO_HOOKS,
    *,
    complete: Complete | None = None,
    clock: Callable[[], float] | None = None,
    routing: RoutingState | None = None,
    issuers: ResponseIssuers | None = None,
    stored: StoredResponses | None = None,
    compactions: Compactions | None = None,
) -> ResolvedRequest:
    """Read and translate an admitted request of the dialect `receipt.client`.

    Each step is recorded in the receipt, so that a later error can be reported with what is known. `loaded` is fixed
    here: a reload may replace the gateway's while the body arrives. With `routing`, a request with a plan goes to the
    candidate that is the best at the moment; without it to the first one, or with `issuers` to the provider that has
    the response which the request continues. With `stored`, it may continue a stored response. `compactions` is given
    for requests of the Responses API, whose conversations may be compacted. Raises DragomanError.
    """
    headers = request.headers
    if (known := loaded.client_profiles.recognise(headers)) is not None:
        receipt.client_profile = known.name
    body = await bodies.read(request)
    if receipt.capture is not None:
        receipt.capture.received(body)
    limits = loaded.config.server.limits
    if len(body) <= LONG_BODY:
        payload = parse_body(body, limits)
    else:
        payload = await compute(len(body), partial(parse_body, body, limits), receipt.owner, request)
    receipt.model = model = read_model(payload)
    if receipt.key is not None:
        check_model(receipt.key, model)
    target = None
    if hooks.choose is not None:
        target = await chosen(hooks.choose, request, model, receipt.client, receipt.principal, loaded.router)
    if target is None:
        target = loaded.router.resolve(model, receipt.client)
    if complete is not None:
        payload = complete(payload, receipt.client, target.provider)
    given, step = payload, None
    if compactions is not None:
        step = compactions.step(request, payload, target, stores=stored is not None)
        if step is not None:
            payload = step.payload
    if stored is not None and stored.serves(receipt.client, target):
        try:
            payload, body = await stored.prepare(request, receipt, payload, body, limits.request_body)
        except RunInBackground as wanted:
            if step is not None:
                wanted.payload = given  # it is compacted when it is handled in the background
            raise
    if len(request) > 0 and (continued := request.get(CONTINUED)) is not None:
        from dragoman.threads import check_outputs  # imported here: only connections have such requests

        check_outputs(payload, len(payload["input"]) - continued.own)
    if compactions is not None and compactions.encrypts:
        payload, body = compactions.decrypted(receipt, payload, body)
    if step is not None and compactions is not None:
        target, payload, body = await compactions.run(step, request, receipt, loaded, target, payload, body)
    if target.plan is not None and routing is not None:
        return await _translate_for_plan(request, receipt, loaded, target, target.plan, body, payload, routing, clock)
    if target.plan is not None and issuers is not None and receipt.client is Dialect.RESPONSES:
        eligible = issuers.eligible([*target.plan.candidates], receipt.owner, payload)
        first = min(eligible, key=lambda each: each.priority)
        target = target._replace(provider=first.provider, upstream_model=first.upstream_model)
    if len(body) <= LONG_BODY:
        return translate_for(request, receipt, loaded, target, body, payload, clock=clock)
    return await translate_request(request, receipt, loaded, target, body, payload, clock=clock)


async def _translate_for_plan(
    request: web.Request,
    receipt: Receipt,
    loaded: LoadedConfig,
    target: Target,
    plan: Plan,
    body: bytes,
    payload: Json,
    routing: RoutingState,
    clock: Callable[[], float] | None,
) -> ResolvedRequest:
    """Translate a request for the best candidate of a plan that can express it. Raises DragomanError."""
    conversation = None
    # A request with one attempt is not kept, so it is too late to know its conversation once it has failed.
    sticky = plan.balance == STICKY and len(plan.candidates) > 1
    if sticky or plan.attempts == 1 or routing.knows_clients(plan.candidates):
        conversation = conversation_digest(receipt.client, payload, receipt.owner)
    owner = owner_at(target.provider, receipt.owner, request.headers)
    party = party_of(owner, conversation)
    routing.budget.count_request(owner)
    ranking = routing.ranking(plan, conversation)
    if receipt.client is Dialect.RESPONSES:
        ranking = routing.issuers.eligible(ranking, receipt.owner, payload)
    usable = routing.usable(ranking, party)
    if not usable:
        raise routing.unavailable(ranking, party)
    first: ClientRequestError | None = None
    for candidate in usable:
        chosen = target._replace(provider=candidate.provider, upstream_model=candidate.upstream_model)
        try:
            resolved = await translate_request(request, receipt, loaded, chosen, body, payload, clock=clock)
        except ClientRequestError as error:
            first = first or error
            # Reading a request may complete it in place: the next one gets it as the client sent it.
            parse = partial(parse_body, body, loaded.config.server.limits)
            payload = await compute(len(body), parse, receipt.owner, request)
        else:
            return resolved._replace(ranking=ranking, candidate=candidate, conversation=conversation)
    assert first is not None
    try:
        raise first.with_traceback(None)
    finally:
        del first  # it would keep this frame, and with it the request, until a garbage collection


def translate_for(
    request: web.Request,
    receipt: Receipt,
    loaded: LoadedConfig,
    target: Target,
    body: bytes,
    payload: Json,
    *,
    clock: Callable[[], float] | None = None,
) -> ResolvedRequest:
    """Translate a parsed request for its target: the last two steps. Raises DragomanError."""
    receipt.translation = translation = _translated(*_arguments(request, receipt, loaded, target, body, payload, clock))
    return _tuple(ResolvedRequest, (target, translation, body, payload, None, None, None))


async def translate_request(
    request: web.Request,
    receipt: Receipt,
    loaded: LoadedConfig,
    target: Target,
    body: bytes,
    payload: Json,
    *,
    clock: Callable[[], float] | None = None,
) -> ResolvedRequest:
    """Translate a request as `translate_for` does, in a thread if it is long.

    The thread changes only the payload and what it makes: the receipt of a request that was cancelled may be in use.
    """
    if len(body) <= LONG_BODY:
        return translate_for(request, receipt, loaded, target, body, payload, clock=clock)
    job = partial(_translated, *_arguments(request, receipt, loaded, target, body, payload, clock))
    receipt.translation = translation = await compute(len(body), job, receipt.owner, request)
    return _tuple(ResolvedRequest, (target, translation, body, payload, None, None, None))


def _arguments(
    request: web.Request,
    receipt: Receipt,
    loaded: LoadedConfig,
    target: Target,
    body: bytes,
    payload: Json,
    clock: Callable[[], float] | None,
) -> tuple[Any, ...]:
    """Return the arguments of `_translated`, and record the target in the receipt. Raises ClientRequestError."""
    provider, server, key = target.provider, loaded.config.server, receipt.key
    receipt.provider, receipt.route = provider.name, target.route
    knobs = apply_header_overrides(target.knobs_for(receipt.client_profile), request.headers)
    secrets = loaded.secrets_of(provider, request.headers)
    request_usage = loaded.requests_usage or (key is not None and key.limits.count_tokens)
    known = receipt.client, receipt.created, receipt.request_id, receipt.turn
    profile = provider.profile
    # Clients of Messages set a limit.
    if provider.dialect is Dialect.MESSAGES and receipt.client is not Dialect.MESSAGES:
        profile = loaded.output_limits.profile(provider, target.upstream_model)
    return (
        *known,
        target,
        profile,
        body,
        payload,
        knobs,
        server.limits,
        receipt.capture is not None or partial(loaded.validation.take, receipt.client, provider.dialect, provider.name),
        clock,
        secrets,
        request_usage,
    )


def _translated(
    client: Dialect,
    created: int,
    request_id: str,
    turn: StoredTurn | None,
    target: Target,
    profile: Profile,
    body: bytes,
    payload: Json,
    knobs: Knobs,
    limits: Limits,
    validate: bool | Callable[[], bool],
    clock: Callable[[], float] | None,
    secrets: Sequence[str],
    request_usage: bool,
) -> Translation:
    provider = target.provider
    try:
        return translate(
            DIRECTIONS[client, provider.dialect],
            body,
            payload=payload,
            upstream_model=target.upstream_model,
            profile=profile,
            knobs=knobs,
            limits=limits,
            created=created,
            request_id=request_id,
            validate=validate,
            clock=clock,
            secrets=secrets,
            own_key=provider.own_key,
            request_usage=request_usage,
            stored=turn.reply if turn is not None else None,
        )
    except ClientRequestError as error:
        if turn is not None:
            turn.relocate(error)
        raise
