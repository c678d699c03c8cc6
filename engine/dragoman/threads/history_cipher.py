"""Encrypts the compacted histories that clients hold, with AES-256-GCM (NIST SP 800-38D)."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.reasoning.compacted_history import COMPACTION
from dragoman.threads.store.node_data import aes_gcm

TAG: Final = "dgm2."
"""First characters of an encrypted history. Those of one that is not encrypted are others."""
_NONCE_BYTES: Final = 12


class HistoryCipher:
    """Encrypts histories with a key of 32 bytes, given as base64.

    A history is bound to its owner: another owner cannot use it. Raises ValueError for a key of another form, and
    ImportError if the package `cryptography` is not installed (extra `encryption`).
    """

    def __init__(self, key: str) -> None:
        self._cipher = aes_gcm(key)

    def encrypt(self, text: str, owner: str) -> str:
        """Return the encrypted form of a wrapped history."""
        nonce = os.urandom(_NONCE_BYTES)
        data = nonce + self._cipher.encrypt(nonce, text.encode(), _bound_to(owner))
        return TAG + urlsafe_b64encode(data).rstrip(b"=").decode()

    def decrypt(self, text: str, owner: str) -> str | None:
        """Return the wrapped history; None if it is not one that was encrypted with this key for this owner."""
        from cryptography.exceptions import InvalidTag

        if not text.startswith(TAG):
            return None
        encoded = text[len(TAG) :]
        try:
            data = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            plain = self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _bound_to(owner))
        except (InvalidTag, ValueError):
            return None
        return plain.decode()

    def decrypted(self, payload: Json, owner: str) -> Json:
        """Return a request with the histories in its `input` decrypted; the same object if it has none."""
        items: Any = payload.get("input")
        changed: dict[int, Json] = {}
        for place, item in enumerate(items if type(items) is list else ()):
            if type(item) is dict and item.get("type") == COMPACTION and type(item.get("encrypted_content")) is str:
                text = self.decrypt(item["encrypted_content"], owner)
                if text is not None:
                    changed[place] = {**item, "encrypted_content": text}
        if not changed:
            return payload
        return {**payload, "input": [changed.get(place, item) for place, item in enumerate(items)]}


def _bound_to(owner: str) -> bytes:
    return b"compaction\0" + owner.encode("utf-8", "surrogateescape")
