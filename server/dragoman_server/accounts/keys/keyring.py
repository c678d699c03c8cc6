"""The named keys that are valid now, and the comparison of a client's key with them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import ID, KeyHash


class Keyring:
    """An immutable set of keys. Two keys with one id cannot occur by chance; the first of them is used."""

    __slots__ = ("_records", "_unmatched", "expires")

    def __init__(self, records: Iterable[KeyRecord] = ()) -> None:
        self._records: dict[str, KeyRecord] = {}
        for record in records:
            self._records.setdefault(record.id, record)
        self.expires = any(record.expires is not None for record in self._records.values())
        """True if one of them expires."""
        self._unmatched = KeyHash("", secrets.token_bytes(16), secrets.token_bytes(32))

    def __len__(self) -> int:
        return len(self._records)

    def find(self, key: str) -> KeyRecord | None:
        """Return the record of a client's key, also of one that has expired; None for an unknown key.

        One hash is computed and compared in each case, so the time taken does not reveal which ids exist.
        """
        record = self._records.get(key[ID])
        expected = record.hash if record is not None else self._unmatched
        return record if expected.matches(key) else None
