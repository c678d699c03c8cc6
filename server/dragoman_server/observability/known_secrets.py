"""Secrets that no log line, header or error may contain: keys of the configuration and of the client.

The engine masks texts that look like keys (`dragoman.dialects.errors.redact`). This module collects the keys
themselves, which may look like any other word.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from dragoman.gateway import is_secret, redact
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config

_PUBLIC_HEADERS: Final = frozenset(
    ("accept", "anthropic-beta", "anthropic-version", "content-type", "http-referer", "openai-beta", "user-agent")
)
"""Configured headers that hold no secret. Any other header may."""
_LOGGERS: Final = ("dragoman", "aiohttp.server", "asyncio")


def provider_secrets(provider: Provider) -> tuple[str, ...]:
    """Return the secrets that are sent to a provider, plain and URL-encoded, the longest first."""
    return _forms(_secrets_sent(provider))


def _forms(texts: Iterable[str]) -> tuple[str, ...]:
    """Return those texts that are secrets, plain and URL-encoded, the longest first."""
    found = {form for text in texts for form in (text, quote(text, safe="")) if is_secret(text)}
    return tuple(sorted(found, key=len, reverse=True))


def url_secrets(url: str) -> Iterator[str]:
    """Yield the passwords in the URL of a store, plain and URL-encoded."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    fields = [value for name, value in parse_qsl(parts.query) if name.endswith("password")]
    for password in (parts.password or "", *fields, *(quote(value, safe="") for value in fields)):
        yield from (form for form in (password, unquote(password)) if is_secret(form))


def _secrets_sent(provider: Provider) -> Iterator[str]:
    if provider.api_key is not None:
        yield provider.api_key.reveal()
    for key in provider.api_keys:
        yield key.reveal()
    for name, value in provider.headers.items():
        if name.lower() not in _PUBLIC_HEADERS:
            yield value
            yield value.rpartition(" ")[2]  # after `Bearer`
    yield from url_secrets(provider.door.proxy)
    query = provider.base_url.partition("?")[2]
    for _, value in parse_qsl(query):
        yield value


class RenewedSecrets(Sequence[str]):
    """Texts to mask: `known` ones, and the credentials of a provider, which may be renewed at any time."""

    def __init__(self, provider: str, known: Sequence[str]) -> None:
        self._provider = provider
        self._known = known

    def __repr__(self) -> str:
        return f"<RenewedSecrets {self._provider}>"

    def _all(self) -> Sequence[str]:
        return (*_RENEWED.get(self._provider, ()), *self._known)

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]


_RENEWED: Final[dict[str, tuple[str, ...]]] = {}
"""The texts of the last credentials of each provider, plain and URL-encoded."""


def learn_renewed(provider: str, texts: Iterable[str]) -> None:
    """Mask the texts of a provider's last credentials from now on, in place of those before them."""
    _RENEWED[provider] = _forms(texts)
    _FILTER.update()


class _SecretFilter(logging.Filter):
    """Masks the configuration's keys in each line of a logger, and texts that look like keys in tracebacks.

    It is a second defence: texts of clients and upstreams were masked when they were received.
    """

    def __init__(self) -> None:
        super().__init__()
        self.configured: tuple[str, ...] = ()
        """The secrets of all configurations of this process."""
        self.secrets: tuple[str, ...] = ()
        """These, and the credentials that were renewed."""

    def update(self) -> None:
        """Use the present secrets."""
        found = {*self.configured, *(text for texts in _RENEWED.values() for text in texts)}
        self.secrets = tuple(sorted(found, key=len, reverse=True))

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the line. Return True: no line is dropped."""
        if not isinstance(record.msg, str):
            return True  # a `RequestLine`: its parts were masked when they were received
        message = record.getMessage()
        if "://" in message or any(secret in message for secret in self.secrets):
            record.msg, record.args = redact(message, self.secrets), None
        if record.exc_info:
            record.exc_text = redact(_TRACEBACKS.formatException(record.exc_info), self.secrets)
        return True


_TRACEBACKS: Final = logging.Formatter()
_FILTER: Final = _SecretFilter()


def mask_logs(config: Config) -> None:
    """Mask the configuration's keys in all logs of this process, in addition to those of earlier configurations."""
    found = set(_FILTER.configured)
    for provider in config.providers.values():
        found.update(provider_secrets(provider))
    for url in (config.store.url, config.store.limits_url, config.state.url, config.state.runs_url, config.usage.url):
        found.update(url_secrets(url))
    for value in config.telemetry.headers.values():
        found.update(part for part in (value, value.rpartition(" ")[2]) if is_secret(part))
    if (key := config.state.encryption_key) is not None and is_secret(key.reveal()):
        found.add(key.reveal())
    found.update(key.reveal() for key in config.server.keys if is_secret(key.reveal()))
    _FILTER.configured = tuple(found)
    _FILTER.update()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)


def configured_secrets() -> tuple[str, ...]:
    """Return the secrets of all configurations of this process and its renewed credentials, the longest first."""
    return _FILTER.secrets
