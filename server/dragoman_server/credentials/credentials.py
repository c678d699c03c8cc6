"""The credentials of one gateway, by provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dragoman.aio import UpstreamRequest
from dragoman_server.config.credential_options import AWS, AZURE, COMMAND, GOOGLE, CredentialOptions
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.credential import Source, TokenFetch, TokenSource
from dragoman_server.credentials.renewal import Renewal

Learn = Callable[[str, Sequence[str]], None]
"""Gets the name of a provider and the texts of its last credentials, before they are used."""


class Credential:
    """The credential of one provider, and how requests carry it."""

    def __init__(self, source: Source[Any], provider: Provider, learn: Learn) -> None:
        self._source = source

        def learn_secrets(values: list[Any]) -> None:
            learn(provider.name, [text for value in values for text in source.secrets(value)])

        self.renewal: Renewal[Any] = Renewal(source, provider.credential_setting, learn_secrets)

    async def authorized(self, request: UpstreamRequest) -> tuple[UpstreamRequest, object]:
        """Return a request with the credential, and the credential. Raises CredentialError."""
        value = await self.renewal.current()
        return await self._source.authorized(request, value), value

    def is_refusal(self, status: int) -> bool:
        """True if a response of this status may mean that the credential has expired."""
        return status in self._source.refusals

    async def again(self, request: UpstreamRequest, refused: object) -> UpstreamRequest | None:
        """Return the request with another credential than the refused one, or None if there is no other now.

        Raises CredentialError.
        """
        value = await self.renewal.after_refusal(refused)
        if value is None or value is refused:
            return None
        return await self._source.authorized(request, value)


class Credentials:
    """The credentials of a gateway's providers, which are kept over a reload that does not change them."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._found: dict[tuple[object, ...], Credential] = {}

    def of(self, provider: Provider) -> Credential:
        """Return the credential of a provider that has one."""
        key = _key(provider)
        if (found := self._found.get(key)) is None:
            found = self._found[key] = Credential(source_of(provider), provider, self._learn)
        return found

    def configure(self, providers: Iterable[Provider]) -> None:
        """Begin to fetch the credentials of these providers, and forget those of others."""
        wanted = {_key(provider): provider for provider in providers if provider.credential is not None}
        self._found = {key: found for key, found in self._found.items() if key in wanted}
        for provider in wanted.values():
            self.of(provider).renewal.start()

    @property
    def failing(self) -> bool:
        """True if a credential could not be fetched when that was last tried."""
        return any(found.renewal.problem for found in self._found.values())

    async def close(self) -> None:
        """Cancel all fetches."""
        await asyncio.gather(*(found.renewal.close() for found in self._found.values()))


def source_of(provider: Provider) -> Source[Any]:
    """Return the source of a provider's credential. Its library is imported by the first fetch."""
    options = provider.credential
    assert options is not None
    if options.source == AWS:
        from dragoman_server.credentials.aws import AwsSource

        return AwsSource(options.aws_host(provider.base_url), options.profile)
    return TokenSource(_tokens(options), provider.key_header)


def _tokens(options: CredentialOptions) -> TokenFetch:
    if options.source == GOOGLE:
        from dragoman_server.credentials.google import GoogleToken

        return GoogleToken(options.scope_used)
    if options.source == AZURE:
        from dragoman_server.credentials.azure import AzureToken

        return AzureToken(options.scope_used)
    if options.source == COMMAND:
        from dragoman_server.credentials.command import CommandToken

        return CommandToken(options.command, options.ttl)
    from dragoman_server.credentials.file import FileToken

    return FileToken(options.file)


def _key(provider: Provider) -> tuple[object, ...]:
    return provider.name, provider.credential, provider.base_url, provider.key_header
