"""The URL of a Redis, a Redis behind Sentinels, or a Redis Cluster."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

_SINGLE: Final = ("redis", "rediss", "unix")
_MANY: Final = {"redis+sentinel": 26379, "rediss+sentinel": 26379, "redis+cluster": 6379, "rediss+cluster": 6379}
"""The schemes of several nodes, with their usual ports."""
FORMS: Final = (
    "expected redis://HOST:6379/0, rediss://… with TLS, unix://PATH, redis+sentinel://HOST:26379,HOST:26379/SERVICE or"
    " redis+cluster://HOST:6379,HOST:6379"
)


class RedisAddress(NamedTuple):
    """The parts of a URL. Of a single Redis the client reads the URL itself, so `nodes` is empty.

    With `sentinel`, `nodes` are the Sentinels, `service` is the name of the primary there, and `sentinel_username` and
    `sentinel_password` are those of the Sentinels (the query's fields of these names).
    """

    kind: Literal["single", "sentinel", "cluster"]
    nodes: tuple[tuple[str, int], ...] = ()
    tls: bool = False
    username: str | None = None
    password: str | None = None
    service: str = ""
    database: int = 0
    sentinel_username: str | None = None
    sentinel_password: str | None = None

    def __repr__(self) -> str:
        return f"<RedisAddress {self.kind}, {len(self.nodes)} nodes>"


def parse_address(url: str) -> RedisAddress:
    """Return the parts of a URL. Raises ValueError, whose text does not repeat it: it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(FORMS) from None
    scheme = parts.scheme
    if not url.startswith(f"{scheme}://") or scheme not in (*_SINGLE, *_MANY):
        raise ValueError(FORMS)
    if scheme in _SINGLE:
        try:
            _ = parts.port
        except ValueError:
            raise ValueError(FORMS) from None
        if not (parts.netloc or (scheme == "unix" and parts.path)):
            raise ValueError(FORMS)
        return RedisAddress("single")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    username, _, password = userinfo.partition(":")
    nodes = tuple([_node(text, _MANY[scheme]) for text in hosts.split(",")])
    path = [unquote(each) for each in parts.path.strip("/").split("/") if each]
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    address = RedisAddress(
        "sentinel" if scheme.endswith("sentinel") else "cluster",
        nodes,
        scheme.startswith("rediss"),
        unquote(username) or None,
        unquote(password) or None,
        sentinel_username=query.pop("sentinel_username", None),
        sentinel_password=query.pop("sentinel_password", None),
    )
    if query:
        raise ValueError("its query may have sentinel_username and sentinel_password only")
    if address.kind == "cluster":
        if path not in ([], ["0"]):
            raise ValueError("a cluster has no databases: end the URL after its nodes")
        return address
    if not path:
        raise ValueError("names no service: redis+sentinel://HOST:26379,HOST:26379/SERVICE")
    database = path[1] if len(path) == 2 else "0"
    if len(path) > 2 or not (database.isascii() and database.isdigit()):
        raise ValueError("expected redis+sentinel://HOST:26379,HOST:26379/SERVICE, or …/SERVICE/DATABASE")
    return address._replace(service=path[0], database=int(database))


def _node(text: str, usual: int) -> tuple[str, int]:
    """Return the host and the port of a node. Raises ValueError."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ValueError("expected nodes such as HOST:6379, with commas between them")
    return host, port or usual
