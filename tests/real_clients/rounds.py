"""One client, one upstream dialect: a gateway of their own, the client's session, and what the other side saw of it."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from conformance.served import Served, serving
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.websocket import WebSocketOptions
from dragoman_server.simulator.error_replies import RequestRejected
from oracles.requests import check
from real_clients.contract import Client, Outcome, Session
from real_clients.errand import MODEL, SILENCE

UPSTREAMS = ("chat", "messages", "responses", "generate")
WITHOUT_REASONING = frozenset(
    {
        "AI SDK, openai Responses, `store: false`",
        "openai Chat (Node)",
        "openai Chat (Python)",
        "openai-agents Chat (Python)",
        "pydantic-ai, OpenAI Chat",
    }
)
"""Clients that request no reasoning here. Gemini then shows none, and other upstreams show theirs all the same."""
_NOT_SHOWN = "the thinking shown is ''"
_COMPLAINT = re.compile(r'dragoman_output_violations_total|dragoman_requests_total\{.*ended="rejected"')
_LOSSES = re.compile(r'^dragoman_losses_total\{[^}]*code="(\w+)"[^}]*\} (\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome. `wrong` is empty if all is well."""

    outcome: Outcome
    wrong: str
    requests: int
    """The number of requests that reached the upstream."""
    losses: dict[str, int]
    """Losses that the gateway counted, by code."""
    seconds: float = 0.0
    reasoning: bool = True
    """False if the upstream shows no reasoning, as the client requests none."""


async def play(client: Client, upstream: str, prefix: Path) -> Round:
    """Run the client's session through a gateway to a simulated upstream of the dialect."""
    async with serving(_config(upstream, client), verify=True, pause=SILENCE) as served:
        with tempfile.TemporaryDirectory(prefix="dragoman-client-", ignore_cleanup_errors=True) as folder:
            work, home = Path(folder) / "work", Path(folder) / "home"
            work.mkdir()
            home.mkdir()
            session = Session(served.url, MODEL, prefix, work, home)
            begun = time.monotonic()
            judged = asyncio.ensure_future(asyncio.to_thread(_judged, client, session))
            try:
                outcome = await asyncio.shield(judged)
            except asyncio.CancelledError:
                session.end()
                await judged  # Soon: nothing runs any longer, and its folder must not go before it.
                raise
            seconds = time.monotonic() - begun
        metrics = await _metrics(served.url)
    losses: Counter[str] = Counter()
    for code, count in _LOSSES.findall(metrics):
        losses[code] += int(count)
    shown = upstream != "generate" or client.name not in WITHOUT_REASONING
    wrong = _wrong(outcome, shown) or _refused(served, upstream) or _complained(metrics, client)
    counted = {code: losses[code] for code in sorted(losses)}
    return Round(outcome, wrong, len(served.requests), counted, seconds, shown)


def _config(upstream: str, client: Client) -> Config:
    provider = Provider("simulated", Dialect(upstream), "http://simulator.invalid", profile=builtin_profile(upstream))
    own = Route("sim-*", "simulated")
    timeouts = Timeouts() if client.heartbeat is None else Timeouts(heartbeat=client.heartbeat)
    server = Server(timeouts=timeouts, websocket=WebSocketOptions(enabled=client.websocket))
    routes = (own, Route("*", "simulated", upstream_model=MODEL))
    return Config({"simulated": provider}, routes, server=server)


def _judged(client: Client, session: Session) -> Outcome:
    try:
        return client.session(session)
    except Exception as error:  # A session that breaks is a row of the table, not the end of it.
        return Outcome(False, False, "", f"{type(error).__name__}: {error}")


def _wrong(outcome: Outcome, shown: bool) -> str:
    """Return what the session lacks. If no reasoning is `shown`, it must lack that, and nothing else."""
    if outcome.ok and outcome.tool_ran:
        return "" if shown else "reasoning is shown that was not requested"
    if not shown and outcome.tool_ran:
        problems = [each for each in outcome.note.split("; ") if each]
        if problems:
            return "; ".join(each for each in problems if not each.endswith(_NOT_SHOWN))
    return outcome.note or ("the tool did not run" if not outcome.tool_ran else "no reason given")


def _refused(served: Served, upstream: str) -> str:
    """Return what the upstream did not take, unless it was asked to fail: such a request is the gateway's mistake."""
    for received in served.requests:
        body = received.body if isinstance(received.body, dict) else {}
        if received.status < 400 or "sim-error" in f"{body.get('model')} {received.path}":
            continue
        try:
            check(upstream, body, received.headers, verify=True)
            why = "no reason found"
        except RequestRejected as refused:
            why = f"{refused} ({refused.param})"
        return f"the upstream answered {received.status} to {received.method} {received.path}: {why}"
    return ""


def _complained(metrics: str, client: Client) -> str:
    """Return the gateway's own counts of faults: requests that it rejected, and output that it should not have made."""
    lines = [line for line in metrics.splitlines() if _COMPLAINT.match(line) and not line.endswith(" 0")]
    if client.refused:
        lines = [line for line in lines if 'ended="rejected"' not in line]
    return f"the gateway counted {'; '.join(lines)}" if lines else ""


async def _metrics(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
        return await response.text()


def failed(why: str) -> Round:
    """A round that never came about."""
    return Round(Outcome(False, False, "", why), why, 0, {})
