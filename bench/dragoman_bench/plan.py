"""The plan of a load client, which it reads as JSON from standard input."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal
from urllib.parse import urlsplit

from dragoman_bench.wire import DIALECTS, PATHS, request

Mode = Literal["hold", "closed", "counted", "open", "storm", "day"]
MODES = ("hold", "closed", "counted", "open", "storm", "day")
MOST_STREAMS = 100_000
LONGEST = 4 * 3600.0
"""Maximum seconds of a load."""


class PlanError(ValueError):
    """A plan that cannot be sent out."""


@dataclass(slots=True)
class Slow:
    """Additional slow readers, which read `size` bytes every `tick_ms`."""

    streams: int
    model: str
    size: int = 512
    tick_ms: int = 50


@dataclass(slots=True)
class Plan:
    """One measurement.

    - `hold`: open `streams` paced streams, at most `ramp_per_s` a second and `opening` without a first delta, measure
    for `seconds` once all run, then let the upstream at `upstream` end them. - `closed`: keep `streams` replies going
    for `seconds`, after `warm` seconds. - `counted`: `total` replies, `streams` at once, after one on each connection;
    the window has whole replies only. - `open`: `rate` new replies a second on a random schedule (`seed`),
    independent of earlier replies; times count from the schedule. At most `streams` at once; more are an error. -
    `storm`: `streams` at once, `total` in all, each cut at a random point (`seed`) within `cut_within_ms`. -
    `day`: as `open`, of the requests in `mix`, each with model, share, and whether it is streamed; some clients leave,
    some of these ask again.

    With `neighbours`, model names, `hold` measures for `seconds` alone, then for `seconds` while it reads one more
    stream of each of these models as fast as it is sent.

    `watch` maps names to roots of process trees, whose CPU (and with `memory`, memory) is sampled at the edges of the
    window. `limit` is the maximum duration in seconds.
    """

    url: str
    dialect: str
    mode: Mode
    model: str
    streams: int
    seconds: float = 5.0
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    stream: bool = True
    warm: float = 0.5
    ramp_per_s: float = 500.0
    opening: int = 256
    rate: float = 20.0
    total: int = 0
    seed: int = 1
    cut_within_ms: int = 200
    slow: Slow | None = None
    neighbours: list[str] = field(default_factory=list)
    mix: list[tuple[str, float, bool]] = field(default_factory=list)
    upstream: str = ""
    watch: dict[str, int] = field(default_factory=dict)
    memory: bool = False
    limit: float = 120.0

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise PlanError(f"dialect is {self.dialect!r}: one of {', '.join(DIALECTS)}")
        if self.mode not in MODES:
            raise PlanError(f"mode is {self.mode!r}: one of {', '.join(MODES)}")
        if not 0 < self.streams <= MOST_STREAMS:
            raise PlanError(f"streams is {self.streams}: from 1 to {MOST_STREAMS}")
        if not 0 < self.seconds <= LONGEST or not 0 < self.limit <= LONGEST:
            raise PlanError(f"seconds and limit are above 0 and at most {LONGEST:.0f}")
        if self.ramp_per_s <= 0 or self.rate <= 0 or self.opening < 1:
            raise PlanError("ramp_per_s, rate and opening are above 0")
        if self.mode == "hold" and not self.upstream:
            raise PlanError("hold ends its streams through the upstream: give `upstream`")
        if self.mode in ("storm", "counted") and self.total < 1:
            raise PlanError(f"{self.mode} needs a total of at least 1")
        if self.mode == "day" and not self.mix:
            raise PlanError("day needs a mix of requests")

    @classmethod
    def of_json(cls, text: str) -> Plan:
        """Parse a plan. Raises PlanError."""
        try:
            data: dict[str, Any] = json.loads(text)
            known = {spec.name for spec in fields(cls)}
            if unknown := sorted(set(data) - known):
                raise PlanError(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
            if data.get("slow"):
                data["slow"] = Slow(**data["slow"])
            return cls(**data)
        except (TypeError, ValueError) as error:
            raise error if isinstance(error, PlanError) else PlanError(f"not a plan: {error}") from error

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the gateway."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80

    def request(self, model: str | None = None, *, stream: bool | None = None) -> bytes:
        """Return the HTTP request. Its body is `body` if that is set and `model` is not given."""
        streamed = self.stream if stream is None else stream
        body = (
            self.body.encode()
            if self.body is not None and model is None
            else request(self.dialect, model or self.model, stream=streamed)
        )
        host, port = self.address
        headers = {
            "host": f"{host}:{port}",
            "user-agent": "dragoman-bench",
            "accept": "text/event-stream" if streamed else "application/json",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **({"anthropic-version": "2023-06-01"} if self.dialect == "messages" else {}),
            **({"x-api-key": "sk-bench"} if self.dialect == "messages" else {"authorization": "Bearer sk-bench"}),
            **{name.lower(): value for name, value in self.headers.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        path = urlsplit(self.url).path.rstrip("/") + PATHS[self.dialect]
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body
