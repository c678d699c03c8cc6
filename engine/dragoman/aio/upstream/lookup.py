"""Looks up the addresses of a host, in a thread of its own.

The loop's `getaddrinfo` shares few threads: two with uvloop. Names whose server does not answer would keep all of them,
and no other name could be looked up meanwhile. Transports share the lookups of a name, so that each name has one thread
at most.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

from aiohappyeyeballs import AddrInfoType


async def addresses_of(host: str, port: int, family: int = socket.AF_UNSPEC) -> Sequence[AddrInfoType]:
    """Return the addresses of a host. Raises OSError or UnicodeError. The end of the process waits for no thread."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[AddrInfoType]] = loop.create_future()

    def settle(result: Sequence[AddrInfoType] | Exception) -> None:
        if found.done():  # it was cancelled
            return
        if isinstance(result, Exception):
            found.set_exception(result)
        else:
            found.set_result(result)

    def look_up() -> None:
        result: Sequence[AddrInfoType] | Exception
        try:
            result = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        except Exception as error:
            result = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=look_up, daemon=True, name="dragoman-lookup").start()
    return await found
