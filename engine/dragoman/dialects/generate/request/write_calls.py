"""Writes calls and their results: `functionCall` and `functionResponse` parts.

The API pairs them by order and number, newer models by id as well. A response has to name its function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from orjson import Fragment
from orjson import loads as parse

from dragoman.canonical.parts import (
    Document,
    Image,
    Inline,
    Part,
    SearchResult,
    Text,
    ToolReference,
    ToolResult,
    Unread,
)
from dragoman.canonical.request import Json
from dragoman.canonical.turn import CallFields, ResultFields
from dragoman.dialects.generate.request.write_media import MediaWriter
from dragoman.dialects.shared.call_arguments import ARGUMENTS_AT, embed_arguments
from dragoman.dialects.shared.placeholders import Placeholders
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id

_FOLLOWS: Final = "[The file follows the tool results.]"


class CallWriter:
    """Writes the calls and results of one request."""

    def __init__(
        self,
        origin: str,
        profile: Profile,
        names: NameTable,
        losses: Losses,
        media: MediaWriter,
        placeholders: Placeholders,
    ) -> None:
        self._at = ARGUMENTS_AT.get(origin, ("arguments",))
        self._longest, self._nested = profile.call_id_max, profile.images_in_tool_results
        self._names, self._losses, self._media, self._placeholders = names, losses, media, placeholders
        self._tools: dict[str, str] = {}
        """Id of each call → the upstream name of its tool."""

    def write_calls(self, calls: Sequence[CallFields]) -> list[Json]:
        """Return calls. The text of their arguments is embedded unchanged, so that digits and key order stay."""
        known, fit, tools = self._names.known, self._names.ids_fit, self._tools
        written: list[Json] = []
        for call_id, name, arguments, at in calls:
            if not fit:
                call_id = sanitize_call_id(call_id, self._longest)
            tools[call_id] = sent = known.get(name) or self._names.fit(name, at)
            try:
                sound = type(parse(arguments)) is dict
            except ValueError:
                sound = False
            given: Any = Fragment(arguments) if sound else embed_arguments(arguments, (*at, *self._at), self._losses)
            written.append({"functionCall": {"id": call_id, "name": sent, "args": given}})
        return written

    def write_result(self, result: ToolResult, rest: list[Json]) -> Json:
        """Return a result. Media that it cannot hold are added to `rest`, the parts after all results."""
        if result.custom or result.search:
            what = "free-text (custom) tool" if result.custom else "tool search"
            raise Unsupported(result.at, f"the result of a {what} cannot be sent to a Gemini upstream")
        self._media.drop_mark(result.cache, result.at)
        content = result.content
        media: list[Json] = []
        text = content if isinstance(content, str) else self._content(content, media, rest)
        [written] = self.write_texts([(result.call_id, text, result.at, result.is_error)])
        if media:
            written["functionResponse"]["parts"] = media
        return written

    def write_texts(self, results: Sequence[ResultFields]) -> list[Json]:
        """Return results that are one text each. Raises `Unsupported` for one whose call does not come before it."""
        fit, tools = self._names.ids_fit, self._tools
        written: list[Json] = []
        for call_id, text, at, failed in results:
            if not fit:
                call_id = sanitize_call_id(call_id, self._longest)
            if (name := tools.get(call_id)) is None:
                raise Unsupported(at, f"no call {call_id!r} comes before this result")
            response: Json = {"id": call_id, "name": name, "response": {"error" if failed else "output": text}}
            written.append({"functionResponse": response})
        return written

    def _content(self, parts: list[Part], media: list[Json], rest: list[Json]) -> str:
        texts: list[str] = []
        for part in parts:
            if type(part) is Text:
                self._media.drop_mark(part.cache, part.at)
                if part.citations:
                    self._losses.add(LossCode.CITATIONS, part.at)
                texts.append(part.text)
                continue
            try:
                self._other(part, texts, media, rest)
            except ClientRequestError as error:
                texts.append(self._placeholders.text(part, error, result=True))
        return "\n".join(text for text in texts if text)

    def _other(self, part: Part, texts: list[str], media: list[Json], rest: list[Json]) -> None:
        if type(part) is Unread:
            raise part.error
        if type(part) is ToolReference:
            self._losses.add(LossCode.RESULT_SHAPE, part.at, "named as text")
            texts.append(f"Tool loaded: {self._names.fit(part.name, part.at)}")
        elif type(part) is SearchResult:
            texts += [each["text"] for each in self._media.search_result(part)]
        elif isinstance(part, Image | Document):
            written = self._media.image(part) if isinstance(part, Image) else self._media.document(part)
            texts += [each["text"] for each in written if "text" in each]
            files = [each for each in written if "text" not in each]
            if files and self._nested and type(part.source) is Inline:
                media += files
            elif files:
                self._losses.add(LossCode.RESULT_MEDIA_MOVED, part.at, "moved after the tool results")
                texts.append(_FOLLOWS)
                rest += files
        else:
            raise Unsupported(part.at, "this content cannot stand in a tool result of a Gemini upstream")
