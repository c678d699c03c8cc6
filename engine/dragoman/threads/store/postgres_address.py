"""The URL of a PostgreSQL database, in the form of libpq (PostgreSQL documentation, 34.1.1.2)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

FORMS: Final = (
    "expected postgresql://USER:PASSWORD@HOST:5432/DATABASE, in which %XX stands for a special character of the"
    " password; TLS by ?sslmode=verify-full"
)
SCHEMES: Final = ("postgresql", "postgres")
SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
ATTRIBUTES: Final = ("any", "primary", "standby", "read-write", "read-only", "prefer-standby")
_KNOWN: Final = frozenset(
    (
        *("application_name", "database", "dbname", "gsslib", "host", "krbsrvname", "passfile", "password", "port"),
        *("sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
        *("ssl_max_protocol_version", "ssl_min_protocol_version", "target_session_attrs", "user"),
    )
)
"""The fields of the query that asyncpg reads, and the setting that names the client in `pg_stat_activity`."""
_NAME_BYTES: Final = 63
"""Longest name of a schema (NAMEDATALEN - 1); PostgreSQL cuts longer ones."""


def url_problem(url: str) -> str:
    """Return what is wrong with a URL, without repeating it; empty if nothing is."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return FORMS
    if not url.startswith(f"{parts.scheme}://") or parts.scheme not in SCHEMES:
        return FORMS
    hosts, fields = parts.netloc.rpartition("@")[2], parse_qs(parts.query, keep_blank_values=True)
    if parts.fragment or parts.netloc.count("@") > 1 or not (hosts or "host" in fields or not parts.netloc):
        return FORMS
    if hosts and not all(map(_is_host, hosts.split(","))):
        return FORMS
    if unknown := sorted(fields.keys() - _KNOWN):
        return f"has the field {unknown[0]!r} after the ?, which is not known; known are {', '.join(sorted(_KNOWN))}"
    for name, allowed in (("sslmode", SSL_MODES), ("target_session_attrs", ATTRIBUTES)):
        if name in fields and fields[name][-1] not in allowed:
            return f"has an unknown {name}; expected {', '.join(allowed)}"
    return ""


def names_attributes(url: str) -> bool:
    """True if a valid URL states which of its hosts may be used."""
    return "target_session_attrs" in parse_qs(urlsplit(url).query)


def database_of(url: str) -> str:
    """Return the name of the database of a valid URL; empty for that of the user's name."""
    parts = urlsplit(url)
    fields = parse_qs(parts.query)
    return unquote(parts.path.strip("/")) or fields.get("database", fields.get("dbname", [""]))[-1]


def schema_problem(name: str) -> str:
    """Return what is wrong with the name of a schema; empty if nothing is."""
    if not name or not name.isprintable() or len(name.encode("utf-8", "replace")) > _NAME_BYTES:
        return f"expected a word of at most {_NAME_BYTES} bytes: PostgreSQL has a schema of this name"
    if name.startswith("pg_"):
        return "PostgreSQL keeps names that begin with pg_ for itself"
    return ""


def quoted(name: str) -> str:
    """Return a name as SQL states it."""
    return '"' + name.replace('"', '""') + '"'


def _is_host(text: str) -> bool:
    """True for a host with or without a port. An IPv6 address is in brackets."""
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        return bool(address and bracket) and (not rest or (rest[0] == ":" and rest[1:].isdecimal()))
    host, colon, port = text.partition(":")
    return bool(host) and (not colon or (port.isascii() and port.isdecimal()))
