"""A day of mixed exchanges before a simulated upstream that keeps its own ledger, and how its rows differ from that."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.simulator.ledger import Entry

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
LENGTH = 120
"""Fragments of a reply. A stream that stops stops behind two thirds of them."""
LAST = b"token79 "
"""The last fragment of such a stream."""
_SHORT = (
    "sim-text",
    "sim-tools",
    "sim-parallel",
    "sim-thinking",
    "sim-usage",
    "sim-json",
    "sim-length-text",
    "sim-split",
)
_LONG = (f"sim-long-{LENGTH}", f"sim-long-{LENGTH}-thinking", f"sim-long-{LENGTH}-call")
_ENDS = ("cut", "reset", "missing", "failed", "stalled")
_REFUSALS = ("sim-error-400", "sim-error-429", "sim-error-503", "sim-error-529")
_WORDS = (
    *("the", "of", "a", "to", "is", "in", "that", "file", "test", "line", "value", "request", "configuration"),
    *("parameter", "function", "returns", "and", "exception", "directory", "repository", "permission", "for"),
    *("document", "software", "including", "without", "limitation", "connection", "each", "number", "message"),
)
TOOL = "get_weather"
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@dataclass(frozen=True, slots=True)
class Call:
    """One exchange: its model's name is what the simulator is to do. `leaves` before the end of its stream."""

    client: Dialect
    upstream: Dialect
    model: str
    body: Mapping[str, Any]
    over: str = "http"
    """http, websocket, or background (Responses clients)."""
    leaves: bool = False

    @property
    def name(self) -> str:
        """The model's name for the gateway, which leads to its upstream."""
        return f"{self.upstream}/{self.model}"


def day(seed: int, count: int) -> Iterator[Call]:
    """Yield the calls of a day, in all directions in turn. The first ones of each end in every way."""
    rng = random.Random(seed)
    directions = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]
    for number in range(count):
        client, upstream = directions[number % len(directions)]
        yield _call(rng, client, upstream, number)


def _call(rng: random.Random, client: Dialect, upstream: Dialect, number: int) -> Call:
    first = [*_ENDS, *_REFUSALS][number // (len(CLIENT_DIALECTS) * len(Dialect)) :][:1]
    over, end = "http", rng.choice((*_ENDS, *[""] * 11))
    if first:
        end = first[0] if first[0] in _ENDS else ""
    if client is RESPONSES and rng.random() < 0.3:
        over = rng.choice(("websocket", "background"))
    stream = over == "websocket" or end == "stalled" or rng.random() < 0.6
    words = [word for word in ("priority", "flex", "searched", "written", "apart") if rng.random() < 0.12]
    words += [word for word in ("busy", "lost") if rng.random() < 0.05]
    # Without counts, what was generated must be long enough to be estimated within a tenth.
    uncounted = rng.random() < 0.15
    if not uncounted and not end:  # what was done besides the reply is known only if it is reported
        words += [word for word in ("compacted", "advised", "replaced") if rng.random() < 0.15]
    # Gemini sends a call when it is whole, and no reasoning that is not requested: neither can be estimated in part.
    long = _LONG[:1] if upstream is Dialect.GENERATE else _LONG
    script = rng.choice(long if uncounted or end else _SHORT)
    if not end and (first or rng.random() < 0.08):
        script = rng.choice(_REFUSALS)
    if end == "stalled" and over == "background":
        over = "http"  # its client cannot leave
    model = "+".join([script, *words, *["uncounted"] * uncounted, *[end] * bool(end), f"n{number}"])
    prompt = " ".join(rng.choices(_WORDS, k=rng.randrange(600, 1200)))
    body = _body(rng, client, prompt, stream=stream, tools="-call" in script or script in ("sim-tools", "sim-parallel"))
    return Call(client, upstream, model, body, over, end == "stalled")


def _body(rng: random.Random, client: Dialect, prompt: str, *, stream: bool, tools: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"stream": stream}
    if client is RESPONSES:
        body["input"] = prompt
        offered: dict[str, Any] = {"type": "function", "name": TOOL, "parameters": _SCHEMA}
    else:
        body["messages"] = [{"role": "user", "content": prompt}]
        offered = {"type": "function", "function": {"name": TOOL, "parameters": _SCHEMA}}
    if client is MESSAGES:
        body["max_tokens"] = 4000
        offered = {"name": TOOL, "input_schema": _SCHEMA}
    elif rng.random() < 0.2:
        body["service_tier"] = rng.choice(("flex", "priority", "auto"))
    if client is CHAT and stream and rng.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    if tools:
        body["tools"] = [offered]
    return body


COUNTS = {
    "input": "input",
    "cache_read": "cached",
    "cache_write": "cache_write",
    "cache_write_1h": "cache_write_1h",
    "output": "output",
    "reasoning": "reasoning",
}
"""Name of a count in a row → in the ledger."""


def differences(row: dict[str, Any], entry: Entry | None) -> list[str]:
    """Return how a row differs from the ledger: from the token, or where it is an estimate, by more than a tenth."""
    if entry is None:
        return [f"{name} {row[name]} of nothing" for name in COUNTS if row[name] is not None]
    found = []
    for name, own in COUNTS.items():
        booked, made = row[name], getattr(entry.generated, own)
        if name in row["estimated"]:
            if abs(booked - made) > made / 10:
                found.append(f"{name} is estimated as {booked}, not {made}")
        elif own in entry.reported:
            if (booked or 0) != made:
                found.append(f"{name} is {booked}, not {made}")
        elif booked is not None or name == "input" or (name == "output" and row["stream"]):
            found.append(f"{name} is {booked}, neither reported nor estimated ({made} generated)")
    for name, stated in (("searches", entry.searches), ("service_tier", entry.tier)):
        if row[name] != stated:
            found.append(f"{name} is {row[name]}, not {stated}")
    others = [(model, {name: getattr(counts, own) for name, own in COUNTS.items()}) for model, counts in entry.others]
    booked_others = [(part["model"], {name: part.get(name) or 0 for name in COUNTS}) for part in row["other_models"]]
    if "output" in entry.reported and sorted(others, key=str) != sorted(booked_others, key=str):
        found.append(f"other models are {booked_others}, not {others}")
    return found
