"""`GET /v1/dragoman/status`: the hosts of the gateway, their workers, stores and providers."""

from __future__ import annotations

from aiohttp import web

from dragoman import DragomanError
from dragoman.threads import StoreError
from dragoman.wire import Json, json_dumps
from dragoman_server.endpoints.hosts.host_rows import LOST, host_rows, providers_of
from dragoman_server.proxy.error_ladder import answer_without_receipt
from dragoman_server.proxy.error_response import OWN_ID, infer_dialect
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hosts.interface import LEASE
from dragoman_server.steps.admit import identify


class Status:
    """The endpoint of one gateway, for admins."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, request: web.Request) -> web.Response:
        """Return the status."""
        services = self._gateway.services
        request_id = services.new_id()
        try:
            caller = await identify(services, request)
            caller.require_admin()
            body = json_dumps(await self.status())
        except Exception as error:
            return answer_without_receipt(request, infer_dialect(request), error, request_id)
        headers = {"content-type": "application/json", "cache-control": "no-store", OWN_ID: request_id}
        return web.Response(body=body, headers=headers)

    async def status(self) -> Json:
        """Return the status. While the store fails, only this host is known."""
        gateway = self._gateway
        own = await self._own_states()
        others, problem = await self._other_states()
        rows = host_rows([*((0.0, state) for state in own), *others])
        live = [row for row in rows if row["state"] != LOST]
        return {
            "object": "dragoman.status",
            "created": int(gateway.services.now()),
            "host": gateway.host,
            "problem": problem,
            "console": gateway.config.server.ui,
            "open_requests": sum(row["open_requests"] for row in live),
            "open_streams": sum(row["open_streams"] for row in live),
            "providers": providers_of(live),
            "hosts": rows,
        }

    async def _own_states(self) -> list[Json]:
        """Return the states of this process and of the other workers that answer."""
        gateway = self._gateway
        states = [gateway.state()]
        if gateway.siblings is not None:
            try:
                answers = await gateway.siblings.console({"kind": "state"})
            except DragomanError:
                answers = []
            states += [answer for answer in answers if "gateway" in answer]
        return states

    async def _other_states(self) -> tuple[list[tuple[float, Json]], str | None]:
        """Return the states of other gateways and of lost workers, and the reason for which they are not known."""
        gateway = self._gateway
        if gateway.hosts is None:
            return [], None
        try:
            found = await gateway.hosts.processes()
        except StoreError as error:
            return [], f"the other hosts are not known: {error}"
        return [(age, state) for age, state in found if state["gateway"] != gateway.id or age > LEASE], None
