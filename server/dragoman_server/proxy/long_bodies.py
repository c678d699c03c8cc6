"""Long bodies of requests and replies are parsed and translated in a thread, so that other clients do not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from dragoman.aio import off_loop

T = TypeVar("T")
LONG_BODY = 3 << 17
"""Bytes of a body from which on it is parsed and translated in a thread.

Translating 384 KiB takes 1 to 4 ms, and with parts of one letter 35 ms. While a thread runs, the event loop waits up to
5 ms for each turn, so a thread gains nothing for less. Most requests of coding agents are shorter.
"""


async def compute(size: int, job: Callable[[], T], owner: bytes | str, request: web.Request | None = None) -> T:
    """Return the result of `job`, which works on a body of `size` bytes: in a thread if it is long.

    Clients take turns; they differ by `owner`, the digest of their key or the owner of stored responses, or without
    keys by their addresses. A job must change nothing that is used if its request is cancelled. Raises what the job
    raises.
    """
    if size <= LONG_BODY:
        return job()
    return await off_loop(owner or (request.remote if request is not None else None), job)
