"""Writes canonical turns as `systemInstruction` and `contents`.

Consecutive turns of one role become one content. The results of calls come first in the content after them, in the
order of the calls: the API pairs them by order, and rejects any other number of them.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.parts import (
    Document,
    Image,
    Native,
    Part,
    Reasoning,
    Recording,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolResult,
    Unread,
)
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn, reasoning_fields
from dragoman.dialects.generate.request.write_calls import CallWriter
from dragoman.dialects.generate.request.write_media import MediaWriter
from dragoman.dialects.generate.request.write_signatures import SignatureWriter
from dragoman.dialects.shared.placeholders import Placeholders
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.pad_first_user import PAD, PADDED
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_QUOTATION: Final = (
    "This is the beginning of your answer:\n\n<answer>\n{}\n</answer>\n\nGo on from its end, without repeating it."
)


class ContentWriter:
    """Writes the turns of one request. Call `write`.

    Args:
        request: the canonical request.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where dropped and changed parts are recorded.
        names: receives the upstream names of tools.
    """

    def __init__(self, request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> None:
        self._request, self._knobs, self._losses = request, knobs, losses
        self._placeholders = Placeholders(request.turns, losses)
        self._media = MediaWriter(profile, losses)
        self._calls = CallWriter(request.origin, profile, names, losses, self._media, self._placeholders)
        self._signatures = SignatureWriter(profile, knobs, losses)
        self._demotes = knobs.mid_system == "user"
        self._takes_system = profile.system
        self._system: list[Json] = []
        self._contents: list[Json] = []
        self._role = ""
        """The role of the open content, the last of `_contents`; empty before the first."""
        self._parts: list[Json] = []
        """Its parts."""
        self._turn_at: Path = ()
        """The path of its first turn."""
        self._open_calls: list[Json] = []
        """The calls in the last content of the model."""
        self._results: list[Json] = []
        """The results in the open content of the user. They join its parts when it is closed."""
        self._user_at: list[Path] = []
        """The paths of turns in the open content of the user that stand before no result so far."""

    def write(self) -> tuple[list[Json], list[Json]]:
        """Return the parts of `systemInstruction`, and `contents`. Without a conversation, the instructions are the
        user's.

        Raises `Unsupported` for content that the API cannot express, and for a conversation that ends on calls.
        """
        for turn in self._request.turns:
            if turn.name is not None:
                self._losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"))
            compact = turn.compact
            if type(compact) is list:
                if compact:
                    self._add_results(self._calls.write_texts(compact))
            elif turn.role == "assistant":
                self._assistant(turn)
            elif turn.role == "user":
                self._user(turn)
            else:
                self._instruction(turn)
        self._finish()
        if not self._contents and self._system:
            self._losses.add(LossCode.SYSTEM_DEMOTED, self._request.turns[0].at, "became the user's: there is no other")
            return [], [{"role": "user", "parts": self._system}]
        if not self._contents:
            at = "input" if self._request.origin == "responses" else "messages"
            raise Unsupported((at,), "a Gemini upstream needs at least one user message with content")
        if self._contents[0]["role"] == "model":  # the API refuses it: "first content should be with role user"
            first = next(turn for turn in self._request.turns if turn.role == "assistant" and not turn.is_empty())
            self._losses.add(LossCode.USER_PADDED, first.at, PADDED)
            self._contents.insert(0, {"role": "user", "parts": [{"text": PAD}]})
        return self._system, self._contents

    # --- contents ------------------------------------------------------------------------------------------------

    def _add(self, role: str, parts: list[Json], at: Path) -> None:
        """Add parts to the open content if it is of this role, else to a new one."""
        if role == self._role:
            self._parts += parts
            return
        if self._results:
            self._place_results()
        if role == "model":
            self._open_calls = []
        self._user_at.clear()
        self._role, self._turn_at, self._parts = role, at, parts
        self._contents.append({"role": role, "parts": parts})

    def _place_results(self) -> None:
        """Complete the open content of the user: put the results first, in the order of their calls."""
        if len(self._results) > 1:
            ids = (call["functionCall"]["id"] for call in self._open_calls)
            places = {call_id: place for place, call_id in enumerate(ids)}
            self._results.sort(key=lambda part: places.get(part["functionResponse"]["id"], len(places)))
        self._parts[:0] = self._results
        self._results = []

    def _finish(self) -> None:
        """End the conversation after the last turn. One that ends on the model's text is quoted, or as the knob
        `prefill` has it: models are not known to continue it."""
        if self._role != "model":
            self._place_results()
            return
        at, parts, prefill = self._turn_at, self._parts, self._knobs.prefill
        if self._open_calls:
            raise Unsupported(at, "the conversation ends on tool calls without results")
        if prefill == "reject":
            raise Unsupported(at, "the conversation ends on an assistant message, which this upstream refuses")
        if prefill == "pass":
            self._losses.add(LossCode.CONTINUATION, at, "sent as history")
            return
        self._contents.pop()
        if prefill == "drop":
            self._losses.add(LossCode.CONTINUATION, at)
            return
        self._losses.add(LossCode.CONTINUATION, at, "quoted at the end of a user message")
        if text := "".join(part.get("text", "") for part in parts if not part.get("thought")):
            if not self._contents:
                self._contents.append({"role": "user", "parts": []})
            self._contents[-1]["parts"].append({"text": _QUOTATION.format(text)})

    # --- turns ---------------------------------------------------------------------------------------------------

    def _instruction(self, turn: Turn) -> None:
        parts: list[Json] = []
        for part in turn.parts:
            if type(part) is not Text:
                raise Unsupported(part.at, "instructions can only be text for a Gemini upstream")
            parts += self._text(part)
        if not parts:
            return
        if self._takes_system and not self._contents:
            self._system += parts
        elif self._demotes or not self._takes_system:
            self._losses.add(LossCode.SYSTEM_DEMOTED, turn.at, "became user text")
            wrapped: list[Json] = [{"text": f"<system>\n{part['text']}\n</system>"} for part in parts]
            self._add("user", wrapped, turn.at)
        else:
            self._losses.add(LossCode.SYSTEM_MOVED, turn.at, "moved to the front")
            self._system += parts

    def _user(self, turn: Turn) -> None:
        if turn.is_empty():
            return
        results: list[Json] = []
        rest: list[Json] = []
        for part in turn.parts:
            if type(part) is ToolResult:
                results.append(self._calls.write_result(part, rest))
                continue
            try:
                rest += self._user_part(part)
            except ClientRequestError as error:
                rest.append({"text": self._placeholders.text(part, error)})
        if results:
            self._add_results(results)
        if rest:
            self._add("user", rest, turn.at)
            self._user_at.append(turn.at)

    def _add_results(self, results: list[Json]) -> None:
        """Add results to the open content of the user, before its other parts."""
        self._add("user", [], ())
        for at in self._user_at:
            self._losses.add(LossCode.BLOCK_ORDER, at, "moved after the tool results")
        self._user_at.clear()
        self._results += results

    def _user_part(self, part: Part) -> list[Json]:
        """Return a part of a user's turn. Raises `ClientRequestError` for what the upstream does not take."""
        if type(part) is Text:
            return self._text(part)
        if type(part) is Image:
            return self._media.image(part)
        if type(part) is Document:
            return self._media.document(part)
        if type(part) is Recording:
            return [self._media.recording(part)]
        if type(part) is SearchResult:
            return self._media.search_result(part)
        if type(part) is Native:
            self._losses.add(LossCode(part.code), part.at)
            return []
        if type(part) is Unread:
            raise part.error
        raise Unsupported(part.at, "this content cannot stand in a user message of a Gemini upstream")

    def _text(self, part: Text) -> list[Json]:
        self._media.drop_mark(part.cache, part.at)
        if part.citations:
            self._losses.add(LossCode.CITATIONS, part.at)
        return [{"text": part.text}] if part.text else []

    def _assistant(self, turn: Turn) -> None:
        signatures, compact = self._signatures, turn.compact
        written: list[Json] = []
        calls: list[Json] = []
        if type(compact) is tuple:
            reasoning, text, _, _, plain_calls = compact
            if reasoning:
                written += [block for block in map(signatures.reasoning, reasoning) if block is not None]
            if text:
                written.append({"text": text})
                if signatures.pending:
                    signatures.sign("text", written[-1])
            if plain_calls:
                calls = self._calls.write_calls(plain_calls)
                if signatures.pending:  # for the first one, as all reasoning stands before the calls
                    signatures.sign("functionCall", calls[0])
                written += calls
        else:
            for part in turn.parts:
                written += self._assistant_part(part)
            calls = [part for part in written if "functionCall" in part]
        if signatures.pending:
            signatures.end_turn()
        if written:
            self._add("model", written, turn.at)
            if calls:
                if not self._open_calls:
                    signatures.fill(calls[0], self._turn_at)
                self._open_calls += calls

    def _assistant_part(self, part: Part) -> list[Json]:
        signatures = self._signatures
        if type(part) is Text:
            return [signatures.sign("text", each) for each in self._text(part)]
        if type(part) is ToolCall:
            if part.custom or part.search or part.namespace is not None:
                what = "of a free-text (custom) tool" if part.custom else "into a namespace or tool search"
                raise Unsupported(part.at, f"a call {what} cannot be sent to a Gemini upstream")
            self._media.drop_mark(part.cache, part.at)
            [call] = self._calls.write_calls([(part.id, part.name, part.arguments, part.at)])
            return [signatures.sign("functionCall", call)]
        if type(part) is Reasoning:
            block = signatures.reasoning(reasoning_fields(part))
            return [] if block is None else [block]
        if type(part) is Refusal:
            return [{"text": part.text}] if part.text else []
        if type(part) is Native:
            self._losses.add(LossCode(part.code), part.at)
            return []
        raise Unsupported(part.at, "this content cannot stand in an assistant message of a Gemini upstream")
