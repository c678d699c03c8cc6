"""Decides which exchanges of a gateway are captured, and passes their recordings to the writer."""

from __future__ import annotations

import random
import threading
import time
from asyncio import to_thread
from collections.abc import Callable

from dragoman.wire import Json, json_loads
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.config_error import ConfigError
from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.captures.store import CaptureStore
from dragoman_server.observability.captures.writer import CaptureWriter
from dragoman_server.observability.metric_families import CAPTURES, Totals
from dragoman_server.receipt import Receipt

VIOLATION = "violation"
"""Reason of a recording that is kept only if its stream breaks the grammar of its client's dialect."""
HEADER = "x-dragoman-capture"
"""Header of a request that is to be captured."""
_FACTS = ("host", "created", "endpoint", "client", "upstream", "model", "provider", "stream")
OFF_WORDS = frozenset(("", "0", "false", "no", "off"))
"""Values of the header that ask for no capture."""
_CLOSE_SECONDS = 5.0
"""Longest time to write what is pending when the gateway closes."""


class Captures:
    """The captures of one gateway. `store` lists and reads them.

    Args:
        options: The settings, with a directory.
        totals: Counts them.
        now: A function that returns Unix seconds.
        clock: A function that returns seconds, for the times of reads and writes.
        chance: A function that returns a number from 0 to 1, by which the share is chosen.
        host: The name of the host, for their summaries.
    """

    def __init__(
        self,
        options: CaptureOptions,
        totals: Totals,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        host: str = "",
    ) -> None:
        self.options = options
        self._host = host
        self.store = CaptureStore(options.directory, options.number, options.total_bytes, options.days * 86400.0, now)
        self._totals = totals
        totals.series(CAPTURES)  # here, as two threads add to it
        self._clock = clock
        self._chance = chance
        self._writer = CaptureWriter(self.store, texts=options.texts, done=self._written)
        self._open = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        """Open the directory and start the writer. Raises ConfigError if the directory cannot be used."""
        try:
            self._writer.open()
        except OSError as error:
            raise ConfigError("capture.directory", f"cannot be used: {error.strerror}") from None

    async def close(self) -> None:
        """Write what is pending."""
        await to_thread(self._writer.close, _CLOSE_SECONDS)

    def reason(self, value: str | None, *, admin: bool, by_key: bool) -> str | None:
        """Return why an exchange is captured, or None if it is not.

        `value` is that of the request's header, `admin` is True if its client may ask for captures, `by_key` if the
        exchanges of its key are captured.
        """
        options = self.options
        if value is not None and admin and options.header:
            return "header" if not self.declined(value, admin=admin) else None
        if by_key:
            return "key"
        return "share" if options.share and self._chance() < options.share else None

    def declined(self, value: str | None, *, admin: bool) -> bool:
        """Return whether a request asks for no capture of its exchange. The arguments are those of `reason`."""
        return value is not None and admin and self.options.header and value.strip().lower() in OFF_WORDS

    def record(self, request_id: str, reason: str, secrets: tuple[str, ...], endpoint: str = "") -> Recording | None:
        """Return the recording of a new exchange, or None if too many are open or wait to be written.

        `endpoint` is the path of a forwarded endpoint below `/v1`, empty for others.
        """
        with self._lock:
            if reason == VIOLATION:
                if self._open >= max(1, self.options.open // 2):  # the rest is for exchanges that are kept anyway
                    return None
            elif self._open >= self.options.open:
                self._totals.add(CAPTURES, ("dropped",))
                return None
            self._open += 1
        limit = self.options.exchange_bytes
        return Recording(request_id, reason, limit, self._clock, secrets, self._ended, endpoint)

    def _ended(self, recording: Recording, receipt: Receipt) -> None:
        translation = recording.translation
        if recording.reason == VIOLATION and (translation is None or translation.violation is None):
            with self._lock:
                self._open -= 1
            return
        facts = json_loads(receipt.json(self._host))
        key = receipt.key.name if receipt.key is not None else None
        self._writer.put(recording, {**_summary(facts), "route": receipt.route, "key": key}, facts)

    def _written(self, success: bool) -> None:
        """Called in the writer's thread."""
        with self._lock:
            self._open -= 1
        self._totals.add(CAPTURES, ("written" if success else "failed",))


def _summary(facts: Json) -> Json:
    """Return what the summary of a capture has from the receipt."""
    error = facts["error"]
    return {
        **{name: facts[name] for name in _FACTS},
        **{name: facts[name] for name in ("ended", "status")},
        "error": None if error is None else error["kind"],
    }
