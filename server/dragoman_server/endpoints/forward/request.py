"""The steps from a client's request to a forwarded endpoint to the request that goes upstream.

    read the model's name → choose the target → check that it serves the endpoint → replace the model's name

A JSON body is read whole. A form, which may hold long files, is read until its field `model` was found; the rest goes
upstream while it arrives.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from dragoman import ClientRequestError, Dialect, DragomanError, Limits, Translation
from dragoman.aio import Upload, UpstreamRequest
from dragoman.errors import FailureKind
from dragoman.gateway import FormField, boundary_of, forward, parse_body, quote
from dragoman.wire import Json
from dragoman_server.config.forwarded_endpoints import FORM_TYPE, FORMS, FORWARDED
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.auth import check_model, owner_at
from dragoman_server.proxy.error_response import client_failure, unsupported
from dragoman_server.proxy.hooks import Hooks, chosen
from dragoman_server.proxy.limits import estimate_of_form
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_body import RequestBodies, read_model
from dragoman_server.proxy.upstream_request import UpstreamRequests
from dragoman_server.routing.client_pauses import party_of
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.router import Target
from dragoman_server.routing.routing_state import RoutingState

if TYPE_CHECKING:
    from dragoman_server.observability.captures.recording import Recording

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
ONLY_PROVIDER = "only"
"""The route of a request without a model, which goes to the only provider that serves its endpoint."""


class ClientBody(NamedTuple):
    """A request's body, read as far as its model's name."""

    body: bytes
    """The whole body, or the part of a form that was read."""
    model: str
    """Empty if the request names none."""
    payload: Json | None
    """The parsed body; None for a form."""
    form: FormField | None = None
    rest: AsyncGenerator[bytes, None] | None = None
    """The part of a form that was not read yet."""


async def read_body(request: web.Request, receipt: Receipt, bodies: RequestBodies, limits: Limits) -> ClientBody:
    """Read a request's body as far as its model's name. Raises DragomanError."""
    endpoint, capture = receipt.endpoint, receipt.capture
    if request.content_type == FORM_TYPE:
        if endpoint not in FORMS:
            raise DragomanError(unsupported(f"/v1/{endpoint} takes no form: send JSON"))
        return await _read_form(request, bodies, limits, capture)
    body = await bodies.read(request)
    if capture is not None:
        capture.received(body)
    payload = await compute(len(body), partial(parse_body, body, limits), receipt.owner, request)
    return ClientBody(body, read_model(payload) if payload.get("model") is not None else "", payload)


async def _read_form(
    request: web.Request, bodies: RequestBodies, limits: Limits, capture: Recording | None
) -> ClientBody:
    form = FormField(boundary_of(request.headers["content-type"]), "model")
    rest = bodies.pieces(request, limits.upload)
    if capture is not None:
        rest = capture.measured(rest, FORM_TYPE)
    held: list[bytes] = []
    size = 0
    async for piece in rest:
        form.feed(piece)
        held.append(piece)
        size += len(piece)
        # By its place in the form, so that the result does not depend on how the form was split.
        if (form.end if form.value is not None or form.ended else size) > limits.upload_held:
            late = f"is not within the first {limits.upload_held} bytes of the form (limits.upload_held)"
            raise ClientRequestError(("model",), f"{late}: send it before the files")
        if form.value is not None or form.ended:
            break
    else:
        form.finish()
    return ClientBody(b"".join(held), form.value or "", None, form, rest)


async def choose_target(
    request: web.Request, receipt: Receipt, loaded: LoadedConfig, hooks: Hooks[Any], model: str
) -> Target:
    """Return the provider and the model's name there. Raises DragomanError.

    If the target has a plan, at least one of its candidates serves the endpoint.
    """
    if receipt.key is not None:
        check_model(receipt.key, model)
    target = None
    if hooks.choose is not None:
        target = await chosen(hooks.choose, request, model, receipt.client, receipt.principal, loaded.router)
    if target is None:
        target = loaded.router.resolve(model, receipt.client) if model else _only_target(loaded, receipt.endpoint)
    if target.warning is not None:
        # The small model, which stands in for unknown ones, is one for conversations.
        message = f"model {quote(model)} has no route, and models.small does not stand in for it in {receipt.endpoint}"
        raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404, code="model_not_found"))
    provider, group = target.provider, FORWARDED[receipt.endpoint]
    receipt.provider, receipt.route = provider.name, target.route
    if not any(each.provider.serves(group) for each in (target.plan.candidates if target.plan else (target,))):
        message = (
            f"the provider {provider.name} of model {quote(model)} does not serve /v1/{receipt.endpoint}: route the"
            f' model to one that does, or set providers.{provider.name}.endpoints = ["{group}"]'
        )
        raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404, code="endpoint_not_served"))
    return target


def choose_candidate(
    request: web.Request, target: Target, receipt: Receipt, routing: RoutingState, address: bytes
) -> tuple[Target, list[Candidate], Candidate | None]:
    """Return the target for the best candidate of its plan at the moment, that candidate, and the order of all.

    `address` is the client's: it separates clients of the same key, as a conversation does elsewhere. Only candidates
    that serve the endpoint count. Both are empty without a plan. Raises DragomanError if all pause.
    """
    if target.plan is None:
        return target, [], None
    group = FORWARDED[receipt.endpoint]
    owner = owner_at(target.provider, receipt.owner, request.headers)
    party = party_of(owner, address)
    routing.budget.count_request(owner)
    ranking = [each for each in routing.ranking(target.plan, None) if each.provider.serves(group)]
    usable = routing.usable(ranking, party)
    if not usable:
        raise routing.unavailable(ranking, party)
    candidate = usable[0]
    receipt.provider = candidate.provider.name
    return target._replace(provider=candidate.provider, upstream_model=candidate.upstream_model), ranking, candidate


def _only_target(loaded: LoadedConfig, endpoint: str) -> Target:
    """Return the target of a request without a model. Raises ClientRequestError if there are several providers."""
    serving = [each for each in loaded.config.providers.values() if each.serves(FORWARDED[endpoint])]
    if len(serving) != 1:
        count = "several providers serve" if serving else "no provider serves"
        raise ClientRequestError(("model",), f"is required (a string), as {count} /v1/{endpoint}")
    return loaded.router.direct_target(serving[0], "", ONLY_PROVIDER)


async def exchange_of(
    request: web.Request,
    receipt: Receipt,
    loaded: LoadedConfig,
    target: Target,
    client: ClientBody,
    clock: Callable[[], float],
) -> Translation:
    """Return the exchange, with the body for the upstream unless it is a form. Raises ClientRequestError."""
    body = b"" if client.payload is None else client.body
    job = partial(
        forward,
        body,
        client.payload,
        model=client.model,
        upstream_model=target.upstream_model,
        knobs=target.knobs_for(receipt.client_profile),
        limits=loaded.config.server.limits,
        created=receipt.created,
        request_id=receipt.request_id,
        clock=clock,
        secrets=loaded.secrets_of(target.provider, request.headers),
        own_key=target.provider.own_key,
    )
    receipt.translation = translation = await compute(len(body), job, receipt.owner, request)
    if client.form is not None:
        translation.context.input_estimate = estimate_of_form(request.content_length or len(client.body))
    return translation


def upstream_request(
    requests: UpstreamRequests,
    request: web.Request,
    loaded: LoadedConfig,
    target: Target,
    translation: Translation,
    client: ClientBody,
    endpoint: str,
) -> tuple[UpstreamRequest, Upload | None]:
    """Return the request for the upstream, and its body if that is a form. Raises ClientRequestError."""
    provider = target.provider
    headers = requests.headers(provider, request.headers, same_dialect=provider.dialect is not Dialect.MESSAGES)
    # Audio is not compressed, and events must not wait for a compressor.
    stream = translation.stream or client.form is not None or endpoint == "audio/speech"
    upload = None
    if client.form is not None:
        headers["content-type"] = _form_type(boundary_of(request.headers["content-type"]).decode())
        upload = _upload(request, client, client.form, target.upstream_model, translation)
    timeouts = loaded.config.server.timeouts
    return UpstreamRequest(provider.endpoint(endpoint), headers, translation.body, stream, timeouts), upload


def _form_type(boundary: str) -> str:
    return f"{FORM_TYPE}; boundary={boundary}" if _TOKEN.match(boundary) else f'{FORM_TYPE}; boundary="{boundary}"'


def _upload(request: web.Request, client: ClientBody, form: FormField, model: str, translation: Translation) -> Upload:
    """Return the form for the upstream, with the model's name there."""
    body = client.body
    if form.value is not None:
        body = body[: form.start] + model.encode() + body[form.end :]
    length = None if "content-encoding" in request.headers else request.content_length
    if length is not None:
        length += len(body) - len(client.body)
    return Upload(_pieces(body, client.rest, form, translation), length)


async def _pieces(
    body: bytes, rest: AsyncGenerator[bytes, None] | None, form: FormField, translation: Translation
) -> AsyncGenerator[bytes, None]:
    """Yield the form, and estimate its tokens. Raises ClientRequestError if the rest has a second field `model`."""
    yield body
    size = len(body)
    if rest is not None:
        async for piece in rest:
            form.feed(piece)
            size += len(piece)
            translation.context.input_estimate = estimate_of_form(size)  # its length may not be known before
            yield piece
    form.finish()
