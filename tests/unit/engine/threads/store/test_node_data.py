"""Encryption of stored responses."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from dragoman.threads import NodeCipher, SqliteStore, StoreError
from dragoman.threads.store.node_data import PlainData
from support.thread_stores import KEY, node

OTHER = b64encode(b"x" * 32).decode()


def test_nothing_of_a_response_is_readable() -> None:
    first = node("k", "a", text="a secret")
    encrypted = NodeCipher(KEY).encode(first)
    assert b"secret" not in encrypted
    assert NodeCipher(KEY).decode("k", "a", encrypted) == (first.input, first.reply, b"")
    assert NodeCipher(KEY).encode(first) != encrypted


@pytest.mark.parametrize(("owner", "name", "key"), [("k", "a", OTHER), ("j", "a", KEY), ("k", "b", KEY)])
def test_another_key_owner_or_id_does_not_open_it(owner: str, name: str, key: str) -> None:
    encrypted = NodeCipher(KEY).encode(node("k", "a"))
    with pytest.raises(StoreError, match="cannot be decrypted"):
        NodeCipher(key).decode(owner, name, encrypted)


@pytest.mark.parametrize("codec", [PlainData(), NodeCipher(KEY)])
@pytest.mark.parametrize("notes", [b"", b"{}", b'{"losses":{"top_k":1}}'])
def test_notes_are_kept(codec: PlainData | NodeCipher, notes: bytes) -> None:
    first = node("k", "a")._replace(notes=notes)
    assert codec.decode("k", "a", codec.encode(first)) == (first.input, first.reply, notes)


def test_a_changed_byte_is_noticed() -> None:
    encrypted = NodeCipher(KEY).encode(node("k", "a"))
    with pytest.raises(StoreError, match="cannot be decrypted"):
        NodeCipher(KEY).decode("k", "a", encrypted[:-1] + bytes([encrypted[-1] ^ 1]))


def test_what_was_stored_before_encryption_stays_readable_and_not_the_other_way_round() -> None:
    plain = PlainData().encode(node("k", "a"))
    assert NodeCipher(KEY).decode("k", "a", plain) == PlainData().decode("k", "a", plain)
    with pytest.raises(StoreError, match="no key is configured"):
        PlainData().decode("k", "a", NodeCipher(KEY).encode(node("k", "a")))


@pytest.mark.parametrize("key", ["", "short", "not base64 at all !", b64encode(b"x" * 31).decode()])
def test_a_key_of_another_form(key: str) -> None:
    with pytest.raises(ValueError, match="32 bytes in base64"):
        NodeCipher(key)


async def test_the_file_holds_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    store = SqliteStore(str(path), codec=NodeCipher(KEY))
    await store.open()
    await store.put(node("k", "a", text="a very secret text"))
    await store.close()
    assert b"very secret" not in path.read_bytes()
