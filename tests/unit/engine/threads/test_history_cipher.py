"""Compacted histories that are encrypted for their owner."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.reasoning.compacted_history import CompactedHistory, unwrap_history, wrap_history
from dragoman.threads import HistoryCipher
from dragoman.threads.history_cipher import TAG
from support.thread_stores import KEY, user

OTHER = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
TEXT = wrap_history(CompactedHistory("Sum."), "m")


def item(text: str) -> Any:
    return {"type": "compaction", "encrypted_content": text}


def test_what_is_encrypted_comes_back_for_its_owner_only() -> None:
    cipher = HistoryCipher(KEY)
    text = cipher.encrypt(TEXT, "alice")
    assert text.startswith(TAG)
    assert text != cipher.encrypt(TEXT, "alice")
    assert cipher.decrypt(text, "alice") == TEXT
    assert unwrap_history(item(text)) is None
    assert cipher.decrypt(text, "bob") is None
    assert HistoryCipher(OTHER).decrypt(text, "alice") is None
    assert HistoryCipher(KEY).decrypt(text, "alice") == TEXT


@pytest.mark.parametrize("text", ["", TEXT, "gAAAA", TAG, f"{TAG}AAAA", f"{TAG}\u00e9", f"{TAG}{'A' * 40}"])
def test_other_texts(text: str) -> None:
    assert HistoryCipher(KEY).decrypt(text, "alice") is None


def test_a_changed_text() -> None:
    text = HistoryCipher(KEY).encrypt(TEXT, "alice")
    changed = text[:20] + ("A" if text[20] != "A" else "B") + text[21:]
    assert HistoryCipher(KEY).decrypt(changed, "alice") is None


def test_the_input_of_a_request() -> None:
    cipher = HistoryCipher(KEY)
    text = cipher.encrypt(TEXT, "alice")
    payload: Any = {"model": "m", "input": [user("a"), item(text), item("gAAAA"), "no object", {"type": "compaction"}]}
    found = cipher.decrypted(payload, "alice")
    assert found["input"] == [user("a"), item(TEXT), *payload["input"][2:]]
    assert payload["input"][1] == item(text)
    assert cipher.decrypted(payload, "bob") is payload
    assert cipher.decrypted({"input": "Hi"}, "alice") == {"input": "Hi"}


def test_a_key_of_another_form() -> None:
    with pytest.raises(ValueError, match="32 bytes in base64"):
        HistoryCipher("short")
