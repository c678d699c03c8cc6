"""Finds the provider that issued a response which no process here knows: providers are asked for it, one by one.

This is done only if nothing but a provider's key separates clients there: for a client's own key, or for the only
client. Any other client might get a response of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dragoman import DragomanError
from dragoman.gateway import STORED_DIALECT
from dragoman.threads import is_conversation, is_response_id
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import UPSTREAM
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.proxy.auth import client_login, digest_of
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.response_issuers import Issuer, issuer_of
from dragoman_server.services import Services

_CREDENTIALS: Final = frozenset({"authorization", "x-api-key", "api-key"})
_UNKNOWN: Final = (400, 404, 405, 410)
"""Statuses of a provider that does not have a response, or has no such endpoint."""


def stores_responses(provider: Provider) -> bool:
    """True if a provider stores responses itself."""
    return provider.dialect is STORED_DIALECT and provider.state == UPSTREAM


def is_only_client(config: Config, owner: bytes) -> bool:
    """True if the client `owner` is the only one of a gateway, which has no keys or one."""
    keys = config.server.keys
    return not owner or (not config.named_keys and len(keys) == 1 and owner == keys[0].digest)


def may_ask(services: Services, provider: Provider, owner: bytes, headers: Mapping[str, str]) -> bool:
    """True if all that a provider stores for the key of this client's requests is this client's."""
    if not stores_responses(provider):
        return False
    loaded = services.loaded
    if is_only_client(loaded.config, owner):
        return True
    if provider.auth is not Auth.PASSTHROUGH or any(name.lower() in _CREDENTIALS for name in provider.headers):
        return False
    return client_login(headers, loaded.own_keys) is not None


async def find_provider(
    services: Services,
    owner: bytes,
    given: str,
    headers: Mapping[str, str],
    among: Iterable[tuple[Issuer, Provider]],
) -> Provider | None:
    """Return the provider that has a response or conversation with the id `given`; None if no one has it.

    `headers` are the client's. The providers `among` are asked in their order; one alone is returned without a request.
    One that has the response is kept as its issuer. If no one has it, the first one that did not answer is returned, as
    it may have it. Raises DragomanError (429) if the client has searched too much (`routing/issuer_searches.py`).
    """
    asked = {issuer: provider for issuer, provider in among if may_ask(services, provider, owner, headers)}
    path = _path_of(given)
    if not asked or not path:
        return None
    if len(asked) == 1:
        return next(iter(asked.values()))
    issuers = services.routing.issuers

    async def ask(issuer: Issuer) -> bool | None:
        found = await _has(services, asked[issuer], path, headers)
        if found:
            issuers.add(owner, given, issuer)
            await issuers.share(owner, given, issuer)
        return found

    login = client_login(headers, services.loaded.own_keys)
    client = owner if login is None else owner + digest_of(login.key)
    found = await services.routing.searches.find(client, given, tuple(asked), ask)
    return asked[found] if found is not None else None


async def learn_issuer(
    services: Services,
    owner: bytes,
    given: str,
    headers: Mapping[str, str],
    candidates: Iterable[Candidate],
) -> bool:
    """Find out who issued the response or conversation `given`: other processes know it, or the candidates do.

    Return False if one of several candidates may have it, but must not be asked, and no other process can know it.
    """
    issuers = services.routing.issuers
    if await issuers.look_up(owner, given) is not None:
        return True
    among = {issuer_of(each): each.provider for each in candidates}
    if len(among) > 1:
        await find_provider(services, owner, given, headers, among.items())
    return len(among) < 2 or issuers.shared is not None or not only_elsewhere(services, owner, headers, among.values())


def only_elsewhere(services: Services, owner: bytes, headers: Mapping[str, str], among: Iterable[Provider]) -> bool:
    """True if these providers store responses, but none of them may be asked for one of this client's."""
    storing = [each for each in among if stores_responses(each)]
    return bool(storing) and not any(may_ask(services, each, owner, headers) for each in storing)


async def _has(services: Services, provider: Provider, path: str, headers: Mapping[str, str]) -> bool | None:
    """Return True if a provider has the object at a path, False if not, None if it did not answer that."""
    sent = services.upstream_requests.headers_about(provider, headers)
    timeouts = services.loaded.config.server.timeouts
    call = request_to(provider, provider.endpoint(path), sent, b"", False, timeouts, "GET")
    try:
        async with services.upstream.opened(call, None) as (answer, _):
            status = answer.status
    except DragomanError:
        return None
    if 200 <= status < 300:
        return True
    return False if status in _UNKNOWN else None


def _path_of(given: str) -> str:
    """Return the path of a response or conversation; empty for a text that cannot be an id."""
    if is_response_id(given):
        return f"responses/{given}"
    return f"conversations/{given}" if is_conversation(given) and is_response_id(f"_{given}") else ""
