"""The reference pages that are made from the code: `python -m dragoman_server.reference [FOLDER]`.

Without a folder they are written to docs/reference of the current directory. What configuration.md tells by hand
(knobs, flags, limits, timeouts) is not told again; a test compares that page with the code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman.dialects.codec import CODECS
from dragoman.directions import DIRECTIONS, Direction
from dragoman.errors import FailureKind
from dragoman.losses import MEANING
from dragoman.profiles import NAMED
from dragoman.reply_context import ReplyContext
from dragoman.tools.bridge import OriginalTool
from dragoman.translate import Translation
from dragoman_server.config.host_profiles import HOSTS, PATTERNS
from dragoman_server.observability.metric_families import FAMILIES, SECONDS
from dragoman_server.observability.metrics import NAMED_CODES
from dragoman_server.routing.client_profiles import CLIENTS, ClientProfile

_MADE = "<!-- Made by `python -m dragoman_server.reference` from the code: do not edit. -->"

_DIRECTIONS = """\
# Directions

{made}

A direction is a client's dialect and an upstream's. Where they differ, the request is translated there and the reply
back; where they are the same, bytes pass through and are only watched.

## Dialects

{endpoints}

## Stages of a streamed reply

From the upstream's bytes to the client's. Stages in parentheses are there only when they are needed: `ToolRestorer` for
tools that were sent as another kind or out of their namespace, `StopCutter` for stop sequences that the upstream was
not given. `dragoman explain` names the stages of one request. Blocks that overlap are put in order by the writer where
[`block_order`](configuration.md#knobs) asks for it.

{stages}

## What each stage does

{meanings}
"""

_LOSSES = """\
# Losses

{made}

Whatever the other side's dialect cannot carry is a row: a code, the field's path, and what was done. The codes are
counted in the reply's `x-dragoman-loss` header (`cache_hint=3, top_k=1`); what a streamed reply loses comes after its
headers, and is in its [receipt](../howto/what-happened.md) and the log. The rows themselves are in the receipt, in
`dragoman explain`, `dragoman translate` and `translation.losses.rows`. With the knob `on_loss = reject`, or a request's
header `x-dragoman-on-loss: reject`, a loss in a request is a 400 that names the field.

{codes}
"""

_METRICS = """\
# Metrics

{made}

`GET /metrics` in Prometheus' text format (0.0.4). Where `server.keys` are configured it asks for one, as all endpoints
do that tell of the configuration. With [several workers](../howto/many-cores.md) any of them answers for all: numbers
are added up, and counters keep what was counted by workers that have left.

Labels are dialects, names of the configuration and the words below, so there are only as many series as the
configuration has names. Nothing is counted while a stream runs: a request is counted when it is taken, when its first
event comes and when it ends.

{families}

Histograms have buckets up to {buckets} seconds.

## Labels

{labels}

## Configuring Prometheus

```yaml
scrape_configs:
  - job_name: dragoman
    authorization:
      credentials_file: /etc/prometheus/dragoman.key
    static_configs:
      - targets: ["127.0.0.1:8080"]
```
"""

_PROFILES = """\
# Profiles

{made}

What an upstream can do, and what a client needs. Neither is guessed from a model's name.

## Upstreams

`profile` under [`[providers.NAME]`](configuration.md#providersname) names one. Without it the host decides, and a host
that is not in this table gets `compatible`. What a provider got is told at the start, by `dragoman check` and by
`explain`.

{upstreams}

The bases are told flag by flag in [the configuration](configuration.md#providersnameprofile_flags). What follows is
what differs from them. Single flags can be replaced under `profile_flags` as ever.

## What differs, and who says so

`chat §12` and its like are sections of the pages on the dialects ([chat](chat.md), [messages](messages.md)); all else
is a public page. A flag that no source speaks of stays at its base.

{facts}

## Clients

A client is known by its user agent, or by another header where that was changed on the way. It gets the knobs that it
needs, unless the configuration names them, in general or for the route. `server.client_profiles = false` switches that
off. The [receipt](http-api.md#receipts) of a request tells the profile as `client_profile`.

{clients}
"""

_LABELS = {
    "client": "the dialect: `chat`, `messages`, `responses`",
    "upstream": "the upstream's dialect",
    "provider": "the name in `[providers]`; empty if the request never got so far",
    "route": "the `model` of the route; `PROVIDER/*` where the client named the provider; `models` for the big or the"
    " small model without a route; `unknown` where `models.unknown` decided; empty if no rule knew the model",
    "ended": "`completed`, `failed`, `refused`, `rejected`, `abandoned`, as in a [receipt](http-api.md#receipts)",
    "status": "`2xx`, `4xx` (499: the client left), `5xx`, as the client got it: of a stream that fails late, `2xx`",
    "stream": "`true`, `false`: what the client asked for",
    "limit": "the setting: `max_connections`, `max_connections_per_address`",
    "how": "`exact`, `remembered`, `estimate`, `failed`",
    "kind": "of tokens and of the gateway's own errors: as above; of upstream errors: ",
    "code": "of the [loss](losses.md)",
    "worker": "its number, from 1",
    "result": "as above",
    "version": "Dragoman's",
    "python": "Python's version",
}


def directions() -> str:
    """directions.md: the table of directions, and what each stage does."""
    seen: dict[type, None] = {}
    rows = []
    for way in DIRECTIONS.values():
        always = {type(stage) for stage in _stages(way, optional=False)}
        kinds = [type(stage) for stage in _stages(way, optional=True)]
        seen.update(dict.fromkeys(kinds))
        names = [f"`{kind.__name__}`" if kind in always else f"(`{kind.__name__}`)" for kind in kinds]
        how = "passthrough" if way.passthrough else "translated"
        rows.append((way.client.dialect, way.upstream.dialect, how, " → ".join(names)))
    return _DIRECTIONS.format(
        made=_MADE,
        endpoints=_table(("dialect", "endpoint"), [(c.dialect, f"`POST /v1/{c.path}`") for c in CODECS.values()]),
        stages=_table(("client", "upstream", "how", "stages"), rows),
        meanings=_table(
            ("stage", "module", "what it does"), [(f"`{k.__name__}`", f"`{k.__module__}`", _told(k)) for k in seen]
        ),
    )


def losses() -> str:
    """losses.md: every loss code and what it means."""
    rows = [(f"`{code}`", meaning) for code, meaning in sorted(MEANING.items())]
    return _LOSSES.format(made=_MADE, codes=_table(("code", "meaning"), rows))


def metrics() -> str:
    """metrics.md: every family of metrics and its labels."""
    rows = [
        (
            f"`{family.name}`",
            family.kind.value,
            ", ".join(f"`{label}`" for label in family.labels) or "none",
            family.doc,
        )
        for family in FAMILIES.values()
    ]
    kinds = ", ".join(f"`{kind}`" for kind in sorted({kind.value for kind in FailureKind} | NAMED_CODES))
    labels = dict.fromkeys(label for family in FAMILIES.values() for label in family.labels)
    meanings = [(f"`{label}`", _LABELS[label] + (kinds if label == "kind" else "")) for label in labels]
    return _METRICS.format(
        made=_MADE,
        families=_table(("name", "type", "labels", "meaning"), rows),
        buckets=", ".join(f"{seconds:g}" for seconds in SECONDS),
        labels=_table(("label", "values"), meanings),
    )


def profiles() -> str:
    """profiles.md: third parties' profiles with their sources, and the known clients."""
    hosts: dict[str, list[str]] = {}
    for host, name in (*HOSTS.items(), *PATTERNS.items()):
        hosts.setdefault(name, []).append(f"`{host}`")
    rows: dict[str, list[str]] = {
        "openai": ["OpenAI", "chat, responses", "–"],
        "anthropic": ["Anthropic", "messages", "–"],
    }
    for vendor in NAMED:
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
    facts = [
        (f"`{vendor.name}`", vendor.dialect, f"`{flag}`", _shown(fact.value), _linked(fact.source))
        for vendor in NAMED
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
        made=_MADE,
        upstreams=_table(("profile", "who", "dialects", "base", "default for"), upstreams),
        facts=_table(("profile", "dialect", "flag", "value", "source"), facts),
        clients=_table(("client", "profile", "known by", "knobs", "why"), clients),
    )


def _signs(client: ClientProfile) -> str:
    """What a client is known by."""
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


PAGES: dict[str, Callable[[], str]] = {
    "directions.md": directions,
    "losses.md": losses,
    "metrics.md": metrics,
    "profiles.md": profiles,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Write all pages. Returns the exit status."""
    args = sys.argv[1:] if argv is None else list(argv)
    folder = Path(args[0] if args else "docs/reference")
    if not folder.is_dir():
        print(f"{folder} is not a folder; run this in the project's root or name docs/reference", file=sys.stderr)
        return 2
    for name, page in PAGES.items():
        (folder / name).write_text(page(), "utf-8")
        print(folder / name)
    return 0


def _stages(way: Direction, *, optional: bool) -> tuple[Any, ...]:
    tools = {"tool": OriginalTool("tool")} if optional else {}
    context = ReplyContext("model", stops=("stop",) if optional else (), tools=tools)
    return Translation(way, b"", True, context, "model").stages()


def _told(kind: type) -> str:
    """The first sentence of a stage's docstring, or of its module's where the class says nothing of its own."""
    own = re.sub(r"^A stage [^:.]*[:.]\s*", "", inspect.getdoc(kind) or "")
    if not own or own.startswith("See the module"):
        own = inspect.getdoc(inspect.getmodule(kind)) or ""
    sentence = re.split(r"\.\s", own.strip() + " ")[0].replace("\n", " ").rstrip(".")
    sentence = re.sub(r" \(mapping [^)]*\)", "", sentence)
    return sentence[0].upper() + sentence[1:]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in lines)


if __name__ == "__main__":
    sys.exit(main())
