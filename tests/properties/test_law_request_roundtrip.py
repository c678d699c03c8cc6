"""Law: `read(write(request))` is the request in the dialect it came in, and no loss row means that nothing was lost."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, Knobs, Losses, builtin_profile
from dragoman.canonical.parts import Text
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.all_codecs import CODECS
from dragoman.tools.names import NameTable
from dragoman.wire.json_codec import dumps
from support.directions import CROSS, DIALECTS
from support.requests import Features, conversations

KNOBS = Knobs()
PLACES = {"at", "end_user_at", "max_tokens_at", "stop_at", "service_tier_at"}


def read(dialect: Dialect, body: Any, losses: Losses | None = None) -> Request:
    request: Request = CODECS[dialect].read_request(body, losses or Losses(), KNOBS)
    return request


def write(dialect: Dialect, request: Request, losses: Losses) -> Any:
    profile = builtin_profile(dialect)
    names = NameTable(profile.tool_name_max)
    body = CODECS[dialect].write_request(
        request, model=request.model, profile=profile, knobs=KNOBS, losses=losses, names=names
    )
    written = json.loads(dumps(body))
    note(written)
    return written


def without_places(value: Any) -> Any:
    """A canonical value as plain data, without where it stood and without what absence means anyway."""
    if isinstance(value, Turn):
        kept = {"role": value.role, "original": value.original, "plain": value.plain, "name": value.name}
        return {"": "Turn", "parts": without_places(value.parts), **kept}
    if is_dataclass(value):
        named = {f.name: without_places(getattr(value, f.name)) for f in fields(value) if f.name not in PLACES}
        return {"": type(value).__name__, **named}
    if isinstance(value, list | tuple):
        return [without_places(item) for item in value]
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items()}
    return value


def joined(parts: list[Any]) -> list[Any]:
    """Adjacent texts of an assistant's turn as one: Chat has one content there, and one mark on it (mapping §4.2)."""
    out: list[Any] = []
    for part in parts:
        if part[""] == "Text" and out and out[-1][""] == "Text":
            out[-1]["text"] += part["text"]
            out[-1]["cache"] = out[-1]["cache"] or part["cache"]
        else:
            out.append(part)
    return out


def shown_user(request: Request) -> str | None:
    """Long ids and JSON never leave as they are, but as a hash of 64 digits (mapping §7.4)."""
    user = request.end_user
    return "hashed" if user and (len(user) >= 64 or user.startswith("{")) else user


def normal(request: Request) -> Any:
    """The request as data. Turns of one role in a row are one turn to every model; arguments are what they parse to."""
    plain = without_places(request)
    turns: list[Any] = []
    for turn in plain["turns"]:
        for part in turn["parts"]:
            if part[""] == "ToolCall" and not part["custom"]:
                part["arguments"] = json.loads(part["arguments"] or "{}")
            if part[""] == "ToolResult" and not part["content"]:
                part["content"] = ""
        if request.origin == "chat" and turn["role"] == "assistant":
            turn["parts"] = joined(turn["parts"])
        del turn["plain"]
        if turn["original"] == "top":
            turn["original"] = ""
        turns.append(turn)
    plain["turns"] = turns
    plain["end_user"] = shown_user(request)
    # Chat asks for the usage chunk by an option; it is asked for upstream whatever the client stated (mapping §9.4).
    del plain["include_usage"]
    # A model with adaptive thinking takes a budget as the effort that it stands for (mapping §5.5).
    if plain["thinking"] is not None:
        del plain["thinking"]["budget"]
    # What the reply repeats of the request is the client's own words, not what they mean.
    del plain["echo"]
    return plain


def differences(one: Any, other: Any, at: str = "") -> list[str]:
    """Where two plain values differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{at}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            found for n, pair in enumerate(zip(one, other, strict=True)) for found in differences(*pair, f"{at}[{n}]")
        ]
    return [] if one == other else [f"{at}: {one!r} against {other!r}"]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_a_request_survives_writing_and_reading_in_its_own_dialect(dialect: Dialect, data: st.DataObject) -> None:
    request = read(dialect, data.draw(conversations(dialect)).body())
    losses = Losses()
    back = read(dialect, write(dialect, request, losses))
    if not losses:
        assert not differences(normal(back), normal(request))
    # What was lost is lost the first time: the second time nothing is.
    again = Losses()
    twice = read(dialect, write(dialect, back, again))
    assert not again
    assert not differences(normal(twice), normal(back))


# --- through the other dialect and back -------------------------------------------------------------------------------


def stated(request: Request) -> list[Any]:
    """The conversation as a model sees it: who stated what in which order, adjacent texts of one speaker joined."""
    out: list[Any] = []
    for turn in request.turns:
        for part in turn.parts:
            plain = without_places(part)
            if isinstance(part, Text):
                if out and out[-1][:2] == (turn.role, "text"):
                    # Blocks of instructions are one field in Responses, a blank line between (mapping §3).
                    apart = "\n\n" if turn.role == "instruction" else ""
                    out[-1] = (*out[-1][:2], out[-1][2] + apart + part.text)
                elif part.text:
                    out.append((turn.role, "text", part.text))
                continue
            if plain[""] == "ToolCall":
                plain["arguments"] = json.loads(part.arguments or "{}")  # type: ignore[union-attr]
            if plain[""] == "ToolResult" and isinstance(plain["content"], list):
                plain["content"] = "\n".join(piece["text"] for piece in plain["content"])
            out.append((turn.role, plain[""], plain))
    return out


def settings_of(request: Request) -> dict[str, Any]:
    """Return what both dialects can state beyond the conversation."""
    names = ("parallel", "temperature", "top_p", "stop", "stream")
    plain = without_places(request)
    tools = [(tool["name"], tool["description"], tool["schema"]) for tool in plain["tools"]]
    choice = request.tool_choice
    effort = request.thinking.effort if request.thinking is not None else None
    return {name: plain[name] for name in names} | {
        "tools": tools,
        "choice": (choice.mode, choice.names) if choice is not None and choice.mode != "auto" else None,
        "effort": effort,
        "end_user": shown_user(request),
    }


# Requests to Gemini are read back for counts only.
BACK = [row for row in CROSS if row.upstream.dialect in DIALECTS]


@pytest.mark.parametrize("row", BACK, ids=str)
@given(data=st.data())
def test_without_a_loss_row_nothing_is_lost_on_the_way_there_and_back(row: Direction, data: st.DataObject) -> None:
    home, abroad = row.client.dialect, row.upstream.dialect
    features = Features(losses=False, marks=False)
    request = read(home, data.draw(conversations(home, features)).body())
    losses = Losses()
    there = read(abroad, write(abroad, request, losses), losses)
    back = read(home, write(home, there, losses), losses)
    if losses:
        return
    # Results are matched by their call, so their order among themselves is silent.
    assert not differences(stated(back), stated(request))
    one, other = settings_of(back), settings_of(request)
    for settings in (one, other):
        # A tool without a schema has an empty one; a lonely prohibition of parallel calls needs tools.
        settings["tools"] = [(n, d, s or {"type": "object", "properties": {}}) for n, d, s in settings["tools"]]
        # Parallel calls are allowed where nothing is stated.
        settings["parallel"] = settings["parallel"] is not False
        if not settings["tools"]:
            settings["choice"] = None
    if abroad is Dialect.RESPONSES:
        del one["stop"], other["stop"]  # it has none: all of them are cut here
    elif len(one["stop"]) == 4:
        other["stop"] = other["stop"][:4]  # the rest is cut here
    if request.tool_choice is not None and request.tool_choice.mode == "none":
        one["parallel"] = other["parallel"]  # Messages has no place for it next to `none`
    assert not differences(one, other)
