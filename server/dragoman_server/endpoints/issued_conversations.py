"""Conversations that an upstream keeps: requests about them go to the provider that has them, untranslated.

A client reaches those that it has created, and others where all that a provider keeps for its key is its own
(`may_ask`). Requests of the API that name a conversation make its provider known, but give no access to it here: a
client of a shared key could send the id of another one's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from aiohttp import web

from dragoman import ClientRequestError
from dragoman.aio import UpstreamResponse
from dragoman.gateway import quote
from dragoman.threads import conversation_not_found, is_conversation, is_response_id
from dragoman.wire import json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.endpoints.issued_responses import forward_about
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.issuer_search import find_provider, may_ask, only_elsewhere, stores_responses
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.routing.response_issuers import ELSEWHERE, Issuer
from dragoman_server.services import Services

_ID_MAX = 512


def keeper_of_new(services: Services) -> tuple[Issuer, Provider] | None:
    """Return the provider that new conversations are created at; None if the gateway keeps them, or no one does.

    The gateway does if it stores responses and a provider of the configuration, or of a hook, needs that. Raises
    ClientRequestError if several providers keep conversations of their own.
    """
    keepers = [(issuer, each) for issuer, each in services.router.issuers() if stores_responses(each)]
    names = sorted({issuer.provider for issuer, _ in keepers})
    stores = services.responses.stores
    if not names or (stores and (len(names) < len(services.config.providers) or services.hooks.choose is not None)):
        return None
    if len(names) > 1:
        setting = 'state = "gateway"' if stores else '[state] and state = "gateway"'
        message = (
            f"a conversation would be created at one of several providers ({', '.join(map(quote, names))}), and be "
            f"unknown to the others: set {setting} at these providers, so that the gateway keeps "
            "conversations for all of them"
        )
        raise ClientRequestError("", message)
    return keepers[0]


async def keeper_of(services: Services, request: web.Request, caller: Caller) -> Provider | None:
    """Return the provider that is known to keep the conversation in the path for this client; None without one."""
    given, issuers = request.match_info["id"], services.routing.issuers
    if not _may_be(given):
        return None
    issuer = await issuers.look_up(caller.owner, given)
    provider = services.router.issuing_provider(issuer) if issuer is not None else None
    if provider is None or may_ask(services, provider, caller.owner, request.headers):
        return provider
    return provider if await issuers.look_up(caller.owner, _created(given)) is not None else None


async def find_keeper(services: Services, request: web.Request, caller: Caller) -> Provider | None:
    """Return the provider that has the conversation in the path, which was not known; None without one.

    Raises DragomanError: 404 if providers may have it, but must not be asked, 429 if the client has searched too much.
    """
    given = request.match_info["id"]
    if not _may_be(given):
        return None
    among = services.router.issuers()
    provider = await find_provider(services, caller.owner, given, request.headers, among)
    if provider is not None or services.routing.issuers.shared is not None:
        return provider
    if only_elsewhere(services, caller.owner, request.headers, [each for _, each in among]):
        raise conversation_not_found(given, ELSEWHERE)
    return None


async def forward_to_keeper(
    services: Services, request: web.Request, caller: Caller, provider: Provider, request_id: str, body: bytes
) -> web.StreamResponse:
    """Send a request about a conversation to its provider, and return the response. Raises DragomanError."""
    return await forward_about(services, request, caller, provider, request_id, _path(request), body)


async def create_at(
    services: Services,
    request: web.Request,
    caller: Caller,
    keeper: tuple[Issuer, Provider],
    request_id: str,
    body: bytes,
) -> web.StreamResponse:
    """Create a conversation at a provider, which is known to keep it from then on. Raises DragomanError."""
    issuer, provider = keeper
    issuers, owner = services.routing.issuers, caller.owner

    async def learn(body: bytes) -> None:
        created = await compute(len(body), partial(_id_in, body), owner, request)
        for given in (created, _created(created)) if created else ():
            issuers.add(owner, given, issuer)
            await issuers.share(owner, given, issuer)

    watch = partial(_WatchedBody, learn=learn)
    return await forward_about(services, request, caller, provider, request_id, "conversations", body, watch=watch)


class _WatchedBody:
    """The upstream's response `inner`. `learn` gets the body of a success before the client does."""

    def __init__(self, inner: UpstreamResponse, learn: Callable[[bytes], Awaitable[None]]) -> None:
        self._inner = inner
        self._learn = learn
        self.status, self.headers = inner.status, inner.headers

    async def read(self, limit: int) -> bytes:
        """Return the whole body, as `UpstreamResponse.read` does."""
        body = await self._inner.read(limit)
        if 200 <= self.status < 300:
            await self._learn(body)
        return body

    def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, as `UpstreamResponse.batches` does."""
        return self._inner.batches()

    async def close(self) -> None:
        """Close the response."""
        await self._inner.close()


def _path(request: web.Request) -> str:
    """Return the path of a request below `/v1`. Raises DragomanError (404) for an item that cannot be one."""
    path = f"conversations/{request.match_info['id']}"
    item = request.match_info.get("item_id")
    if item is not None:
        if not is_response_id(f"_{item}"):
            raise conversation_not_found(request.match_info["id"])
        return f"{path}/items/{item}"
    return f"{path}/items" if request.path.rstrip("/").endswith("/items") else path


def _may_be(given: str) -> bool:
    return is_conversation(given) and is_response_id(f"_{given}")


def _id_in(body: bytes) -> str:
    """Return the id of a conversation; empty for anything else."""
    try:
        data = json_loads(body)
    except ValueError:
        return ""
    given = data.get("id") if isinstance(data, dict) else None
    return given if isinstance(given, str) and len(given) <= _ID_MAX and _may_be(given) else ""


def _created(given: str) -> str:
    """Return a name of a conversation that is known only if its client has created it."""
    return f"created {given}"
