"""The text of a key, and its salted hash."""

from __future__ import annotations

import re

import pytest

from dragoman.gateway import redact
from dragoman_server.accounts.keys.secret import KeyHash, id_of, new_key


def test_a_key_has_an_id_and_256_random_bits() -> None:
    key = new_key()
    assert re.fullmatch(r"sk-dragoman-[a-z2-7]{8}-[a-z2-7]{52}", key)
    assert id_of(key) == key.split("-")[2]
    assert len({new_key() for _ in range(1000)}) == 1000


def test_a_hash_matches_its_key_only() -> None:
    key = new_key()
    kept = KeyHash.of(key)
    assert kept.matches(key)
    assert not kept.matches(key[:-1] + ("a" if key[-1] != "a" else "b"))
    assert not kept.matches(new_key())


def test_two_hashes_of_one_key_differ() -> None:
    key = new_key()
    assert str(KeyHash.of(key)) != str(KeyHash.of(key))


def test_a_hash_is_read_as_it_was_written() -> None:
    kept = KeyHash.of(new_key())
    assert KeyHash.parse(str(kept)) == kept


def test_neither_the_hash_nor_its_repr_holds_the_key() -> None:
    key = new_key()
    kept = KeyHash.of(key)
    secret = key.rpartition("-")[2]
    assert secret not in str(kept) + repr(kept)
    assert kept.digest.hex() not in repr(kept)
    assert kept.salt.hex() not in repr(kept)


def test_a_key_is_masked_in_any_text() -> None:
    key = new_key()
    assert key.rpartition("-")[2] not in redact(f"no such key: {key}!")


@pytest.mark.parametrize("text", ["", "sk-dragoman-abc", "sk-x", "sha256:abcdefgh:00:00", "clear-text-key"])
def test_another_text_is_no_hash_and_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="expected sha256:ID:SALT:DIGEST") as caught:
        KeyHash.parse(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("key", ["", "sk-dragoman", "sk-ant-123", "sk-dragoman-ABCDEFGH-" + "a" * 52, "\udc80"])
def test_other_texts_have_no_id(key: str) -> None:
    assert id_of(key) is None
    with pytest.raises(ValueError):
        KeyHash.of(key)


def test_bytes_that_are_no_text_match_nothing() -> None:
    assert not KeyHash.of(new_key()).matches("\udc80\udcff")
