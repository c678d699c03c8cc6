"""The data that one process hands over to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman import Dialect
from dragoman.gateway import StoredReply
from dragoman.threads import StoredRequest
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.draft import StoredTurn
from dragoman_server.proxy.attached.handover import Handover, can_hand_over, digest_of, key_of
from support.handovers import HANDOVER


def test_it_is_read_as_it_was_written() -> None:
    given = replace(HANDOVER, body=b'{"input":"' + b"Hi" * 500 + b'"}')
    data = given.write()
    assert len(data) < 700, "the request is compressed"
    assert Handover.read(data, 2000) == given
    assert given.dialect is Dialect.CHAT
    assert "Hi" not in repr(given)


@pytest.mark.parametrize("data", [b"", b"{}", b"\n", b'{"response_id":1}\n', HANDOVER.write()[:-4], b"nonsense"])
def test_what_another_version_has_written_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"version|long|JSON|unexpected|Expecting"):
        Handover.read(data, 2000)


def test_a_request_that_is_too_long_is_refused() -> None:
    data = replace(HANDOVER, body=b"x" * 1_000_000).write()
    with pytest.raises(ValueError, match="too long"):
        Handover.read(data, 1000)


def test_the_key_is_named_by_the_header_that_has_it() -> None:
    keys = (Secret("sk-one"), Secret("sk-two"))
    provider = Provider("p", Dialect.RESPONSES, "http://x/v1", api_keys=keys)
    names = [name for name, _ in provider.variants()]
    assert [key_of(provider, ["application/json", f"Bearer {key.reveal()}"]) for key in keys] == names
    assert key_of(provider, ["Bearer other"]) == ""
    assert key_of(replace(provider, api_keys=()), ["Bearer sk-one"]) == ""
    assert "secret" not in digest_of("http://x/v1?token=secret")


def test_a_reply_that_begins_with_a_compaction_is_not_handed_over() -> None:
    request = StoredRequest(None, None, True, b"[]")
    assert can_hand_over(None)
    assert can_hand_over(StoredTurn(StoredReply({}), request))
    assert not can_hand_over(StoredTurn(StoredReply({})))
    assert not can_hand_over(StoredTurn(StoredReply({}, compaction="history"), request))
