"""The link of a run to its response at the upstream."""

from __future__ import annotations

from dragoman_server.proxy.attached.attachment import Attachment


async def test_a_handover_is_kept_and_shared() -> None:
    shared: list[bytes] = []

    async def share(data: bytes) -> None:
        shared.append(data)

    for each in (Attachment(), Attachment(share)):
        assert (each.handover, each.is_taken) == (b"", False)
        await each.keep(b"data")
        assert each.handover == b"data"
    assert shared == [b"data"]
