"""Configurations of the gateway whose costs are compared: a bare one, and those with what a team uses."""

from __future__ import annotations

from dataclasses import dataclass

KEY = f"sk-dragoman-{'a' * 8}-{'b' * 52}"
HEADERS = {"x-api-key": KEY}
"""Headers of clients, also those of gateways without keys: SDKs always send a key."""
_LIMITS = """\
requests_per_minute = 1_000_000
tokens_per_minute = 1_000_000_000
concurrent_requests = 10_000
daily_tokens = 10_000_000_000
"""
_USAGE = """
[usage]
kind = "jsonl"
path = "{folder}/usage.jsonl"
"""
_PRICES = """
[prices."*"]
input = 1.0
output = 2.0
"""


@dataclass(frozen=True, slots=True)
class Features:
    """The lines in `[server]` and the tables that are added to a configuration.

    With `log`, the gateway writes a line for each request.
    """

    server: str = ""
    tables: str = ""
    log: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the command line, without the file."""
        return ("serve",) if self.log else ("serve", "--quiet")


def _with_key(limits: str = "", tables: str = "", *, log: bool = False) -> Features:
    from dragoman_server.accounts.keys.secret import KeyHash

    key = f'\n[keys.team]\nhash = "{KeyHash.of(KEY, bytes(16))}"\n{limits}'
    return Features("", key + tables, log)


DEFAULT = Features()


def features(name: str) -> Features:
    """Return the features by their name, one of `NAMES`."""
    if name == "bare":
        return Features("validate = 0\n")
    if name == "validated":
        return Features("validate = 1\n")
    if name == "log":
        return Features(log=True)
    if name == "usage":
        return Features("", _USAGE)
    if name == "key":
        return _with_key()
    if name == "limits":
        return _with_key(_LIMITS)
    if name == "all":
        return _with_key(_LIMITS, _USAGE + _PRICES, log=True)
    return DEFAULT


NAMES = ("bare", "default", "validated", "log", "usage", "key", "limits", "all")
"""`bare` validates no stream, `validated` all of them; the others add a feature to the default; `all` has the rest of
them, and prices."""
