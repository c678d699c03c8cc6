"""The notes of the console to the rows of its table: the reason of a failure, and that a stream is recorded."""

from __future__ import annotations

from typing import Any

from dragoman.wire import Json
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.proxy.gateway import Gateway


class RowNotes:
    """The notes to the rows of one gateway."""

    def __init__(self, gateway: Gateway, recorder: Recorder) -> None:
        self._gateway = gateway
        self._recorder = recorder

    @property
    def remaining(self) -> int:
        """The number of next requests to record."""
        return self._recorder.remaining

    def add(self, rows: list[dict[str, Any]]) -> list[Json]:
        """Add `recorded` to whole rows, and the words of the client's error as `reason`.

        Rows with changes only stay as they are.
        """
        reasons = self._gateway.services.instruments.reasons
        for row in rows:
            if "state" in row:
                row["recorded"] = self._recorder.get(row["id"]) is not None
                if reasons is not None and (words := reasons.get(row["id"])) is not None:
                    row["reason"] = words
        return rows
