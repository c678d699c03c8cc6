"""Calls and their results → blocks of a Messages request (mapping §6.3, §6.4, §11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from orjson import Fragment
from orjson import loads as parse

from dragoman.canonical.request import CallFields, Json
from dragoman.errors import Path, Unsupported
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id
from dragoman.wire.json_codec import embed, loads

# Where a call holds its arguments in each client's dialect; the client is told its own field.
_ARGUMENTS_AT: Final[dict[str, Path]] = {"chat": ("function", "arguments"), "messages": ("input",)}


class CallsWriter:
    """Writes the calls and results of one request."""

    __slots__ = ("_arguments_at", "_known", "_longest_id", "_names")

    def __init__(self, origin: str, profile: Profile, names: NameTable) -> None:
        self._arguments_at = _ARGUMENTS_AT.get(origin, ("arguments",))
        self._names, self._known = names, names.known
        self._longest_id = profile.call_id_max

    def write(self, calls: Sequence[CallFields], blocks: list[Json]) -> None:
        """Append the blocks of calls, their arguments embedded as they were spelled: digits and key order survive,
        nothing is re-encoded. Raises `Unsupported` for arguments that are no JSON object."""
        known, fit = self._known, self._names.ids_fit
        for call_id, name, arguments, at in calls:
            if not fit:
                call_id = sanitize_call_id(call_id, self._longest_id)
            sent = known.get(name) or self._names.fit(name, at)
            try:
                sound = type(parse(arguments)) is dict
            except ValueError:
                sound = False
            given = Fragment(arguments) if sound else self._unusual(arguments, at)
            blocks.append({"type": "tool_use", "id": call_id, "name": sent, "input": given})

    def _unusual(self, text: str, at: Path) -> Any:
        """Arguments that are empty or that only the careful parser takes.

        Never `{}` for what does not parse: a guessed argument runs a real tool (mapping §6.3).
        """
        if not text:
            return {}
        try:
            value = loads(text)
        except ValueError as error:
            raise Unsupported(
                (*at, *self._arguments_at), f"a Messages upstream takes arguments that are valid JSON: {error}"
            ) from None
        if type(value) is not dict:
            raise Unsupported((*at, *self._arguments_at), "a Messages upstream takes arguments that are a JSON object")
        return embed(text)

    def answers(self, results: Sequence[tuple[str, str | list[Json], Path, bool]]) -> list[Json]:
        """The blocks of results: what a turn of results in short holds, or the same with content as it is sent."""
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
