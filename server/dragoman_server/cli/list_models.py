"""The models of upstreams, listed before a command starts: this shows whether an upstream can be used, too."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman import UpstreamError
from dragoman.gateway import ListedModel
from dragoman_server.config.environment import key_variable
from dragoman_server.config.host_profiles import is_vendor
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.proxy.auth import outbound_headers
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.proxy.upstream_calls import UpstreamCalls
from dragoman_server.routing.list_problems import OLLAMA, port_of, unreachable
from dragoman_server.routing.upstream_models import TIMEOUT, Fetch, ListRefused, fetch_models

_AT_ONCE = 8

KeyName = Callable[[Provider], str]
"""A function that returns the variable, or the key of the configuration, that has a provider's API key."""


@dataclass(frozen=True, slots=True)
class UpstreamList:
    """The models of one provider.

    `problem` is a sentence for the user on why the list is empty. If `fatal`, no request to the provider can succeed.
    """

    provider: Provider
    models: tuple[ListedModel, ...] = ()
    problem: str = ""
    fatal: bool = False

    def find(self, name: str) -> ListedModel | None:
        """Return the model of this name, or None. Ollama lists `NAME` as `NAME:latest`."""
        return next((model for model in self.models if model.name in (name, f"{name}:latest")), None)


def key_name(args: argparse.Namespace, provider: Provider) -> str:
    """Return the name of the key of the configuration, or of the variable, that a provider's API key is read from."""
    if args.config is not None and provider.credential is not None:
        return f"{provider.credential_setting} in {args.config}"
    if args.config is not None:
        return f"providers.{provider.name}.api_key in {args.config}"
    if args.base_url and not is_vendor(provider.dialect, provider.base_url):
        return "UPSTREAM_API_KEY"
    return key_variable(provider.dialect)


async def list_models(config: Config, providers: Sequence[Provider], key_name: KeyName) -> list[UpstreamList]:
    """List the models of the providers, over the configured transport, in `upstream_models.TIMEOUT` seconds each."""
    calls, slots = UpstreamCalls(None, OpenRequests()), asyncio.Semaphore(_AT_ONCE)
    calls.open(config)

    async def listed(provider: Provider) -> UpstreamList:
        async with slots:
            return await _list(provider, calls.fetch_list, key_name(provider))

    try:
        return await asyncio.gather(*map(listed, providers))
    finally:
        await calls.close()


async def _list(provider: Provider, fetch: Fetch, key_name: str) -> UpstreamList:
    where = provider.address()
    headers = {"accept": "application/json", **outbound_headers(provider, {})}
    try:
        async with asyncio.timeout(TIMEOUT):
            models = await fetch_models(fetch, provider, headers)
    except (TimeoutError, UpstreamError) as error:
        return UpstreamList(provider, (), unreachable(provider, error, TIMEOUT), fatal=True)
    except ListRefused as error:
        return _refused(provider, error.status, key_name)
    except ValueError as error:
        return UpstreamList(provider, problem=f"the list of models of {where} cannot be read: {error}")
    hint = ": add one with `ollama pull NAME`" if port_of(provider) == OLLAMA else ""
    return UpstreamList(provider, models, "" if models else f"{where} lists no models{hint}")


def _refused(provider: Provider, status: int, key_name: str) -> UpstreamList:
    where = provider.address()
    if status in (401, 403):
        if provider.auth is Auth.PASSTHROUGH:
            return UpstreamList(provider)  # clients send their own keys
        if provider.has_key:
            problem = f"{where} rejects the key ({status}): correct {key_name}"
        else:
            problem = f"{where} requires a key ({status}): set {key_name}"
        return UpstreamList(provider, problem=problem, fatal=True)
    return UpstreamList(provider, problem=f"{where} does not list its models ({status})")
