"""The provider of a request, and the model there, by the name of the model that the client requests."""

from __future__ import annotations

from dragoman import ClientRequestError, DragomanError
from dragoman.errors import FailureKind
from dragoman.gateway import quote
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.draft import Draft
from dragoman_server.proxy.auth import check_model
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.hooks import chosen
from dragoman_server.proxy.request_body import read_model
from dragoman_server.routing.router import RoutedTarget
from dragoman_server.scope import RequestScope

ONLY_PROVIDER = "only"
"""The route of a request without a model, which goes to the only provider that serves its endpoint."""


async def route(scope: RequestScope, draft: Draft) -> None:
    """Find the target of a request that is translated."""
    model = read_model(draft.payload)
    draft.target = await chosen_target(scope, draft, model) or draft.loaded.router.resolve(model, scope.receipt.client)


async def route_forwarded(scope: RequestScope, draft: Draft) -> None:
    """Find the target of a forwarded request. If it has a plan, at least one of its candidates serves the endpoint."""
    receipt, loaded = scope.receipt, draft.loaded
    model = draft.form.model if draft.form is not None else ""
    if draft.form is None and draft.payload.get("model") is not None:
        model = read_model(draft.payload)
    target = await chosen_target(scope, draft, model)
    if target is None:
        target = loaded.router.resolve(model, receipt.client) if model else _only_target(scope, draft)
    if target.warning is not None:
        # The small model, which stands in for unknown ones, is one for conversations.
        message = f"model {quote(model)} has no route, and models.small does not stand in for it in {receipt.endpoint}"
        raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404, code="model_not_found"))
    provider, group = target.provider, FORWARDED[receipt.endpoint]
    receipt.provider, receipt.route = provider.name, target.route
    if not any(each.provider.serves(group) for each in target.candidates):
        message = (
            f"the provider {provider.name} of model {quote(model)} does not serve /v1/{receipt.endpoint}: route the"
            f' model to one that does, or set providers.{provider.name}.endpoints = ["{group}"]'
        )
        raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404, code="endpoint_not_served"))
    draft.target = target


async def chosen_target(scope: RequestScope, draft: Draft, model: str) -> RoutedTarget | None:
    """Record the model, and return the target that the hook `choose` returns; None for that of the routes.

    Raises DragomanError, also if the client's key may not use the model.
    """
    receipt, choose = scope.receipt, scope.services.hooks.choose
    receipt.model = model or None
    check_model(receipt.key, model)
    if choose is None:
        return None
    return await chosen(choose, draft.request, model, receipt.client, receipt.principal, draft.loaded.router)


def _only_target(scope: RequestScope, draft: Draft) -> RoutedTarget:
    """Return the target of a request without a model. Raises ClientRequestError if there are several providers."""
    endpoint, loaded = scope.receipt.endpoint, draft.loaded
    serving = [each for each in loaded.config.providers.values() if each.serves(FORWARDED[endpoint])]
    if len(serving) != 1:
        count = "several providers serve" if serving else "no provider serves"
        raise ClientRequestError(("model",), f"is required (a string), as {count} /v1/{endpoint}")
    return loaded.router.direct_target(serving[0], "", ONLY_PROVIDER)
