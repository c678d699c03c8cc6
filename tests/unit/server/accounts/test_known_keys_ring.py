"""The comparison of a client's key with those that are valid."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.keys import secret
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.known_keys import Keyring


def test_the_record_of_a_key_is_found() -> None:
    keys = {name: new_key() for name in "abc"}
    ring = Keyring(KeyRecord(name, KeyHash.of(key)) for name, key in keys.items())
    assert len(ring) == 3
    for name, key in keys.items():
        found = ring.find(key)
        assert found is not None
        assert found.name == name


def test_the_id_alone_is_not_enough() -> None:
    key, other = new_key(), new_key()
    ring = Keyring([KeyRecord("a", KeyHash.of(key))])
    forged = "-".join([*key.split("-")[:3], other.rpartition("-")[2]])
    assert secret.id_of(forged) == secret.id_of(key)
    assert ring.find(forged) is None


@pytest.mark.parametrize("key", ["", "x", new_key(), "sk-dragoman-\udc80"], ids=["empty", "word", "key", "bytes"])
def test_one_comparison_is_made_for_each_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Keyring([KeyRecord("a", KeyHash.of(new_key()))])
    compared = []

    def record(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return False

    monkeypatch.setattr(secret, "compare_digest", record)
    assert ring.find(key) is None
    assert compared == [(32, 32)]
