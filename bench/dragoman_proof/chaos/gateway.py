"""`dragoman serve` as a process, its log and its endpoints."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import re
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from dragoman_proof.chaos.scenario import Broken

PATIENCE = 40.0
"""Seconds that an event has which must come."""
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
"""The endpoint of each dialect."""
_HIDDEN = re.compile(r"(OPENAI|ANTHROPIC|UPSTREAM|BIG_MODEL|SMALL_MODEL|DRAGOMAN|NOTIFY_SOCKET)")
"""Variables that a gateway would read from the environment of this process."""


async def until(ask: Callable[[], Awaitable[object]], what: str, seconds: float = PATIENCE) -> None:
    """Ask again and again until the answer is true. Raises Broken with `what`, which never became true."""
    try:
        async with asyncio.timeout(seconds):
            for _ in itertools.count():
                if await ask():
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise Broken(f"never: {what}") from None


async def becomes(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition of this process. Raises Broken with `what`, which never became true."""

    async def ask() -> object:
        return condition()

    await until(ask, what)


@dataclass(slots=True)
class GatewayProcess:
    """A running gateway. `lines` are those of its log so far."""

    process: asyncio.subprocess.Process
    session: aiohttp.ClientSession
    url: str = ""
    lines: list[str] = field(default_factory=list)
    ended: bool = False
    """True when the log has ended."""

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    async def read_log(self) -> None:
        """Read the log until its end: a process whose log no one reads stands still."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.append(line.decode().rstrip())
        self.ended = True

    async def logs(self, pattern: str, *, after: int = 0) -> re.Match[str]:
        """Wait for a line of the log, not one of the first `after`."""
        found: list[re.Match[str]] = []

        async def written() -> bool:
            found.extend(match for line in self.lines[after:] if (match := re.search(pattern, line)))
            if not found and self.ended:
                raise Broken(f"the gateway has ended without the line {pattern!r}: {self.lines[-3:]}")
            return bool(found)

        await until(written, f"a line {pattern!r} in the log; last: {self.lines[-3:]}")
        return found[0]

    async def ready(self) -> Any:
        """The body of `/ready`."""
        async with self.session.get(f"{self.url}/ready") as reply:
            return await reply.json()

    async def warns(self, warning: str, *, ends: bool = False) -> None:
        """Wait until `/ready` has a warning or a reason, or has it no longer."""

        async def found() -> bool:
            body = await self.ready()
            return (warning in body["warnings"] + body["reasons"]) is not ends

        await until(found, f"{warning} {'leaves' if ends else 'is in'} /ready")

    async def ask(
        self,
        dialect: str = "chat",
        model: str = "m",
        *,
        text: str = "Hi",
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> tuple[int, Any]:
        """Send a request. Return the status and the body of the reply, as JSON."""
        body: dict[str, Any] = {"model": model, **more}
        if dialect == "responses":
            body["input"] = text
        else:
            body["messages"] = [{"role": "user", "content": text}]
        if dialect == "messages":
            body["max_tokens"] = 100
        async with (
            asyncio.timeout(PATIENCE),
            # aiohttp warns of a long body that is not a file.
            self.session.post(
                self.url + PATHS[dialect],
                data=io.BytesIO(json.dumps(body).encode()),
                headers={"content-type": "application/json", **(headers or {})},
            ) as reply,
        ):
            return reply.status, await reply.json(content_type=None)

    async def stream(self, model: str, headers: dict[str, str] | None = None) -> str:
        """The text of a streamed reply of Chat Completions."""
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        async with self.session.post(self.url + PATHS["chat"], json=body, headers=headers) as reply:
            return await reply.text()

    async def serves(self, model: str = "m", **more: Any) -> None:
        """Wait until a request is answered."""

        async def answered() -> bool:
            try:
                return (await self.ask(model=model, **more))[0] == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        await until(answered, "a request is answered")

    def stat(self) -> list[str]:
        """The fields of /proc/PID/stat after the name."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()

    def cpu(self) -> float:
        """Seconds of CPU that the process has used."""
        fields = self.stat()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def files(self) -> int:
        """Number of open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def leave_descriptors(self, free: int) -> None:
        """Lower the limit of open files until so many descriptors are free: it bounds their numbers."""
        used = set(map(int, os.listdir(f"/proc/{self.pid}/fd")))
        limit = next(itertools.islice((number for number in itertools.count() if number not in used), free, None))
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (limit, hard))

    async def stop(self) -> int:
        """Stop it, and return its exit status."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def gateway(
    config: Path, *, prefix: Sequence[str] = (), variables: dict[str, str] | None = None, log: Path | None = None
) -> AsyncIterator[GatewayProcess]:
    """Run `dragoman serve` until the end, and wait until it listens.

    `prefix` is a command that starts it, `log` the file to which that writes its log.
    """
    kept = {name: value for name, value in os.environ.items() if not _HIDDEN.match(name)}
    process = await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", "dragoman_server", "serve", str(config), "--port", "0"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**kept, "PYTHONUNBUFFERED": "1", **(variables or {})},
        start_new_session=True,
    )
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        found = GatewayProcess(process, session)
        reading = asyncio.create_task(found.read_log() if log is None else process.wait())
        try:
            if log is not None:
                await becomes(
                    lambda: "OpenAI clients" in _text(log), "the gateway listens"
                )  # the last line of its start
                found.lines += _text(log).splitlines()
            found.url = (await found.logs(r"dragoman listens on (http://\S+)"))[1]
            yield found
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await asyncio.wait_for(reading, PATIENCE)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""
