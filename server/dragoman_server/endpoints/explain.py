"""The explanation of a request: the upstream's exact body, and every change. Nothing is sent upstream.

The endpoint and the command line share it: `explanation` returns the JSON, `as_text` a text to read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import orjson

from dragoman import ClientRequestError, Dialect, Translation
from dragoman.gateway import CLIENT_DIALECTS, DEFAULT_KNOBS, WireFacts
from dragoman.wire import Json, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.receipt import loss_rows


def explanation(
    translation: Translation,
    provider: Provider | None = None,
    warning: str | None = None,
    *,
    profile: str | None = None,
    client_profile: str | None = None,
    reservation: Json | None = None,
) -> Json:
    """Return the translated request and the changes to it, as JSON for `json_codec.dumps`.

    With a configuration, `provider` is the request's and `warning` the route's. Without one, `profile` is the name of
    the upstream's profile. `client_profile` is the name of the client that sends the request, and `reservation` what
    budgets of a key reserve for the reply.
    """
    context, way = translation.context, translation.direction
    defaults = asdict(DEFAULT_KNOBS)
    result: dict[str, Any] = {
        "object": "dragoman.explanation",
        "direction": str(way),
        "client": way.client.dialect.value,
        "upstream": way.upstream.dialect.value,
        "passthrough": way.passthrough and not translation.rewritten,
        "provider": provider.name if provider is not None else None,
        "profile": profile or (provider.profile_name or None if provider is not None else None),
        "client_profile": client_profile,
        "path": way.upstream.dialect.facts.target(translation.upstream_model, stream=translation.stream).path,
        # Without the base URL's own query, which may hold a key.
        "url": _url(translation, provider) if provider is not None else None,
        "model": context.model,
        "upstream_model": translation.upstream_model,
        "stream": translation.stream,
        "body": orjson.Fragment(translation.body),
        "losses": loss_rows(context.losses),
        "losses_total": len(context.losses),
        "renames": translation.renamed_tools,
        "tools": translation.bridged_tools,
        "stages": translation.stage_names(),
        "stops": list(context.stops),
        "knobs": {name: value for name, value in asdict(context.knobs).items() if value != defaults[name]},
        "reservation": reservation,
        "warning": warning,
    }
    return result


def _url(translation: Translation, provider: Provider) -> str:
    """Return the URL of the upstream request, without its query."""
    return provider.main_endpoint(translation.upstream_model, stream=translation.stream).partition("?")[0]


def as_text(explained: Json) -> str:
    """Return an explanation as text."""
    body: orjson.Fragment = explained["body"]
    same = "rewritten" if explained["client"] == explained["upstream"] else "translated"
    how = "bytes pass through" if explained["passthrough"] else same
    renamed_as = f" (asked for as {explained['model']})" if explained["model"] != explained["upstream_model"] else ""
    where = explained["url"] or f"…/{explained['path']}"
    form = "streamed" if explained["stream"] else "whole"
    lines = [
        f"{explained['client']} → {explained['upstream']}: {how}",
        f"POST {where}, model {explained['upstream_model']}{renamed_as}, {form}",
    ]
    if explained["profile"]:
        provider = f"provider {explained['provider']}, " if explained["provider"] else ""
        lines.append(f"{provider}profile {explained['profile']}")
    if explained["client_profile"]:
        lines.append(f"client {explained['client_profile']}")
    if explained["warning"]:
        lines.append(f"warning: {explained['warning']}")
    lines += ["", json.dumps(json_loads(_bytes(body)), indent=2, ensure_ascii=False), ""]
    lines += [f"loss {row['code']} at {row['path']}: {row['done']} ({row['meaning']})" for row in explained["losses"]]
    if (more := explained["losses_total"] - len(explained["losses"])) > 0:
        lines.append(f"and {more} more")
    if not explained["losses_total"]:
        lines.append("no losses")
    lines += [f"tool {name} is sent as {sent}" for sent, name in explained["renames"].items()]
    lines += [
        f"tool {sent} comes back to the client as a {tool['kind']} tool"
        for sent, tool in explained["tools"].items()
        if tool["kind"] != "function"
    ]
    if explained["stops"]:
        lines.append(f"stop sequences cut here: {', '.join(map(repr, explained['stops']))}")
    lines += [f"knob {name} = {value}" for name, value in explained["knobs"].items()]
    if (reservation := explained["reservation"]) is not None:
        budgets = ", ".join(f"{amount} of {name}" for name, amount in reservation.get("budgets", {}).items())
        reserved = f"{reservation['output_tokens']} output tokens by {reservation['by']}"
        lines.append(f"reserved in budgets: {reserved}{budgets and f' ({budgets})'}")
    lines.append(f"the reply: {' → '.join(explained['stages'])}")
    return "\n".join(lines) + "\n"


def _bytes(fragment: orjson.Fragment) -> bytes:
    return orjson.dumps(fragment)


def guess_client(payload: Json, option: str = "from=") -> Dialect:
    """Return the dialect of a request body. `option` is the option to name it, for the error message.

    Raises ClientRequestError if the body fits none or several: a wrong guess would explain another request.
    """
    named = {dialect.facts.conversation for dialect in CLIENT_DIALECTS} & payload.keys()
    found = [
        dialect
        for dialect in CLIENT_DIALECTS
        if named == {dialect.facts.conversation} and payload.keys() >= {*filter(None, [dialect.facts.output_cap])}
    ]
    if len(found) > 1:
        found = [dialect for dialect in found if _has_sign(payload, dialect.facts)]
    if len(found) == 1:
        return found[0]
    ways = " or ".join(f"{option}{dialect}" for dialect in CLIENT_DIALECTS)
    raise ClientRequestError("", f"the body does not tell its dialect: give {ways}")


def _has_sign(payload: Json, facts: WireFacts) -> bool:
    """Return whether the body has what only requests of the dialect have."""
    signs = facts.signs
    if not signs.fields.isdisjoint(payload):
        return True
    if not all(map(signs.tool_fields.isdisjoint, _dicts(payload.get("tools")))):
        return True
    for number, message in enumerate(_dicts(payload.get(facts.conversation))):
        role = _word(message.get("role"))
        if role in signs.roles or (not number and role in signs.opening_roles):
            return True
        if not signs.message_fields.isdisjoint(message):
            return True
        if any(_word(part.get("type")) in signs.parts for part in _dicts(message.get("content"))):
            return True
    return False


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def _word(value: Any) -> str:
    return value if type(value) is str else ""
