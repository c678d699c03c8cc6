"""The bytes in which a node is stored, in plain or encrypted with AES-256-GCM (NIST SP 800-38D)."""

from __future__ import annotations

import os
from base64 import b64decode
from binascii import Error
from typing import TYPE_CHECKING, Final, Protocol

from dragoman.threads.node import Node
from dragoman.threads.store.interface import Unreadable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PLAIN: Final = b"\x00"
_ENCRYPTED: Final = b"\x01"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_LENGTH_BYTES: Final = 8
_NOTES: Final = 1 << 63
"""A bit of the input's length: before the input are notes, and their length before them."""


class DataCodec(Protocol):
    """Encodes the input, the reply and the notes of a node, and decodes them."""

    def encode(self, node: Node) -> bytes:
        """Return the bytes to store."""
        ...

    def decode(self, owner: str, node_id: str, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the input, the reply and the notes. Raises Unreadable for bytes that cannot be read."""
        ...


class PlainData:
    """Stores nodes as they are."""

    def encode(self, node: Node) -> bytes:
        """Return the bytes to store."""
        return _PLAIN + _join(node)

    def decode(self, owner: str, node_id: str, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the input, the reply and the notes. Raises Unreadable for an encrypted node."""
        if data[:1] != _PLAIN:
            raise Unreadable(f"the response {node_id} is encrypted, and no key is configured")
        return _split(data[1:])


class NodeCipher:
    """Encrypts nodes with a key of 32 bytes, given as base64.

    Each node has a random nonce, and is bound to its owner and id: its bytes cannot be moved to another row unnoticed.
    Nodes that were stored without encryption stay readable. Raises ValueError for a key of another form, and
    ImportError if the package `cryptography` is not installed (extra `encryption`).
    """

    def __init__(self, key: str) -> None:
        self._cipher = aes_gcm(key)

    def encode(self, node: Node) -> bytes:
        """Return the bytes to store."""
        return _ENCRYPTED + self.encrypt(node.owner, node.id, _join(node))

    def decode(self, owner: str, node_id: str, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the input, the reply and the notes. Raises Unreadable for another key, or changed bytes."""
        return _split(data[1:] if data[:1] == _PLAIN else self.decrypt(owner, node_id, data[1:]))

    def encrypt(self, owner: str, name: str, data: bytes) -> bytes:
        """Return other data of an owner encrypted, bound to the owner and a name."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, _bound_to(owner, name))

    def decrypt(self, owner: str, name: str, data: bytes) -> bytes:
        """Return what `encrypt` got. Raises Unreadable for another key, another name, or changed bytes."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _bound_to(owner, name))
        except (InvalidTag, ValueError):
            raise Unreadable(f"the response {name} cannot be decrypted: it was stored with another key") from None


def aes_gcm(key: str) -> AESGCM:
    """Return the cipher of a key of 32 bytes in base64. Raises ValueError for a key of another form."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        raw = b64decode(key, validate=True)
    except (Error, ValueError):
        raw = b""
    if len(raw) != _KEY_BYTES:
        raise ValueError("expected 32 bytes in base64: openssl rand -base64 32")
    return AESGCM(raw)


def _bound_to(owner: str, node_id: str) -> bytes:
    return f"{owner}\0{node_id}".encode("utf-8", "surrogateescape")


def _join(node: Node) -> bytes:
    length, notes = len(node.input), b""
    if node.notes:
        length, notes = length | _NOTES, len(node.notes).to_bytes(_LENGTH_BYTES, "big") + node.notes
    return length.to_bytes(_LENGTH_BYTES, "big") + notes + node.input + node.reply


def _split(data: bytes) -> tuple[bytes, bytes, bytes]:
    length, start, notes = int.from_bytes(data[:_LENGTH_BYTES], "big"), _LENGTH_BYTES, b""
    if length & _NOTES:
        length ^= _NOTES
        end = 2 * _LENGTH_BYTES + int.from_bytes(data[start : 2 * _LENGTH_BYTES], "big")
        start, notes = end, data[2 * _LENGTH_BYTES : end]
    return data[start : start + length], data[start + length :], notes
