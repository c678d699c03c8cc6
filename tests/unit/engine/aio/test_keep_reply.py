"""The end of a reply waits until the reply is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dragoman.aio.keep_reply import keep_reply
from dragoman.losses import LossCode
from dragoman.reply_context import StoredReply


async def test_a_reply_is_stored_once_and_sent_unchanged() -> None:
    kept: list[tuple[bytes, Mapping[LossCode, int]]] = []

    async def keep(final: bytes, losses: Mapping[LossCode, int]) -> bool:
        await asyncio.sleep(0)
        kept.append((final, losses))
        return True

    stored = StoredReply({}, keep, b'{"store":true}')
    stored.losses.add(LossCode.TOP_K, ("top_k",))
    assert await keep_reply(stored, b"data") == b"data"
    assert await keep_reply(stored, b"more") == b"more"
    assert kept == [(b'{"store":true}', {LossCode.TOP_K: 1})]


async def test_a_reply_that_failed_or_is_not_to_be_stored_is_sent_unchanged() -> None:
    async def keep(_: bytes, __: Mapping[LossCode, int]) -> bool:
        raise AssertionError

    assert await keep_reply(StoredReply({}, keep), b"data") == b"data"
    assert await keep_reply(StoredReply({}, None, b"{}"), b"data") == b"data"


async def test_a_reply_that_could_not_be_stored_is_sent_with_store_false() -> None:
    async def keep(_: bytes, __: Mapping[LossCode, int]) -> bool:
        return False

    assert await keep_reply(StoredReply({}, keep, b"{}"), b'{"id":"r","store":true}') == b'{"id":"r","store":false}'
