"""A token that a program prints: `[providers.NAME.credential]` with `command`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from dragoman.wire import json_loads
from dragoman_server.config.credential_options import TTL
from dragoman_server.config.provider import Secret
from dragoman_server.credentials.credential import Grant, SourceError, token_of

SECONDS: Final = 10.0
"""Longest time that the program may take."""
OUTPUT_MAX: Final = 64 * 1024
"""Most bytes that it may print."""
_BY_HAND: Final = "run it by hand to see why"


class CommandToken:
    """Runs a program for its token.

    The program gets no input, and what it writes to standard error is discarded, as it may have a secret. It runs in a
    session of its own, so that it can be killed with all processes that it has started.

    Args:
        command: The program and its arguments.
        ttl: Seconds for which the token is valid if the output has no time; None for the default.
        now: Returns Unix seconds.
    """

    def __init__(
        self,
        command: Sequence[str],
        ttl: float | None = None,
        *,
        seconds: float = SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._command = command
        self._ttl = TTL if ttl is None else ttl
        self._seconds = seconds
        self._now = now

    async def fetch(self) -> Grant[Secret]:
        """Return what the program prints. Raises SourceError if it fails, hangs, or prints no token."""
        return self._read(await self._output())

    async def _output(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise SourceError(f"its command cannot be started ({reason}): name a program and its path") from None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._seconds):
                output = await _read_all(process.stdout)
                status = await process.wait()
        except BaseException as error:
            # With the processes that it has started: one in the background keeps the pipe open.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
            if not isinstance(error, TimeoutError):
                raise
            message = f"its command did not end within {self._seconds:g} s and was killed: {_BY_HAND}"
            raise SourceError(message) from None
        if status:
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            raise SourceError(f"its command {how}: {_BY_HAND}")
        return output

    def _read(self, output: bytes) -> Grant[Secret]:
        try:
            text = output.decode().strip()
        except UnicodeDecodeError:
            raise SourceError("the output of its command is not text: let it print the token") from None
        if not text:
            raise SourceError("its command printed nothing: let it print the token to standard output")
        if not text.startswith("{"):
            return Grant(token_of(text, "the output of its command"), self._ttl)
        try:
            found = json_loads(text)
        except ValueError:
            raise SourceError("the output of its command begins like JSON and is not: print the token alone") from None
        token = found.get("token") if isinstance(found, Mapping) else None
        if not isinstance(token, str):
            raise SourceError('the JSON of its command has no "token": print {"token": "…", "expires_at": …}')
        return Grant(token_of(token, "the token of its command"), self._lifetime(found.get("expires_at")))

    def _lifetime(self, expires_at: Any) -> float:
        """Return the seconds until a time that is Unix seconds or ISO 8601; without one, the time to live."""
        if expires_at is None:
            return self._ttl
        seconds = _unix_seconds(expires_at)
        if seconds is None:
            raise SourceError('"expires_at" of its command is no time: print Unix seconds or 2026-01-31T12:00:00Z')
        if seconds <= self._now():
            raise SourceError("the token of its command has expired already: check expires_at and the clock")
        return seconds - self._now()


async def _read_all(stream: asyncio.StreamReader) -> bytes:
    """Return all output. Raises SourceError if it is too long."""
    output = b""
    while piece := await stream.read(OUTPUT_MAX):
        output += piece
        if len(output) > OUTPUT_MAX:
            raise SourceError(f"its command printed more than {OUTPUT_MAX} bytes: let it print the token alone")
    return output


def _unix_seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
