"""The page of profiles: those of vendors with their sources, the hosts that have defaults, and the known clients."""

from __future__ import annotations

import json
from typing import Any

from dragoman.profiles import THIRD_PARTIES
from dragoman_server.config.host_doors import BEDROCK, DOORS, HostDoor
from dragoman_server.config.host_profiles import HOSTS, OF_VENDOR, PATTERNS
from dragoman_server.routing.client_profiles import CLIENTS, ClientProfile
from generators.table import table

_PROFILES = """\
# Profiles

{made}

What an upstream can do, and what a client needs. Neither is guessed from a model's name.

## Upstreams

`profile` under [`[providers.NAME]`](configuration.md#providersname) names one. Without it the host decides, and a host
that is not in this table gets `compatible`. The profile of each provider is logged at the start, and shown by
`dragoman check` and `dragoman explain`.

{upstreams}

The flags of the bases are listed in [the configuration](configuration.md#providersnameprofile_flags). What follows is
what differs from them. Single flags can be replaced under `profile_flags`.

## What differs, and who says so

`chat §12` and its like are sections of the pages on the dialects ([chat](chat.md), [messages](messages.md)); all else
is a public page. A flag that no source speaks of stays at its base.

{facts}

## How far they were judged

Tests hold requests of recorded agents against what a vendor takes. Where the vendor has an SDK with types for the
dialect, the requests fit these types, apart from fields that public reports show to be accepted; elsewhere what pages
of the vendor and public reports of its errors state. Cohere's SDK has types of its native API only, and xAI's speaks
gRPC, so they judge nothing here. No real host was involved.

The types of `google-genai` have the fields of Gemini's own API and the kinds of their values. Only Google's pages state
the rest, and the simulator checks it as they do: that roles alternate, that results follow their calls in the order and
number of these, that the first call of each step is signed, and that a stream ends after a `finishReason`.

{judges}

## Hosts with an addressing of their own

The defaults of [`auth_header`, `path` and their like](configuration.md#providersname) at these hosts. A key or a token
is sent as the default says, and a token of a `credential` always as `Authorization: Bearer`.

{doors}

## Clients

A client is known by its user agent, or by another header where that was changed on the way. It gets the knobs that it
needs, unless the configuration names them, in general or for the route. `server.client_profiles = false` switches that
off. The [receipt](http-api.md#receipts) of a request tells the profile as `client_profile`.

{clients}
"""


def page(made: str) -> str:
    """Return profiles.md: the profiles of vendors with their sources, and the known clients."""
    hosts: dict[str, list[str]] = {}
    for host, name in (*HOSTS.items(), *PATTERNS.items()):
        hosts.setdefault(name, []).append(f"`{host}`")
    hosts |= {other: hosts[name] for (name, _), other in OF_VENDOR.items()}
    rows: dict[str, list[str]] = {
        "openai": ["OpenAI", "chat, responses", "–"],
        "anthropic": ["Anthropic", "messages", "–"],
        "gemini": ["Gemini (AI Studio, Vertex AI)", "generate", "–"],
    }
    for vendor in THIRD_PARTIES:
        if vendor.name not in rows:
            rows[vendor.name] = [vendor.title, "", ""]
        row = rows[vendor.name]
        row[1] = ", ".join(filter(None, (row[1], vendor.dialect)))
        if f"`{vendor.base}`" not in row[2]:
            row[2] = ", ".join(filter(None, (row[2], f"`{vendor.base}`")))
    upstreams = [
        (f"`{name}`", title, served, base, ", ".join(hosts.get(name, ())) or "–")
        for name, (title, served, base) in rows.items()
    ]
    judges = [("`gemini`", "generate", "the types of its SDK, `google-genai`")]
    judges += [
        (
            f"`{vendor.name}`",
            vendor.dialect,
            f"the types of its SDK, `{vendor.judge}`" if vendor.judge else "pages and reports",
        )
        for vendor in THIRD_PARTIES
    ]
    facts = [
        (f"`{vendor.name}`", vendor.dialect, f"`{flag}`", _shown(fact.value), _linked(fact.source))
        for vendor in THIRD_PARTIES
        for flag, fact in vendor.facts.items()
    ]
    clients = [
        (
            client.title,
            f"`{client.name}`",
            _signs(client),
            ", ".join(f"`{name} = {value}`" for name, value in client.knobs.items()) or "–",
            client.why,
        )
        for client in CLIENTS
    ]
    return _PROFILES.format(
        made=made,
        doors=table(("base URL", "dialect", "default", "source"), [_door(door) for door in (*DOORS, BEDROCK)]),
        upstreams=table(("profile", "who", "dialects", "base", "default for"), upstreams),
        facts=table(("profile", "dialect", "flag", "value", "source"), facts),
        judges=table(("profile", "dialect", "judged by"), judges),
        clients=table(("client", "profile", "known by", "knobs", "why"), clients),
    )


def _door(door: HostDoor) -> tuple[str, ...]:
    """Return the row of hosts that have defaults."""
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in door.settings.items()}
    shown = [f"`{key} = {_toml(value)}`" for key, value in settings.items()]
    if door.key:
        shown.insert(0, f'`auth_header = "{door.key}"`')
    elif door.token:
        shown.insert(0, f'`auth_header = "{door.token}"` with a `credential`')
    return f"`{door.shown}`", ", ".join(door.dialects), ", ".join(shown), _linked(door.source)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def _signs(client: ClientProfile) -> str:
    """Return the headers by which a client is recognized."""
    signs = [f"`user-agent: {client.agent}…`"] if client.agent else []
    if client.header is not None:
        signs.append(f"`{client.header[0]}: {client.header[1]}…`")
    return (" and " if client.both else " or ").join(signs)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"{value:g}" if isinstance(value, float) else f"`{value}`"


def _linked(source: str) -> str:
    if not source.startswith("https://"):
        return source
    return f"[{source.removeprefix('https://').partition('/')[0]}]({source})"
