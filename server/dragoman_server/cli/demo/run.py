"""`dragoman demo`: runs the gateway and the simulated upstream in one process, and draws the streams as they arrive.

The requests are real: they go through sockets to the gateway, and from there to the upstream. Each scene checks that
it showed what it claims.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import sys
from dataclasses import replace
from io import TextIOWrapper
from typing import TextIO
from urllib.parse import urlsplit

import aiohttp

from dragoman import Dialect, DragomanError, LossCode
from dragoman.aio import CallObserver, Http11Transport, ObservedTransport, UpstreamRequest
from dragoman.wire import SSEFrame, SSEParser, json_loads
from dragoman_server.cli.demo.frame_excerpt import body_text, frame_lines
from dragoman_server.cli.demo.next_steps import next_steps
from dragoman_server.cli.demo.scenes import SCENES, Scene, SceneRecording
from dragoman_server.cli.demo.terminal import Line, Terminal, line, wrap
from dragoman_server.cli.options import port as valid_port
from dragoman_server.cli.tool_calls.read_reply import SeenReply, read_reply
from dragoman_server.config.load import simulated_config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.workers.serve import Running, run_loop, running, wait_for_stop_signal

_READING_TIME = 8
"""Pause after a scene, as a multiple of `pace`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--once", action="store_true", help="exit after the last scene instead of serving on")
    parser.add_argument(
        "--port", type=valid_port, default=8080, help="port of the gateway, 0 for any free one (default 8080)"
    )
    parser.add_argument("--pace", type=float, default=0.05, help="seconds between two frames of the upstream")
    parser.set_defaults(run=lambda args: run_loop(demo(port=args.port, pace=args.pace, once=args.once)))


async def demo(*, port: int, pace: float, once: bool, out: TextIO | None = None) -> int:
    """Play the scenes, then serve until a signal, unless `once`.

    `pace` is the simulated upstream's pause between two frames, in seconds. If `port` is taken, a free one is used.
    Return 1 if the check of a scene failed. Raises ConfigError for an invalid port.
    """
    stream = out or sys.stdout
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")  # without UTF-8, print question marks instead of failing
    terminal = Terminal(stream)
    config = simulated_config()
    server = replace(config.server, port=port, ui=True, validate=1.0)
    config = replace(config, server=server, state=StateOptions(kind="memory"))
    config.check()
    taken = port != 0 and not _is_free(config.server.host, port)
    if taken:
        config = replace(config, server=replace(config.server, port=0))
    stage = DemoStage()
    async with running(config, pace=pace, upstream=ObservedTransport(Http11Transport(), stage.observe)) as up:
        if taken:
            terminal.print(f"Port {port} is taken; this demo uses {urlsplit(up.url).port}.", "", style="yellow")
        up.gateway.console_answer({"kind": "record", "count": len(SCENES)})
        problems = await _show(up, stage, terminal, pace)
        if not once:
            terminal.print(*next_steps(up.url))
            terminal.print("Ctrl-C stops it.", "", style="bold")
            await wait_for_stop_signal()
    return 1 if problems else 0


def _is_free(host: str, port: int) -> bool:
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True


async def _show(up: Running, stage: DemoStage, terminal: Terminal, pace: float) -> int:
    """Play all scenes. Return the number of problems."""
    log = logging.getLogger("dragoman")
    level = log.level
    log.setLevel(logging.CRITICAL)  # log lines would break the columns
    failed = 0
    try:
        terminal.print("Dragoman translates between model APIs while they stream.", style="bold")
        terminal.print(
            f"Real requests now go through {up.url} to a simulated model.",
            "Each line is one frame of a stream, shortened to what changes.",
            '"…created" stands for "response.created", and so on.',
            "",
        )
        async with aiohttp.ClientSession() as session:
            for number, scene in enumerate(SCENES, 1):
                terminal.title(f"{number}/{len(SCENES)}  {scene.title}")
                seen = await ScenePlayer(scene, terminal).play(session, up.url, stage)
                failed += _print_remarks(scene, seen, terminal)
                if number < len(SCENES):
                    await asyncio.sleep(_READING_TIME * pace)
    finally:
        log.setLevel(level)
    return failed


class DemoStage:
    """The scene that is played: its `player` observes the requests to the upstream."""

    def __init__(self) -> None:
        self.player: ScenePlayer | None = None

    def observe(self, call: UpstreamRequest) -> CallObserver | None:
        """Show a request to the upstream, and return the observer of its reply."""
        if self.player is not None:
            self.player.sent(call)
        return self.player


class ScenePlayer(CallObserver):
    """Plays one scene: both sides report here, and simultaneous frames are drawn side by side."""

    def __init__(self, scene: Scene, terminal: Terminal) -> None:
        self.scene = scene
        self.seen = SceneRecording()
        self._body = scene.body
        self._terminal = terminal
        self._parsers = SSEParser(), SSEParser()
        self._rows: tuple[list[Line], list[Line]] = [], []

    async def play(self, session: aiohttp.ClientSession, url: str, stage: DemoStage) -> SceneRecording:
        """Send the client's request and draw the frames of both sides. Return the recording."""
        scene, seen = self.scene, self.seen
        endpoint = f"{url}/v1/{scene.client.path}"
        if scene.before is not None:
            async with session.post(endpoint, json=scene.before) as response:
                self._body = {**scene.body, "previous_response_id": (await response.json())["id"]}
        stage.player = self
        try:
            async with session.post(endpoint, json=self._body) as response:
                seen.status, seen.headers = response.status, response.headers
                if response.content_type == "text/event-stream":
                    async for data in response.content.iter_any():
                        self._receive(data)
                else:
                    self._draw_request()
                    seen.body = await response.read()
                    self._rows[0].append(line(f"HTTP {seen.status}", "red"))
                    self._rows[0].extend(line(row, "red") for row in self._wrapped(seen.body.decode()))
        finally:
            stage.player = None
        self._flush()
        return seen

    # --- reports of the upstream's side --------------------------------------------------------------------------

    def sent(self, call: UpstreamRequest) -> None:
        """Draw the translated request."""
        self.seen.call = call
        self._draw_request()

    def received(self, data: bytes) -> None:
        """Add a part of the upstream's reply, after drawing the previous part and the client's frames for it."""
        self._flush()
        self._add(1, self.seen.upstream, data)

    def failed(self, _: DragomanError) -> None:
        """Draw that the upstream's connection failed."""
        self._flush()
        self.seen.cut = True
        self._rows[1].append(line("✂ the connection fails", "red"))

    def stopped(self) -> None:
        """Draw that the gateway closed the upstream's connection, unless the reply was complete."""
        self._flush()
        if not read_reply(self.scene.upstream, self.seen.upstream).stop:
            self._rows[1].append(line("✂ the gateway closes the connection", "blue"))

    def _receive(self, data: bytes) -> None:
        self._add(0, self.seen.client, data)

    def _add(self, side: int, frames: list[SSEFrame], data: bytes) -> None:
        new = self._parsers[side].parse(data)
        frames += new
        for frame in new:
            self._rows[side].extend(frame_lines(frame, self._terminal.column))

    def _flush(self) -> None:
        client, upstream = self._rows
        self._terminal.sides(client, upstream, "◀")
        client.clear()
        upstream.clear()

    def _draw_request(self) -> None:
        scene, call, terminal = self.scene, self.seen.call, self._terminal
        if not terminal.stacked:
            terminal.sides(
                [line(f"CLIENT: {scene.client.facts.title}", "bold")],
                [line(f"UPSTREAM: {scene.upstream.facts.title}", "bold")],
                "",
            )
        client = [line(f"POST /v1/{scene.client.path}", "cyan")]
        client += map(line, self._wrapped(body_text(self._body)))
        upstream = [line("nothing was sent", "dim")]
        if call is not None:
            upstream = [line(f"POST {urlsplit(call.url).path}", "cyan")]
            upstream += map(line, self._wrapped(body_text(json_loads(call.body))))
        terminal.sides(client, upstream, "▶")

    def _wrapped(self, text: str) -> list[str]:
        return wrap(text, self._terminal.column, 4)


def _print_remarks(scene: Scene, seen: SceneRecording, terminal: Terminal) -> int:
    """Print the remarks below a scene. Return the number of problems."""
    terminal.print("")
    problems = scene.problems(seen)
    if problems:
        for problem in problems:
            terminal.labelled("✗ wrong", problem, "red")
    else:
        terminal.labelled("✓", scene.point, "bold")
    client, upstream = read_reply(scene.client, seen.client), read_reply(scene.upstream, seen.upstream)
    if calls := [str(call) for call in client.calls.values() if call.complete]:
        terminal.labelled("tool calls", ", ".join(calls))
    if client.error:
        terminal.labelled("error read", client.error, "red")
    if seen.status == 200:
        lost = [entry.partition("=")[0].strip() for entry in seen.headers.get("x-dragoman-loss", "").split(",")]
        rows = [f"{code}: {LossCode(code).meaning}" for code in lost if code]
        terminal.labelled("lost", "; ".join(rows) + " (in the x-dragoman-loss header)" if rows else "nothing")
    if client.counts and client.stop:
        terminal.labelled("tokens", f"{_usage(scene.upstream, upstream)} → {_usage(scene.client, client)}")
    terminal.print("")
    return len(problems)


_COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "promptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)


def _usage(dialect: Dialect, side: SeenReply) -> str:
    counts = ", ".join(f"{name} {side.counts[name]}" for name in _COUNTS if side.counts.get(name) is not None)
    return f"{dialect.facts.name}: {counts or 'none'}"
