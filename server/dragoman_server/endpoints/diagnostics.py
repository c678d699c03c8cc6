"""The gateway's own endpoints: receipts, explanations and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from aiohttp import web

from dragoman import ClientRequestError, Dialect, DragomanError, Failure, builtin_profile
from dragoman.errors import FailureKind
from dragoman.gateway import CLIENT_DIALECTS, VENDOR_PROFILES, parse_body
from dragoman.threads import StoreError
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.draft import Draft
from dragoman_server.endpoints.explain import explanation, guess_client
from dragoman_server.endpoints.hosts.stored_receipts import owner_of, unavailable
from dragoman_server.endpoints.list_limit import read_limit
from dragoman_server.observability.exchange_record import RUNNING
from dragoman_server.observability.prometheus import CONTENT_TYPE, exposition
from dragoman_server.observability.receipts import LIST_DEFAULT, LIST_MAX
from dragoman_server.pipeline import explained, run_steps
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.error_ladder import answer_without_receipt
from dragoman_server.proxy.error_response import OWN_ID, client_failure, infer_dialect
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_body import read_model
from dragoman_server.receipt import Receipt
from dragoman_server.routing.client_profiles import BY_NAME
from dragoman_server.routing.router import RoutedTarget
from dragoman_server.scope import RequestScope
from dragoman_server.steps.admit import identify
from dragoman_server.steps.limit import explained_reservation
from dragoman_server.steps.route import chosen_target


class Diagnostics:
    """The endpoints of one gateway. They require the same key as the others, and send nothing upstream."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._services = gateway.services

    async def receipt(self, request: web.Request) -> web.Response:
        """`GET /v1/dragoman/receipts/{request_id}`."""
        return await self._answer(request, infer_dialect(request), self._receipt)

    async def receipts(self, request: web.Request) -> web.Response:
        """`GET /v1/dragoman/receipts?limit=…`: the last ones of the client's key, the newest first."""
        return await self._answer(request, infer_dialect(request), self._receipts)

    async def explain(self, request: web.Request) -> web.Response:
        """`POST /v1/dragoman/explain?to=…&from=…`. A request that the gateway would reject is rejected here, too."""
        return await self._answer(request, infer_dialect(request), self._explain)

    async def metrics(self, request: web.Request) -> web.Response:
        """`GET /metrics` with the numbers of all workers. It requires the key, as it has names of the configuration."""
        return await self._answer(request, infer_dialect(request), self._metrics, CONTENT_TYPE)

    async def _answer(
        self,
        request: web.Request,
        asked: Dialect,
        make: Callable[[web.Request, Caller], Awaitable[bytes]],
        content_type: str = "application/json",
    ) -> web.Response:
        request_id = self._services.new_id()
        try:
            body = await make(request, await identify(self._services, request))
        except Exception as error:
            dialect = error.client if isinstance(error, _ExplainError) else asked
            return answer_without_receipt(request, dialect, error, request_id)
        return web.Response(body=body, headers={"content-type": content_type, OWN_ID: request_id})

    async def _metrics(self, request: web.Request, caller: Caller) -> bytes:
        caller.require_admin()
        siblings = self._gateway.siblings
        return exposition(self._gateway.metrics.alone() if siblings is None else await siblings.totals())

    async def _receipt(self, request: web.Request, caller: Caller) -> bytes:
        owner, request_id = caller.owner, request.match_info["request_id"]
        receipt, siblings = self._gateway.receipts.find(request_id, owner), self._gateway.siblings
        found = receipt.json(self._gateway.host) if receipt is not None else None
        if found is None and siblings is not None:
            found = await siblings.receipt(request_id, owner)
        hosts = self._gateway.hosts
        # The end of a response that its upstream runs may have been read by another process.
        if hosts is not None and (found is None or json_loads(found)["ended"] == RUNNING):
            try:
                view = await hosts.receipt(request_id, owner_of(owner))
            except StoreError as error:
                if found is None:
                    raise unavailable(error) from None
                view = None
            if view is not None:
                return json_dumps(view["receipt"])
        if found is None:
            raise self._no_receipt(request_id)
        return found

    async def _receipts(self, request: web.Request, caller: Caller) -> bytes:
        most = read_limit(request.query.get("limit"), LIST_DEFAULT, LIST_MAX)
        rows, siblings = self._gateway.receipts.last(caller.owner, most), self._gateway.siblings
        if siblings is not None:
            rows += await siblings.receipts(caller.owner, most)
        if (hosts := self._gateway.hosts) is not None:
            known = {row["request_id"]: row for row in rows if row["ended"] != RUNNING}
            with suppress(StoreError):  # those of this host are listed all the same
                found = await hosts.receipts(owner_of(caller.owner), most)
                elsewhere = {row["request_id"]: row for row in found if row["request_id"] not in known}
                rows = [elsewhere.pop(row["request_id"], row) for row in rows] + [*elsewhere.values()]
        rows.sort(key=lambda row: row["created"], reverse=True)
        return json_dumps({"object": "list", "data": rows[:most]})

    def _no_receipt(self, request_id: str) -> DragomanError:
        keep = self._gateway.config.server.receipts
        kept = f"those of the last {keep} requests are kept" if keep else "none are kept (server.receipts = 0)"
        if self._gateway.hosts is not None and (seconds := self._gateway.config.store.receipts):
            kept += f", and those of all hosts for {seconds:g} s"
        message = f"there is no receipt {request_id[:100]!a} of yours; {kept}"
        return DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404))

    async def _explain(self, request: web.Request, caller: Caller) -> bytes:
        return json_dumps((await self.explained(request, caller))[1])

    async def explained(self, request: web.Request, caller: Caller) -> tuple[bytes, Json]:
        """Return the body of a request to `explain`, and the explanation. Raises DragomanError."""
        await self._services.count(caller.key, infer_dialect(request))
        limits = self._gateway.config.server.limits
        source = _dialect("from", request.query["from"], CLIENT_DIALECTS) if "from" in request.query else None
        body = await self._services.bodies.read(request)
        payload = await compute(len(body), partial(parse_body, body, limits), caller.owner, request)
        client = source or guess_client(payload)
        try:
            return body, await self._explained(request, caller, client, body, payload)
        except DragomanError as error:
            raise _ExplainError(client, error.failure) from None

    async def _explained(
        self, request: web.Request, caller: Caller, client: Dialect, body: bytes, payload: Json
    ) -> Json:
        to, model = request.query.get("to"), read_model(payload)
        scope = RequestScope(self._services, Receipt("", client, 0, client_profile=self._client_profile(request)))
        scope.admitted(caller)
        draft = Draft(request, self._services.loaded, is_sent=False, body=body, payload=payload)
        caller.require_model(model)
        target = await chosen_target(scope, draft, model) if to is None else None
        draft.target = target or self._target(to, model, client)
        await run_steps(explained(self._services, client), scope, draft)
        translation, profile, provider = scope.translation, scope.receipt.client_profile, draft.target.provider
        if to is not None and to not in draft.loaded.config.providers:
            vendor = VENDOR_PROFILES[provider.dialect]
            return explanation(translation, profile=vendor, client_profile=profile)
        reservation = explained_reservation(scope, draft)
        return explanation(translation, provider, draft.target.warning, client_profile=profile, reservation=reservation)

    def _client_profile(self, request: web.Request) -> str | None:
        """Return the client profile to assume: the one that the query names, else that of the request."""
        name = request.query.get("client")
        if name is None:
            found = self._services.loaded.client_profiles.recognise(request.headers)
            return found.name if found is not None else None
        if name not in BY_NAME:
            raise ClientRequestError("client", f"expected one of {', '.join(BY_NAME)}; got {name[:100]!a}")
        return name

    def _target(self, to: str | None, model: str, client: Dialect) -> RoutedTarget:
        """Return the target of the request, or one of the provider or the dialect that `to` names."""
        config, router = self._gateway.config, self._services.router
        if to is None:
            return router.resolve(model, client)
        provider = config.providers.get(to)
        if provider is None:
            upstream = _dialect("to", to, Dialect, *config.providers)
            return router.direct_target(
                Provider(to, upstream, upstream.facts.base_url, profile=builtin_profile(upstream)), model
            )
        try:
            # The model's own route decides on names and knobs if it leads to this provider.
            target: RoutedTarget | None = router.resolve(model, client)
        except DragomanError:
            target = None
        if target is None or target.provider is not provider:
            target = router.direct_target(provider, model)
        return target


class _ExplainError(DragomanError):
    """An error whose response is in the dialect of the explained request."""

    def __init__(self, client: Dialect, failure: Failure) -> None:
        super().__init__(failure)
        self.client = client


def _dialect(name: str, word: str, known: Iterable[Dialect], *more: str) -> Dialect:
    found = next((dialect for dialect in known if dialect == word), None)
    if found is None:
        raise ClientRequestError(name, f"expected one of {', '.join([*known, *more])}; got {word[:100]!a}")
    return found
