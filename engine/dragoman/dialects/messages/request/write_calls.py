"""Writes tool calls and their results as blocks of a Messages request (mapping §6.3, §6.4, §11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from orjson import Fragment
from orjson import loads as parse

from dragoman.canonical.request import Json
from dragoman.canonical.turn import CallFields
from dragoman.dialects.shared.json_fields import INVALID_ARGUMENTS, parse_object
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id
from dragoman.wire.json_codec import embed

_ARGUMENTS_AT: Final[dict[str, Path]] = {"chat": ("function", "arguments"), "messages": ("input",)}
"""Client's dialect → path of the arguments in a call, for loss rows."""


class CallWriter:
    """Writes the calls and results of one request."""

    __slots__ = ("_arguments_at", "_known", "_longest_id", "_losses", "_names")

    def __init__(self, origin: str, profile: Profile, names: NameTable, losses: Losses) -> None:
        self._losses = losses
        self._arguments_at = _ARGUMENTS_AT.get(origin, ("arguments",))
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
            given = Fragment(arguments) if sound else self._parse_carefully(arguments, at)
            blocks.append({"type": "tool_use", "id": call_id, "name": sent, "input": given})

    def _parse_carefully(self, text: str, at: Path) -> Any:
        """Return the input for arguments that orjson does not parse as an object: they are empty, need the fallback
        parser, or are broken.

        Broken ones are sent as a text, which shows the model what it wrote; they never become `{}`.
        """
        if text.strip() in ("", "[]"):  # PHP writes an empty object so
            return {}
        if parse_object(text) is not None:
            return embed(text)
        self._losses.add(LossCode.CALL_ARGUMENTS, (*at, *self._arguments_at), "sent as `invalid_arguments`")
        return {INVALID_ARGUMENTS: text}

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
