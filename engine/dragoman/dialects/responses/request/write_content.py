"""User parts and tool results to Responses input parts and output items (mapping §4.1, §6.4, §7.4).

Chat and Responses have the same part types, so documents are written by Chat's rules and converted.

A cache mark needs a part to stand on, and clients move their marks with each request: an array with a mark is a plain
string in the next request. So in a request with marks every single text has one shape, an array if the upstream accepts
marks and else a string. Then the prefix to which caches and encrypted reasoning are bound does not change.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.parts import Document, FileRef, Image, Inline, Part, Text, ToolResult, Url
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import ResultFields, Turn
from dragoman.dialects.openai.content_parts import text_of
from dragoman.dialects.openai.media import write_document
from dragoman.dialects.openai.prompt_cache_fields import CacheMarks
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.placeholders import Placeholders
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id

_FAILED: Final = "Error: the tool call failed without a message."
_OPENAI: Final = frozenset({"chat", "responses"})  # the dialects that share one file store


def input_text(text: str) -> Json:
    """Return a text part of an input message or an output."""
    return {"type": "input_text", "text": text}


class ContentWriter:
    """Writes the content of one request: parts of messages, outputs of calls, and the cache marks on both."""

    def __init__(self, request: Request, profile: Profile, losses: Losses, names: NameTable) -> None:
        self._own = request.origin == DIALECT
        self._placeholders = Placeholders(request.turns, losses)
        self._profile, self._losses, self._names = profile, losses, names
        self._marks = CacheMarks(profile, losses)
        self._one_shape = False
        """True if the request has marks, so that every single text has the same shape."""
        self._accepts_marks = profile.explicit_cache and profile.text_parts
        self._other_shape: list[Json] = []
        """Items written without regard to that, whose single text has the other shape."""

    def finish(self) -> None:
        """Convert the items of the other shape if there are marks, and keep only the last marks. Called last."""
        if self._one_shape:
            for item in self._other_shape:
                field = "output" if "output" in item else "content"
                content = item[field]
                item[field] = [input_text(content)] if self._accepts_marks else content[0]["text"]
        if self._marks.any:
            self._marks.keep_last()

    def drop_mark(self, part: Text) -> None:
        """Record the loss of the mark of a part that is written where no mark is allowed."""
        self._losses.add(LossCode.CACHE_HINT, part.at)
        self._one_shape = not self._own

    # --- messages -----------------------------------------------------------------------------------------------------

    def add(self, part: Part, parts: list[Json], *, result: bool = False) -> None:
        """Append one part of a message to `parts`, or of a tool result if `result` is true.

        Raises `ClientRequestError` if it cannot be sent and is not in the history.
        """
        before = len(parts)
        if type(part) is Text:
            if part.text:
                parts.append(input_text(part.text))
            if part.citations:
                self._losses.add(LossCode.CITATIONS, part.at)
            cache = part.cache
        else:
            try:
                parts += self._other(part, result)
            except ClientRequestError as error:
                parts.append(input_text(self._placeholders.text(part, error, result=result)))
            cache = getattr(part, "cache", None)
        if cache is not None:
            self._mark(parts[-1] if len(parts) > before else None, part, cache)

    def _other(self, part: Part, result: bool) -> list[Json]:
        """Return a part other than a text. Raises `ClientRequestError` if it cannot be sent."""
        if type(part) is Image:
            return self._image(part)
        if type(part) is Document:
            return self._document(part, result)
        return [input_text(text_of(part, self._losses, self._names))]

    def message(self, role: str, turn: Turn, parts: list[Json]) -> Json:
        """Return a message of these parts. A string stays a string, and an array an array (mapping §4.1)."""
        item: Json = {"type": "message", "role": role}
        self._fill(item, "content", parts, "\n\n", bare=turn.plain)
        return item

    def fill(self, item: Json, field: str, text: str, *, bare: bool) -> None:
        """Set a field of an item to a single text: a string if `bare`, unless all texts must have one shape."""
        if self._one_shape:
            bare = not self._accepts_marks
        else:
            bare = bare or not self._profile.text_parts
            if bare is self._accepts_marks:
                self._other_shape.append(item)
        item[field] = text if bare else [{"type": "input_text", "text": text}]

    def _fill(self, item: Json, field: str, parts: list[Json], separator: str, *, bare: bool) -> None:
        """Set a field of an item to the parts. `separator` joins them for an upstream that accepts only strings."""
        if len(parts) == 1 and parts[0]["type"] == "input_text" and len(parts[0]) == 2:
            self.fill(item, field, parts[0]["text"], bare=bare)
        elif not self._profile.text_parts and all(part["type"] == "input_text" for part in parts):
            item[field] = separator.join(part["text"] for part in parts)
        else:
            item[field] = parts

    def _mark(self, written: Json | None, part: Part, cache: Json) -> None:
        self._marks.put(written if self._accepts_marks else None, cache, part.at)
        self._one_shape = not self._own

    # --- media --------------------------------------------------------------------------------------------------------

    def _image(self, part: Image) -> list[Json]:
        if not self._profile.images:
            raise Unsupported(part.at, "the upstream takes no images")
        written: Json = {"type": "input_image"}
        source = part.source
        if type(source) is Inline:
            written["image_url"] = f"data:{source.media_type};base64,{source.data}"
        elif type(source) is Url:
            if not self._profile.url_sources:
                raise Unsupported(part.at, "the upstream does not fetch images by URL; send the data inline")
            written["image_url"] = source.url
        else:
            assert type(source) is FileRef
            if source.origin not in _OPENAI:
                raise Unsupported(part.at, "an image in another provider's file store cannot be given to this upstream")
            written["file_id"] = source.id
        if part.detail is not None:
            written["detail"] = part.detail
        return [written]

    def _document(self, part: Document, result: bool) -> list[Json]:
        source = part.source
        if type(source) is not Url:
            written_parts = write_document(
                part, self._profile, self._losses, DIALECT, self._placeholders, result=result
            )
            return [_from_chat_part(written) for written in written_parts]
        if not (self._profile.url_sources and self._profile.pdf):
            raise Unsupported(part.at, "the upstream does not take documents by URL")
        if part.cite:
            self._losses.add(LossCode.CITATIONS_REQUEST, (*part.at, "citations"))
        parts = [input_text(part.context)] if part.context else []
        written: Json = {"type": "input_file", "file_url": source.url}
        if part.name is not None:
            written["filename"] = part.name
        return [*parts, written]

    # --- results ------------------------------------------------------------------------------------------------------

    def upstream_call_id(self, call_id: str) -> str:
        """Return the upstream's form of a call id."""
        return call_id if self._names.ids_fit else sanitize_call_id(call_id, self._profile.call_id_max)

    def write_results(self, results: list[ResultFields], items: list[Json]) -> None:
        """Append the output items of a compact turn of results."""
        fit = self._names.ids_fit
        for call_id, text, at, failed in results:
            if not text:
                items.append(self.result(ToolResult(call_id, text, at, failed)))
                continue
            if failed:
                self._losses.add(LossCode.IS_ERROR, (*at, "is_error"))
            item: Json = {
                "type": "function_call_output",
                "call_id": call_id if fit else self.upstream_call_id(call_id),
                "output": [{"type": "input_text", "text": text}] if self._one_shape and self._accepts_marks else text,
            }
            items.append(item)
            if self._accepts_marks and not self._one_shape:
                self._other_shape.append(item)

    def result(self, result: ToolResult) -> Json:
        """Return the output item of a function call or a free-text call."""
        if result.is_error:  # OpenAI has no flag; the content has to suffice (mapping §6.4)
            self._losses.add(LossCode.IS_ERROR, (*result.at, "is_error"))
        item: Json = {
            "type": "custom_tool_call_output" if result.custom else "function_call_output",
            "call_id": self.upstream_call_id(result.call_id),
        }
        content = result.content
        bare = isinstance(content, str)
        if isinstance(content, str):
            if content and result.cache is None:
                self.fill(item, "output", content, bare=True)
                return item
            parts = [input_text(content)] if content else []
        else:
            parts = []
            for part in content:
                if type(part) is Text and part.text and part.cache is None and not part.citations:
                    parts.append({"type": "input_text", "text": part.text})
                else:
                    self.add(part, parts, result=True)
        if not parts and result.is_error:
            parts.append(input_text(_FAILED))
            bare = True
        if result.cache is not None:
            self._mark(parts[-1] if parts else None, result, result.cache)
        if parts:
            self._fill(item, "output", parts, "\n", bare=bare)
        else:
            item["output"] = ""
        return item


def _from_chat_part(part: Json) -> Json:
    """Return a part of Chat in the form of Responses."""
    kind = part["type"]
    if kind == "text":
        return input_text(part["text"])
    if kind == "file":
        return {"type": "input_file", **part["file"]}
    image = part["image_url"]
    return {"type": "input_image", "image_url": image["url"], **{k: v for k, v in image.items() if k != "url"}}
