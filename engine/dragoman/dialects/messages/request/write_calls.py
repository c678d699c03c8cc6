"""Writes tool calls and their results as blocks of a Messages request (mapping §6.3, §6.4, §11)."""

from __future__ import annotations

from collections.abc import Sequence

from orjson import Fragment
from orjson import loads as parse

from dragoman.canonical.request import Json
from dragoman.canonical.turn import CallFields
from dragoman.dialects.shared.call_arguments import ARGUMENTS_AT, embed_arguments
from dragoman.errors import Path
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id


class CallWriter:
    """Writes the calls and results of one request."""

    def __init__(self, origin: str, profile: Profile, names: NameTable, losses: Losses) -> None:
        self._losses = losses
        self._at = ARGUMENTS_AT.get(origin, ("arguments",))
        self._names, self._known = names, names.known
        self._longest_id = profile.call_id_max

    def write_calls(self, calls: Sequence[CallFields], blocks: list[Json]) -> None:
        """Append the blocks of `calls` to `blocks`.

        The text of the arguments is embedded unchanged, so that digits and key order stay.
        """
        known, fit = self._known, self._names.ids_fit
        for call_id, name, arguments, at in calls:
            if not fit:
                call_id = sanitize_call_id(call_id, self._longest_id)
            sent = known.get(name) or self._names.fit(name, at)
            try:
                sound = type(parse(arguments)) is dict
            except ValueError:
                sound = False
            given = Fragment(arguments) if sound else embed_arguments(arguments, (*at, *self._at), self._losses)
            blocks.append({"type": "tool_use", "id": call_id, "name": sent, "input": given})

    def write_results(self, results: Sequence[tuple[str, str | list[Json], Path, bool]]) -> list[Json]:
        """Return the blocks of results: each is a call id, the content as sent, its path, and True for an error."""
        blocks: list[Json] = []
        fit = self._names.ids_fit
        for call_id, content, _, failed in results:
            if not fit:
                call_id = sanitize_call_id(call_id, self._longest_id)
            block: Json = {"type": "tool_result", "tool_use_id": call_id, "content": content}
            if failed:
                block["is_error"] = True
            blocks.append(block)
        return blocks
