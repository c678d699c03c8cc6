"""An upstream that answers each request with the case that the request names."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from dragoman import Dialect
from dragoman_proof.faults.kinds import UPSTREAM, Case
from dragoman_proof.faults.line import Line

_NUMBER = re.compile(rb"case-(\d+)")


@dataclass(slots=True)
class Upstream:
    """An upstream, and the requests it got. `lines` are its open connections."""

    dialect: Dialect
    cases: Sequence[Case]
    lines: set[asyncio.Task[None]] = field(default_factory=set)
    requests: Counter[int] = field(default_factory=Counter)
    """The requests by the number of their case."""
    reused: list[str] = field(default_factory=list)
    """Requests on a connection that could not be used again."""
    port: int = 0

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/{self.dialect.facts.version}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.lines.add(task)
        line = Line(self.dialect, reader, writer)
        try:
            while True:
                found = _NUMBER.search(await line.request())
                assert found is not None
                case = self.cases[int(found[1])]
                case = replace(case, recording=case.recording.numbered(case.number))
                self.requests[case.number] += 1
                kind = UPSTREAM.get(case.kind, UPSTREAM["none"])
                if not await kind.play(line, case, random.Random(case.seed)):
                    self.reused += [f"a request on the connection of {case}"] if line.is_reused else []
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.lines.discard(task)
            with suppress(ConnectionError):
                writer.close()


@asynccontextmanager
async def serving(dialect: Dialect, cases: Sequence[Case]) -> AsyncIterator[Upstream]:
    """Serve the cases on a free port."""
    upstream = Upstream(dialect, cases)
    server = await asyncio.start_server(upstream._serve, "127.0.0.1", 0, backlog=1024)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        for task in list(upstream.lines):
            task.cancel()
        await asyncio.gather(*upstream.lines, return_exceptions=True)
