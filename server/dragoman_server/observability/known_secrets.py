"""The secrets that no log line, header or error may hold: keys of the configuration and of the client.

The engine masks what looks like a key (`dragoman.dialects.errors.redact`). Keys that look like any other word are known
here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, quote

from dragoman.dialects.errors.redact import is_secret, redact
from dragoman_server.config.providers import Provider
from dragoman_server.config.schema import Config

_OPEN: Final = frozenset(
    ("accept", "anthropic-beta", "anthropic-version", "content-type", "http-referer", "openai-beta", "user-agent")
)
"""Configured headers that hold no secret. Any other may."""
_LOGGERS: Final = ("dragoman", "aiohttp.server", "asyncio")


def provider_secrets(provider: Provider) -> tuple[str, ...]:
    """The secrets that a provider is sent, in each spelling that may come back, the longest first."""
    found = {spelling for text in _sent_to(provider) for spelling in (text, quote(text, safe="")) if is_secret(text)}
    return tuple(sorted(found, key=len, reverse=True))


def _sent_to(provider: Provider) -> Iterator[str]:
    if provider.api_key is not None:
        yield provider.api_key.reveal()
    for name, value in provider.headers.items():
        if name.lower() not in _OPEN:
            yield value
            yield value.rpartition(" ")[2]  # behind `Bearer`
    query = provider.base_url.partition("?")[2]
    for _, value in parse_qsl(query):
        yield value


class _Masking(logging.Filter):
    """Masks the configuration's keys in every line of a logger, and all that looks like one in tracebacks.

    It is the last resort: texts of others were masked where they came in.
    """

    def __init__(self) -> None:
        super().__init__()
        self.secrets: tuple[str, ...] = ()

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the line; every one is kept."""
        if not isinstance(record.msg, str):
            return True  # the line of a request: its parts were masked where they came in
        message = record.getMessage()
        if "://" in message or any(secret in message for secret in self.secrets):
            record.msg, record.args = redact(message, self.secrets), None
        if record.exc_info:
            record.exc_text = redact(_TRACEBACKS.formatException(record.exc_info), self.secrets)
        return True


_TRACEBACKS: Final = logging.Formatter()
_MASKING: Final = _Masking()


def mask_logs(config: Config) -> None:
    """Mask the configuration's keys in all logs of this process, from now on, beside those of earlier ones."""
    found = set(_MASKING.secrets)
    for provider in config.providers.values():
        found.update(provider_secrets(provider))
    found.update(key.reveal() for key in config.server.keys if is_secret(key.reveal()))
    _MASKING.secrets = tuple(sorted(found, key=len, reverse=True))
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_MASKING)
