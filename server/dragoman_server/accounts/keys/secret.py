"""The text of a key, and the salted hash that is kept in its place.

A key is `sk-dragoman-ID-SECRET`. ID finds the record and is not secret: it is shown in lists. SECRET has 256 random
bits, so no dictionary of likely keys exists, and a fast hash is as safe as a slow one: guessing costs 2^255 tries
either way. scrypt or PBKDF2 would cost milliseconds of processor time for each request and protect nothing. The salt
keeps two copies of a key from being recognised by their hashes.
"""

from __future__ import annotations

import re
import secrets
from base64 import b32encode
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

PREFIX = "sk-dragoman-"
"""First characters of each key. Some clients accept only keys that begin with `sk-`, and logs mask such texts."""
ID = slice(len(PREFIX), len(PREFIX) + 8)
"""The place of the id in a key."""
_ID_BYTES, _SECRET_BYTES, _SALT_BYTES = 5, 32, 16
_KEY = re.compile(r"sk-dragoman-([a-z2-7]{8})-[a-z2-7]{52}\Z")
_HASH = re.compile(r"sha256:([a-z2-7]{8}):([0-9a-f]{32}):([0-9a-f]{64})\Z")


def _base32(data: bytes) -> str:
    return b32encode(data).decode().rstrip("=").lower()


@dataclass(frozen=True, slots=True)
class KeyHash:
    """The id and the salted hash of a key, written `sha256:ID:SALT:DIGEST`."""

    id: str
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, key: str, salt: bytes | None = None) -> KeyHash:
        """Return the hash of a key in the form of `new_key`, by default with a new salt. Raises ValueError."""
        key_id = id_of(key)
        if key_id is None:
            raise ValueError("not a key of this gateway")
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        return cls(key_id, salt, _digest(salt, key))

    @classmethod
    def parse(cls, text: str) -> KeyHash:
        """Return the hash that `str` wrote. Raises ValueError, whose text does not repeat the input."""
        found = _HASH.match(text)
        if found is None:
            raise ValueError("expected sha256:ID:SALT:DIGEST, as `dragoman keys add` prints it")
        return cls(found[1], bytes.fromhex(found[2]), bytes.fromhex(found[3]))

    def __str__(self) -> str:
        return f"sha256:{self.id}:{self.salt.hex()}:{self.digest.hex()}"

    def matches(self, key: str) -> bool:
        """True if this is the hash of `key`. The time taken depends on neither."""
        return compare_digest(_digest(self.salt, key), self.digest)


def _digest(salt: bytes, key: str) -> bytes:
    # aiohttp decodes headers with surrogateescape, so a client's key may have any bytes.
    return sha256(salt + key.encode("utf-8", "surrogateescape")).digest()


def new_key() -> str:
    """Return a new key."""
    return f"{PREFIX}{_base32(secrets.token_bytes(_ID_BYTES))}-{_base32(secrets.token_bytes(_SECRET_BYTES))}"


def id_of(key: str) -> str | None:
    """Return the id in a key, or None for a text of another form."""
    found = _KEY.match(key)
    return found[1] if found is not None else None
